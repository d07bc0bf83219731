// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

namespace tmprof::workload {
namespace {

std::unexpected<std::string> SystemRefused(std::string_view attempt) {
  return std::unexpected(
      fmt::format("cannot {}: {} ({})", attempt, strerrorname_np(errno), std::strerror(errno)));
}

}  // namespace

std::expected<Memory, std::string> Memory::Map(std::uint64_t footprint_bytes, bool huge,
                                               Sharing sharing) {
  // At least one unmapped huge page stays on either side, so that the kernel merges the mapping
  // with no neighbour and a truth range never shares a mapping with something else.
  const std::uint64_t reserved_bytes = footprint_bytes + 3 * kHugePageBytes;
  void* reserved = ::mmap(nullptr, reserved_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return SystemRefused(fmt::format("reserve {} bytes of address space", reserved_bytes));
  }
  const auto low = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t start = (low / kHugePageBytes + 2) * kHugePageBytes;
  const std::uintptr_t end = start + footprint_bytes;
  ::munmap(reserved, start - low);
  ::munmap(reinterpret_cast<void*>(end), low + reserved_bytes - end);

  Memory memory(reinterpret_cast<std::uint64_t*>(start), footprint_bytes);
  const int flags = MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE |
                    (sharing == Sharing::kShared ? MAP_SHARED : MAP_PRIVATE);
  if (::mmap(memory.words_, footprint_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    return SystemRefused(fmt::format("map {} bytes", footprint_bytes));
  }
  if (::madvise(memory.words_, footprint_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0) {
    return SystemRefused(huge ? "ask for huge pages" : "forbid huge pages");
  }
  if (const auto present = memory.Populate(); !present) return std::unexpected(present.error());
  return memory;
}

// MADV_POPULATE_WRITE faults in address order and reports a shortage; a store would be SIGBUS.
std::expected<void, std::string> Memory::Populate() const {
  if (::madvise(words_, footprint_bytes_, MADV_POPULATE_WRITE) == 0) return {};
  return SystemRefused(fmt::format("fault in {} bytes", footprint_bytes_));
}

Memory::Memory(Memory&& other) noexcept
    : words_(std::exchange(other.words_, nullptr)), footprint_bytes_(other.footprint_bytes_) {}

Memory::~Memory() {
  if (words_ != nullptr) ::munmap(words_, footprint_bytes_);
}

std::expected<std::uint64_t, std::string> Memory::HugeBytes() const {
  std::ifstream smaps("/proc/self/smaps");
  if (!smaps) return SystemRefused("open /proc/self/smaps");
  std::uint64_t huge_bytes = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long start = 0;
    unsigned long end = 0;
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) {
      inside = start >= start_address() && end <= start_address() + footprint_bytes_;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kib) == 1) {
      huge_bytes += std::uint64_t{kib} * 1024;
    }
  }
  return huge_bytes;
}

}  // namespace tmprof::workload
