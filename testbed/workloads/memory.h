// SPDX-License-Identifier: Apache-2.0
// The memory a workload accesses, all of it present before the first access that counts.

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

namespace tmprof::workload {

inline constexpr std::uint64_t kBasePageBytes = 4096;
inline constexpr std::uint64_t kHugePageBytes = 2 << 20;

enum class Sharing : bool { kPrivate, kShared };  // with processes forked later

// One anonymous mapping, aligned to 2 MiB and apart from its neighbours, touched once in
// address order so that first-touch order is address order. Huge pages are asked for or forbidden,
// never left to the system's default. Unmapped at destruction.
class Memory {
 public:
  // The error says what the kernel refused.
  static std::expected<Memory, std::string> Map(std::uint64_t footprint_bytes, bool huge,
                                                Sharing sharing = Sharing::kPrivate);

  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  std::uint64_t* words() const { return words_; }
  std::uint64_t footprint_bytes() const { return footprint_bytes_; }
  std::uint64_t start_address() const { return reinterpret_cast<std::uintptr_t>(words_); }

  // Makes it present in this process, as after a fork.
  std::expected<void, std::string> Populate() const;

  // How much of it the kernel backs with huge pages now (/proc/self/smaps).
  std::expected<std::uint64_t, std::string> HugeBytes() const;

 private:
  Memory(std::uint64_t* words, std::uint64_t footprint_bytes)
      : words_(words), footprint_bytes_(footprint_bytes) {}

  std::uint64_t* words_;
  std::uint64_t footprint_bytes_;
};

}  // namespace tmprof::workload
