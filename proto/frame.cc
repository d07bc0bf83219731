// SPDX-License-Identifier: Apache-2.0

#include "proto/frame.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::size_t kReadStepBytes = std::size_t{1} << 20;
constexpr int kCompressionLevel = 3;

// A zstd skippable frame has a magic number, a length and ignored bytes (RFC 8878, section 3.1.2).
constexpr std::uint32_t kSkippableMagic = 0x184D2A50;
constexpr std::size_t kSkippableHeaderBytes = 8;

void AppendLe32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint32_t LoadLe32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::uint32_t Crc32(std::uint32_t crc, std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Returns the smallest payload that may hold a message of this length.
std::uint64_t MinPayloadBytes(std::uint64_t message_bytes) {
  if (message_bytes <= kFreeMessageBytes) return 0;
  return (message_bytes - kFreeMessageBytes + kMaxExpansion - 1) / kMaxExpansion;
}

std::string Versions(const FileFormat& format) {
  if (format.oldest_version == format.version) return fmt::format("version {}", format.version);
  return fmt::format("versions {} to {}", format.oldest_version, format.version);
}

}  // namespace

std::string EncodePreamble(std::string_view magic, std::uint32_t version) {
  std::string preamble(magic);
  AppendLe32(preamble, version);
  AppendLe32(preamble, Crc32(0, preamble));
  TMPROF_CHECK(preamble.size() == kPreambleBytes);
  return preamble;
}

void FrameEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

FrameEncoder::FrameEncoder() : context_(ZSTD_createCCtx()) { TMPROF_CHECK(context_ != nullptr); }

std::string_view FrameEncoder::Encode(FrameKind kind, std::string_view message,
                                      std::uint64_t least_payload) {
  TMPROF_CHECK(message.size() <= kMaxMessageBytes);
  frame_.resize(kFrameHeaderBytes + ZSTD_compressBound(message.size()));
  const std::size_t compressed = ZSTD_compressCCtx(
      context_.get(), frame_.data() + kFrameHeaderBytes, frame_.size() - kFrameHeaderBytes,
      message.data(), message.size(), kCompressionLevel);
  TMPROF_CHECK(!ZSTD_isError(compressed));
  frame_.resize(kFrameHeaderBytes + compressed);
  const std::uint64_t least = std::max(least_payload, MinPayloadBytes(message.size()));
  if (compressed < least) {
    const std::size_t missing = least - compressed;
    const std::size_t padding = missing - std::min(missing, kSkippableHeaderBytes);
    AppendLe32(frame_, kSkippableMagic);
    AppendLe32(frame_, static_cast<std::uint32_t>(padding));
    frame_.append(padding, '\0');
  }

  const std::string_view payload = std::string_view(frame_).substr(kFrameHeaderBytes);
  std::string header;
  AppendLe32(header, static_cast<std::uint32_t>(kind));
  AppendLe32(header, static_cast<std::uint32_t>(payload.size()));
  AppendLe32(header, static_cast<std::uint32_t>(message.size()));
  AppendLe32(header, Crc32(Crc32(0, header), payload));
  frame_.replace(0, kFrameHeaderBytes, header);
  return frame_;
}

void FrameReader::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

FrameReader::FrameReader(UniqueFd fd, std::filesystem::path path, const FileFormat& format)
    : fd_(std::move(fd)), path_(std::move(path)), format_(&format), context_(ZSTD_createDCtx()) {
  TMPROF_CHECK(context_ != nullptr);
}

std::string FrameReader::Attempt() const { return fmt::format("read {} file", format_->noun); }

Error FrameReader::FrameError(std::uint64_t offset, std::string_view what) const {
  return BadInput(Attempt(), path_.string(),
                  fmt::format("frame at byte offset {}: {}", offset, what));
}

Status FrameReader::Append(std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t filled = payload_.size();
    const std::size_t step = std::min(bytes, kReadStepBytes);
    payload_.resize(filled + step);
    const ssize_t got = ::read(fd_.get(), payload_.data() + filled, step);
    const int error = errno;
    payload_.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return {};
    if (got < 0) {
      if (error == EINTR) continue;
      return Fail(Refused(Attempt(), path_.string(), error));
    }
    offset_ += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Status FrameReader::ReadPreamble() {
  payload_.clear();
  if (Status status = Append(kPreambleBytes); !status) return status;
  const std::string_view magic = std::string_view(payload_).substr(0, kMagicBytes);
  for (const FileFormat* other : {&kTraceFormat, &kLedgerFormat, &kObjectsFormat}) {
    if (other->magic != format_->magic && other->magic == magic) {
      return Fail(BadInput(Attempt(), path_.string(),
                           fmt::format("it is a tmprof {}, {}, and no {}", other->noun,
                                       other->contents, format_->noun),
                           std::string(other->use)));
    }
  }
  if (payload_.empty() || !format_->magic.starts_with(magic)) {
    return Fail(BadInput(Attempt(), path_.string(),
                         fmt::format("not a tmprof {}: {}", format_->noun,
                                     payload_.empty() ? "the file is empty"
                                                      : "wrong magic number at byte offset 0")));
  }
  if (payload_.size() < kPreambleBytes) {
    return Fail(
        BadInput(Attempt(), path_.string(),
                 fmt::format("the file is cut at byte offset {}, within its preamble of {} bytes",
                             payload_.size(), kPreambleBytes)));
  }
  constexpr std::size_t kVersionAt = kMagicBytes;
  constexpr std::size_t kCrcAt = kVersionAt + 4;
  if (LoadLe32(payload_, kCrcAt) != Crc32(0, std::string_view(payload_).substr(0, kCrcAt))) {
    return Fail(
        BadInput(Attempt(), path_.string(),
                 fmt::format("damaged: the checksum at byte offset {} does not match the format "
                             "version at byte offset {}",
                             kCrcAt, kVersionAt)));
  }
  const std::uint32_t version = LoadLe32(payload_, kVersionAt);
  if (version < format_->oldest_version || version > format_->version) {
    return Fail(BadInput(Attempt(), path_.string(),
                         fmt::format("format version {} at byte offset {}; this tmprof understands "
                                     "{}",
                                     version, kVersionAt, Versions(*format_)),
                         version > format_->version ? "read it with a newer tmprof" : ""));
  }
  return {};
}

Result<std::optional<Frame>> FrameReader::Next() {
  const std::uint64_t start = offset_;
  payload_.clear();
  if (Status status = Append(kFrameHeaderBytes); !status) return Fail(status.error());
  if (payload_.empty()) return std::nullopt;
  if (payload_.size() < kFrameHeaderBytes) {
    return Fail(
        FrameError(start, fmt::format("the file is cut at byte offset {}, within the frame's "
                                      "header of {} bytes",
                                      offset_, kFrameHeaderBytes)));
  }
  const std::uint32_t kind = LoadLe32(payload_, 0);
  const std::uint32_t payload_bytes = LoadLe32(payload_, 4);
  const std::uint32_t message_bytes = LoadLe32(payload_, 8);
  const std::uint32_t expected_crc = LoadLe32(payload_, 12);
  const std::uint32_t header_crc = Crc32(0, std::string_view(payload_).substr(0, 12));
  if (message_bytes > kMaxMessageBytes || payload_bytes < MinPayloadBytes(message_bytes)) {
    return Fail(FrameError(start, fmt::format("damaged: {} bytes cannot hold a message of {}",
                                              payload_bytes, message_bytes)));
  }
  payload_.clear();
  if (Status status = Append(payload_bytes); !status) return Fail(status.error());
  if (payload_.size() < payload_bytes) {
    return Fail(FrameError(start, fmt::format("cut or damaged: {} bytes announced, {} left in the "
                                              "file",
                                              payload_bytes, payload_.size())));
  }
  if (Crc32(header_crc, payload_) != expected_crc) {
    return Fail(FrameError(start, "damaged: the checksum does not match"));
  }
  message_.resize(message_bytes);
  const std::size_t decompressed = ZSTD_decompressDCtx(
      context_.get(), message_.data(), message_.size(), payload_.data(), payload_.size());
  if (ZSTD_isError(decompressed)) {
    return Fail(FrameError(
        start, fmt::format("cannot be decompressed: {}", ZSTD_getErrorName(decompressed))));
  }
  if (decompressed != message_bytes) {
    return Fail(FrameError(
        start, fmt::format("decompresses to {} bytes instead of {}", decompressed, message_bytes)));
  }
  return Frame{.kind = static_cast<FrameKind>(kind),
               .offset = start,
               .payload_bytes = payload_bytes,
               .message = message_};
}

}  // namespace tmprof
