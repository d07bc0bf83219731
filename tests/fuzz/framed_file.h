// SPDX-License-Identifier: Apache-2.0
// The common part of the fuzz targets for files of frames: a file in memory, and mutations inside
// frames.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "proto/frame.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tmprof {

// A file in memory that a reader opens like any other.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("file", MFD_CLOEXEC)) { TMPROF_CHECK(fd_.valid()); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  void Fill(const std::uint8_t* data, std::size_t size) {
    TMPROF_CHECK(::ftruncate(fd_.get(), 0) == 0);
    TMPROF_CHECK(::pwrite(fd_.get(), data, size, 0) == static_cast<ssize_t>(size));
  }
  // Reads from the start; the descriptor's position is shared, so one reader at a time.
  UniqueFd Rewound() const {
    TMPROF_CHECK(::lseek(fd_.get(), 0, SEEK_SET) == 0);
    return UniqueFd(::dup(fd_.get()));
  }

 private:
  UniqueFd fd_;
};

// Every epoch up to the end or the damage.
template <typename Epoch, typename Reader>
std::vector<Epoch> ReadAll(Reader& reader) {
  std::vector<Epoch> epochs;
  Epoch epoch;
  while (true) {
    const Result<bool> more = reader.Next(epoch);
    if (!more || !*more) return epochs;
    epochs.push_back(epoch);
  }
}

// The messages of a file up to the first damage, with the kinds of their frames.
using Messages = std::vector<std::pair<FrameKind, std::string>>;

inline Messages Unframe(UniqueFd fd, const FileFormat& format) {
  Messages messages;
  FrameReader reader(std::move(fd), "input", format);
  if (!reader.ReadPreamble()) return messages;
  while (true) {
    const Result<std::optional<Frame>> frame = reader.Next();
    if (!frame || !*frame) return messages;
    messages.emplace_back((*frame)->kind, (*frame)->message);
  }
}

inline std::string Enframe(const Messages& messages, const FileFormat& format) {
  FrameEncoder encoder;
  std::string bytes = EncodePreamble(format.magic, format.version);
  for (const auto& [kind, message] : messages) bytes += encoder.Encode(kind, message);
  return bytes;
}

inline void Mutate(Messages& messages, std::minstd_rand& random) {
  const std::size_t victim = random() % messages.size();
  switch (random() % 8) {
    case 0:
      messages.push_back(messages[victim]);
      return;
    case 1:
      std::swap(messages[victim], messages.back());
      return;
    case 2:
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(victim));
      return;
    default:
      break;
  }
  std::string& message = messages[victim].second;
  const std::size_t size = message.size();
  message.resize(size + 64);
  message.resize(
      LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(message.data()), size, message.size()));
}

// Checksums and compression would stop nearly every mutation at the frame. So most mutations go to
// the messages inside, which are then framed again.
inline std::size_t MutateInside(const FileFormat& format, std::uint8_t* data, std::size_t size,
                                std::size_t max_size, unsigned int seed) {
  static MemoryFile input;
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  input.Fill(data, size);
  Messages messages = Unframe(input.Rewound(), format);
  if (messages.empty()) return LLVMFuzzerMutate(data, size, max_size);
  Mutate(messages, random);
  const std::string bytes = Enframe(messages, format);
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace tmprof
