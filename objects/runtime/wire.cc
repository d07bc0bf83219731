// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tmprof::objtrace {
namespace {

constexpr std::size_t kFirstCapacity = std::size_t{1} << 16;

// Equal to kMaxMessageBytes of proto/frame.h.
constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;

// Protobuf wire types.
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kLengthDelimited = 2;

// A single segment of raw blocks with its size in four bytes (RFC 8878).
constexpr std::uint32_t kZstdMagic = 0xFD2FB528;
constexpr std::byte kZstdDescriptor{0xA0};
constexpr std::size_t kMaxBlockBytes = std::size_t{1} << 17;
constexpr std::size_t kBlockHeaderBytes = 3;

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xEDB88320 : 0);
    table[i] = value;
  }
  return table;
}();

class Crc32 {
 public:
  void Add(const void* bytes, std::size_t size) {
    const auto* byte = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < size; ++i)
      state_ = (state_ >> 8) ^ kCrcTable[(state_ ^ byte[i]) & 255];
  }
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = ~std::uint32_t{0};
};

// Both the host and the format are little-endian.
struct BlockHeader {
  std::array<std::byte, kBlockHeaderBytes> bytes;
};

BlockHeader RawBlock(std::size_t size, bool last) {
  const std::uint32_t value = static_cast<std::uint32_t>(size) << 3 | std::uint32_t{last};
  return {{std::byte(value & 255), std::byte(value >> 8 & 255), std::byte(value >> 16 & 255)}};
}

// Calls `emit(bytes, size)` for each piece of the payload.
template <typename Emit>
void EachPiece(const Message& message, Emit emit) {
  const auto size = static_cast<std::uint32_t>(message.size());
  emit(&kZstdMagic, sizeof(kZstdMagic));
  emit(&kZstdDescriptor, sizeof(kZstdDescriptor));
  emit(&size, sizeof(size));
  std::size_t at = 0;
  do {
    const std::size_t block = std::min(message.size() - at, kMaxBlockBytes);
    const BlockHeader header = RawBlock(block, at + block == message.size());
    emit(header.bytes.data(), header.bytes.size());
    emit(message.data() + at, block);
    at += block;
  } while (at < message.size());
}

}  // namespace

Message::~Message() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
}

bool Message::Grow(std::size_t size) {
  std::size_t capacity = std::max(capacity_, kFirstCapacity);
  while (capacity < size) capacity *= 2;
  void* grown = data_ == nullptr ? ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return false;
  data_ = static_cast<std::byte*>(grown);
  capacity_ = capacity;
  return true;
}

void Message::Append(const void* bytes, std::size_t size) {
  if (failed_ || (size_ + size > capacity_ && !Grow(size_ + size))) {
    failed_ = true;
    return;
  }
  if (size > 0) std::memcpy(data_ + size_, bytes, size);
  size_ += size;
}

void Message::Varint(std::uint64_t value) {
  std::array<unsigned char, 10> bytes{};
  std::size_t size = 0;
  for (; value > 127; value >>= 7) bytes[size++] = static_cast<unsigned char>(value | 128);
  bytes[size++] = static_cast<unsigned char>(value);
  Append(bytes.data(), size);
}

void Message::Packed(std::uint64_t value) { Varint(value); }

void Message::Number(std::uint32_t field, std::uint64_t value) {
  if (value == 0) return;
  Varint(field << 3 | kVarint);
  Varint(value);
}

void Message::Bytes(std::uint32_t field, const void* bytes, std::size_t size) {
  if (size == 0) return;
  Varint(field << 3 | kLengthDelimited);
  Varint(size);
  Append(bytes, size);
}

void Message::Text(std::uint32_t field, const char* text) { Bytes(field, text, std::strlen(text)); }

void Message::Nested(std::uint32_t field, const Message& message) {
  failed_ = failed_ || message.failed();
  Varint(field << 3 | kLengthDelimited);
  Varint(message.size());
  Append(message.data(), message.size());
}

FrameFile::~FrameFile() {
  if (fd_ >= 0) ::close(fd_);
}

void FrameFile::Write(const void* bytes, std::size_t size) {
  const auto* at = static_cast<const std::byte*>(bytes);
  while (error_ == 0 && size > 0) {
    const ssize_t wrote = ::write(fd_, at, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      error_ = errno;
      return;
    }
    at += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
}

void FrameFile::Create(const char* path, int open_flags, const char (&magic)[9],
                       std::uint32_t version) {
  fd_ = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | open_flags, 0600);
  if (fd_ < 0) {
    error_ = errno;
    return;
  }
  Crc32 crc;
  crc.Add(magic, 8);
  crc.Add(&version, sizeof(version));
  const std::uint32_t sum = crc.value();
  Write(magic, 8);
  Write(&version, sizeof(version));
  Write(&sum, sizeof(sum));
}

void FrameFile::Append(std::uint32_t kind, const Message& message) {
  if (error_ == 0 && message.failed()) error_ = ENOMEM;
  if (error_ == 0 && message.size() > kMaxMessageBytes) error_ = EFBIG;
  if (error_ != 0) return;
  std::size_t payload_bytes = 0;
  EachPiece(message, [&](const void*, std::size_t size) { payload_bytes += size; });
  const std::array<std::uint32_t, 3> header{kind, static_cast<std::uint32_t>(payload_bytes),
                                            static_cast<std::uint32_t>(message.size())};
  Crc32 crc;
  crc.Add(header.data(), sizeof(header));
  EachPiece(message, [&](const void* bytes, std::size_t size) { crc.Add(bytes, size); });
  const std::uint32_t sum = crc.value();
  Write(header.data(), sizeof(header));
  Write(&sum, sizeof(sum));
  EachPiece(message, [&](const void* bytes, std::size_t size) { Write(bytes, size); });
}

void FrameFile::Close() {
  if (fd_ >= 0 && ::close(fd_) != 0 && error_ == 0) error_ = errno;
  fd_ = -1;
}

}  // namespace tmprof::objtrace
