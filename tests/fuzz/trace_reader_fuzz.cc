// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the trace reader, make it spend memory that the file does not justify, or get
// a profile past it that the writer would not have written.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/trace_file.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace tmprof {
namespace {

// A file in memory that the reader opens like any other.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("trace", MFD_CLOEXEC)) { TMPROF_CHECK(fd_.valid()); }

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

std::vector<EpochProfile> ReadAll(const std::string& path) {
  std::vector<EpochProfile> epochs;
  Result<TraceReader> reader = TraceReader::Open(path);
  if (!reader) return epochs;
  EpochProfile epoch;
  while (true) {
    const Result<bool> more = reader->Next(epoch);
    if (!more || !*more) return epochs;
    epochs.push_back(epoch);
  }
}

// The messages of a trace up to the first damage, with the kinds of their frames.
using Messages = std::vector<std::pair<FrameKind, std::string>>;

Messages Unframe(UniqueFd fd) {
  Messages messages;
  FrameReader reader(std::move(fd), "input", kTraceFormat);
  if (!reader.ReadPreamble()) return messages;
  while (true) {
    const Result<std::optional<Frame>> frame = reader.Next();
    if (!frame || !*frame) return messages;
    messages.emplace_back((*frame)->kind, (*frame)->message);
  }
}

std::string Enframe(const Messages& messages) {
  FrameEncoder encoder;
  std::string bytes = EncodePreamble(kTraceFormat.magic, kTraceFormat.version);
  for (const auto& [kind, message] : messages) bytes += encoder.Encode(kind, message);
  return bytes;
}

void Mutate(Messages& messages, std::minstd_rand& random) {
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

}  // namespace
}  // namespace tmprof

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tmprof::MemoryFile input;
  static tmprof::MemoryFile copy;
  input.Fill(data, size);
  const std::vector<tmprof::EpochProfile> epochs = tmprof::ReadAll(input.path());
  tmprof::Result<tmprof::TraceWriter> writer = tmprof::TraceWriter::Create(copy.path(), {});
  TMPROF_CHECK(writer.has_value());
  for (const tmprof::EpochProfile& epoch : epochs) {
    TMPROF_CHECK(writer->Write(epoch).has_value());  // checks the rules of a profile
  }
  TMPROF_CHECK(writer->Finish().has_value());
  TMPROF_CHECK(tmprof::ReadAll(copy.path()) == epochs);
  return 0;
}

// Checksums and compression would stop nearly every mutation at the frame. So most mutations go to
// the messages inside, which are then framed again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  static tmprof::MemoryFile input;
  std::minstd_rand random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  input.Fill(data, size);
  tmprof::Messages messages = tmprof::Unframe(input.Rewound());
  if (messages.empty()) return LLVMFuzzerMutate(data, size, max_size);
  tmprof::Mutate(messages, random);
  const std::string bytes = tmprof::Enframe(messages);
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
