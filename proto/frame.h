// SPDX-License-Identifier: Apache-2.0
// The framing of traces and ledgers, independent of their messages (docs/trace-format.md). Internal
// to proto/ and its tests.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tmprof {

inline constexpr std::size_t kMagicBytes = 8;
inline constexpr std::size_t kPreambleBytes = 16;
inline constexpr std::size_t kFrameHeaderBytes = 16;

// Limits on the claims of a frame, so that a small hostile file cannot ask for much memory. The
// writer keeps to them by padding a payload that compresses too well.
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kFreeMessageBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMaxExpansion = 64;  // message bytes per payload byte, beyond those

// A fault of a message, in words for people.
using Verdict = std::expected<void, std::string>;
inline std::unexpected<std::string> Wrong(std::string what) {
  return std::unexpected(std::move(what));
}

// A kind of file, and the words for messages about it.
struct FileFormat {
  std::string_view magic;        // has kMagicBytes bytes
  std::uint32_t version;         // written, and the newest that is read
  std::uint32_t oldest_version;  // the oldest that is read
  std::string_view noun;         // "trace"
  std::string_view contents;
  std::string_view use;     // how to use one, for messages that want another kind of file
  std::string_view writer;  // who writes it
  std::string_view option;  // " (-o)": the option that names the file to be written
  std::string_view source;  // a way to get one
};

inline constexpr FileFormat kTraceFormat{
    .magic = "\x89TMPROF\n",
    .version = 2,
    .oldest_version = 1,
    .noun = "trace",
    .contents = "what 'tmprof record' saw of a program's memory",
    .use = "the views of a trace are listed by 'tmprof report --help'",
    .writer = "recorder",
    .option = " (-o)",
    .source = "make one with 'tmprof record'"};
inline constexpr FileFormat kLedgerFormat{
    .magic = "\x89TMLEDG\n",
    .version = 1,
    .oldest_version = 1,
    .noun = "ledger",
    .contents = "the record of the pages that a placement daemon moved",
    .use = "see it with 'tmprof report FILE --view moves'",
    .writer = "daemon",
    .option = "",
    .source = "a placement daemon writes one"};
inline constexpr FileFormat kObjectsFormat{
    .magic = "\x89TMOBJS\n",
    .version = 1,
    .oldest_version = 1,
    .noun = "object profile",
    .contents = "what a program allocated and how often it accessed each object",
    .use = "it is what a program that 'tmprof cc' built leaves behind",
    .writer = "program",
    .option = " (TMPROF_OBJECTS)",
    .source = "build a program with 'tmprof cc' and run it"};

enum class FrameKind : std::uint32_t { kHeader = 1, kEpoch = 2, kEnd = 3 };

// Returns the 16 bytes before the first frame.
std::string EncodePreamble(std::string_view magic, std::uint32_t version);

// Not thread-safe.
class FrameEncoder {
 public:
  FrameEncoder();

  // Returns the whole frame, which is valid until the next call. A payload that is shorter than
  // `least_payload` is padded. Precondition: message.size() <= kMaxMessageBytes.
  std::string_view Encode(FrameKind kind, std::string_view message,
                          std::uint64_t least_payload = 0);

 private:
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;
  std::string frame_;
};

struct Frame {
  FrameKind kind;        // may be none of the known ones
  std::uint64_t offset;  // place of the frame's first byte in the file
  std::uint64_t payload_bytes;
  std::string_view message;  // valid until the next call
};

// Reads frames in order from anything that read(2) takes. Allocates in step with the bytes that
// really exist, whatever lengths the file claims. Not thread-safe.
class FrameReader {
 public:
  // `format` must outlive the reader.
  FrameReader(UniqueFd fd, std::filesystem::path path, const FileFormat& format);

  // Precondition: it is called once, first. A file of another known format is refused by the name
  // of that format.
  Status ReadPreamble();
  // Returns nullopt if the file ends between two frames.
  Result<std::optional<Frame>> Next();

  const std::filesystem::path& path() const { return path_; }
  const FileFormat& format() const { return *format_; }
  std::uint64_t offset() const { return offset_; }  // position in the file that Next() reads from
  // "cannot read trace file 'x': frame at byte 16: <what is wrong>".
  Error FrameError(std::uint64_t offset, std::string_view what) const;

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  // Appends up to `bytes` bytes to `payload_`; fewer only at the end of the file.
  Status Append(std::size_t bytes);

  std::string Attempt() const;

  UniqueFd fd_;
  std::filesystem::path path_;
  const FileFormat* format_;
  std::uint64_t offset_ = 0;
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::string payload_;
  std::string message_;
};

}  // namespace tmprof
