// SPDX-License-Identifier: Apache-2.0
// Writes Protobuf messages in the frames of docs/trace-format.md. It uses neither library, because
// it runs in other people's programs. The payload is zstd without compression.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tmprof::objtrace {

// A message that grows. If memory runs out it drops the rest, and failed() is true.
class Message {
 public:
  Message() = default;
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void Number(std::uint32_t field, std::uint64_t value);  // writes nothing for 0, the default
  void Text(std::uint32_t field, const char* text);
  void Bytes(std::uint32_t field, const void* bytes, std::size_t size);
  void Nested(std::uint32_t field, const Message& message);
  void Packed(std::uint64_t value);  // one element; Nested() then makes them a packed field
  void Clear() { size_ = 0; }

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool failed() const { return failed_; }

 private:
  void Append(const void* bytes, std::size_t size);
  void Varint(std::uint64_t value);
  bool Grow(std::size_t size);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  bool failed_ = false;
};

class FrameFile {
 public:
  FrameFile() = default;
  ~FrameFile();
  FrameFile(const FrameFile&) = delete;
  FrameFile& operator=(const FrameFile&) = delete;

  // After the first error all calls do nothing; error() is its errno, or 0. `open_flags`: further
  // flags for open(2).
  void Create(const char* path, int open_flags, const char (&magic)[9], std::uint32_t version);
  // Fails with EFBIG if proto/frame.h would refuse to read it.
  void Append(std::uint32_t kind, const Message& message);
  void Close();
  int error() const { return error_; }

 private:
  void Write(const void* bytes, std::size_t size);

  int fd_ = -1;
  int error_ = 0;
};

}  // namespace tmprof::objtrace
