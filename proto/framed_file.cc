// SPDX-License-Identifier: Apache-2.0

#include "proto/framed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "proto/message_memory.h"

namespace tmprof {
namespace {

constexpr mode_t kMode = S_IRUSR | S_IWUSR;
constexpr mode_t kModeBits = 07777;

std::string AdviceFor(const FileFormat& format, int system_error) {
  switch (system_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fmt::format("free some space or write to another file system{}", format.option);
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
      return fmt::format("name a file in an existing folder that you may write to{}",
                         format.option);
    case EISDIR:
      return fmt::format("name a file, not a folder{}", format.option);
    case EWOULDBLOCK:
      return fmt::format("another {} is writing to it; name another file{}", format.writer,
                         format.option);
    default:
      return {};
  }
}

std::string Attempt(std::string_view verb, const FileFormat& format) {
  return fmt::format("{} {} file", verb, format.noun);
}

}  // namespace

FramedFileWriter::FramedFileWriter(const FileFormat& format, std::filesystem::path path)
    : format_(&format), path_(std::move(path)) {}

Error FramedFileWriter::WriteError(const std::string& attempt, int system_error) const {
  return Refused(attempt, path_.string(), system_error, AdviceFor(*format_, system_error));
}

Status FramedFileWriter::Open() {
  const std::string attempt = Attempt("create", *format_);
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode));
  if (!fd_) return Fail(WriteError(attempt, errno));
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) return Fail(WriteError(attempt, errno));
  regular_ = S_ISREG(status.st_mode);
  if (!regular_) return {};
  // A file system without locks is no reason to refuse a recording.
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Fail(WriteError(attempt, errno));
  }
  // The file shows what a program does in memory and is private, whatever mode it had before.
  const mode_t mode = status.st_mode & kModeBits;
  if ((mode & ~kMode) != 0 && ::fchmod(fd_.get(), mode & kMode) != 0) {
    return Fail(WriteError(Attempt("restrict the mode of", *format_), errno));
  }
  if (::ftruncate(fd_.get(), 0) != 0) return Fail(WriteError(attempt, errno));
  return {};
}

Status FramedFileWriter::Append(const std::string& attempt, std::string_view bytes) {
  const std::uint64_t before = bytes_written_;
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      error_ = WriteError(attempt, errno);
      bytes_written_ = before;
      if (regular_ && ::ftruncate(fd_.get(), static_cast<off_t>(before)) != 0) {
        error_->reason =
            fmt::format("and cannot cut it back to {} bytes: {}", before, ErrnoText(errno));
      }
      return Fail(*error_);
    }
    bytes_written_ += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Status FramedFileWriter::AppendFrame(const std::string& attempt, FrameKind kind,
                                     const google::protobuf::Message& contents,
                                     std::uint64_t least_file_bytes, std::uint64_t more_memory) {
  if (const std::size_t bytes = contents.ByteSizeLong(); bytes > kMaxMessageBytes) {
    error_ = Error{.attempt = attempt,
                   .object = path_.string(),
                   .reason = fmt::format("it has {} bytes uncompressed, the format holds {}", bytes,
                                         kMaxMessageBytes),
                   .advice = "use shorter epochs or fewer targets"};
    return Fail(*error_);
  }
  TMPROF_CHECK(contents.SerializeToString(&message_));
  const std::uint64_t memory = MessageMemory(message_, *contents.GetDescriptor()) + more_memory;
  const std::uint64_t for_memory =
      (std::max(memory, kFreeMessageMemory) - kFreeMessageMemory + kMemoryPerPayloadByte - 1) /
      kMemoryPerPayloadByte;
  const std::uint64_t before_payload = bytes_written_ + kFrameHeaderBytes;
  const std::uint64_t for_length = std::max(least_file_bytes, before_payload) - before_payload;
  return Append(attempt, encoder_.Encode(kind, message_, std::max(for_memory, for_length)));
}

Result<FramedFileWriter> FramedFileWriter::Create(const FileFormat& format,
                                                  const std::filesystem::path& path,
                                                  const google::protobuf::Message& header) {
  if (path == "-") {
    return Fail(BadInput(Attempt("create", format), "-",
                         fmt::format("a {} is not written to standard output", format.noun),
                         "name a file, or /dev/stdout if you mean it"));
  }
  FramedFileWriter writer(format, path);
  if (Status status = writer.Open(); !status) return Fail(status.error());
  const std::string attempt = Attempt("write the header of", format);
  if (Status status = writer.Append(attempt, EncodePreamble(format.magic, format.version));
      !status) {
    return Fail(status.error());
  }
  if (Status status = writer.AppendFrame(attempt, FrameKind::kHeader, header); !status) {
    return Fail(status.error());
  }
  return writer;
}

Status FramedFileWriter::AppendEpoch(std::uint64_t index, const google::protobuf::Message& epoch,
                                     std::uint64_t least_file_bytes, std::uint64_t more_memory) {
  if (error_) return Fail(*error_);
  TMPROF_CHECK(!finished_ && (!last_index_ || *last_index_ < index));
  const std::string attempt = Attempt(fmt::format("write epoch {} to", index), *format_);
  if (Status status = AppendFrame(attempt, FrameKind::kEpoch, epoch, least_file_bytes, more_memory);
      !status)
    return status;
  last_index_ = index;
  return {};
}

Status FramedFileWriter::Finish(const google::protobuf::Message& end) {
  if (error_) return Fail(*error_);
  TMPROF_CHECK(!finished_);
  const std::string attempt = Attempt("finish", *format_);
  if (Status status = AppendFrame(attempt, FrameKind::kEnd, end); !status) return status;
  // Pipes and devices have nothing to sync and return EINVAL.
  if (::fsync(fd_.get()) != 0 && (regular_ || errno != EINVAL)) {
    error_ = WriteError(attempt, errno);
    return Fail(*error_);
  }
  finished_ = true;
  return {};
}

std::unexpected<Error> FramedFileReader::Damaged(const Frame& frame, std::string_view what) const {
  return Fail(frames_.FrameError(frame.offset, what));
}

Result<FramedFileReader> FramedFileReader::Open(const FileFormat& format,
                                                const std::filesystem::path& path,
                                                const Read& read_header) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    return Fail(Refused(Attempt("open", format), path.string(), error,
                        error == ENOENT ? std::string(format.source) : ""));
  }
  FramedFileReader reader(FrameReader(std::move(fd), path, format));
  FrameReader& frames = reader.frames_;
  if (Status status = frames.ReadPreamble(); !status) return Fail(status.error());
  const Result<std::optional<Frame>> next = frames.Next();
  if (!next) return Fail(next.error());
  const std::optional<Frame>& frame = *next;
  if (!frame) return Fail(frames.FrameError(kPreambleBytes, "the file is cut before its header"));
  if (frame->kind != FrameKind::kHeader) {
    return reader.Damaged(*frame, "it is not the header, which comes first");
  }
  if (Verdict verdict = read_header(*frame); !verdict) {
    return reader.Damaged(*frame, verdict.error());
  }
  return reader;
}

Status FramedFileReader::ReadEnd(const Frame& frame, const Read& read_end) {
  if (Verdict verdict = read_end(frame); !verdict) return Damaged(frame, verdict.error());
  const Result<std::optional<Frame>> next = frames_.Next();
  if (!next) return Fail(next.error());
  const std::optional<Frame>& after = *next;
  if (after) {
    return Damaged(*after, fmt::format("it follows the end of the {}", frames_.format().noun));
  }
  return {};
}

Result<bool> FramedFileReader::ReadOn(const Read& read_epoch, const Read& read_end) {
  while (true) {
    const Result<std::optional<Frame>> next = frames_.Next();
    if (!next) return Fail(next.error());
    const std::optional<Frame>& frame = *next;
    if (!frame) return false;
    switch (frame->kind) {
      case FrameKind::kEpoch: {
        if (Verdict verdict = read_epoch(*frame); !verdict) {
          return Damaged(*frame, verdict.error());
        }
        return true;
      }
      case FrameKind::kEnd: {
        if (Status status = ReadEnd(*frame, read_end); !status) return Fail(status.error());
        finished_ = true;
        return false;
      }
      case FrameKind::kHeader:
        return Damaged(*frame, "it is a second header");
    }
    // Readers skip unknown kinds, which later versions may write (docs/trace-format.md).
  }
}

Result<bool> FramedFileReader::Next(const Read& read_epoch, const Read& read_end) {
  if (error_) return Fail(*error_);
  if (at_end_) return false;
  const Result<bool> more = ReadOn(read_epoch, read_end);
  if (!more) error_ = more.error();
  if (more && !*more) at_end_ = true;
  return more;
}

StreamEnd FramedFileReader::End() const {
  StreamEnd end;
  end.finished = finished_;
  if (!finished_) end.byte_offset = frames_.offset();
  return end;
}

std::uint64_t MostMemory(const Frame& frame) {
  return kFreeMessageMemory + kMemoryPerPayloadByte * frame.payload_bytes;
}

Verdict CheckMemory(const Frame& frame, std::string_view what, std::uint64_t memory) {
  const std::uint64_t most = MostMemory(frame);
  if (memory <= most) return {};
  return std::unexpected(
      fmt::format("the {} would take {} MiB of memory, and of {} bytes it may take {}", what,
                  memory >> 20, frame.payload_bytes, most >> 20));
}

Verdict Parse(const Frame& frame, std::string_view what, google::protobuf::Message& parsed) {
  const std::uint64_t memory = MessageMemory(frame.message, *parsed.GetDescriptor());
  if (Verdict verdict = CheckMemory(frame, what, memory); !verdict) return verdict;
  if (parsed.ParseFromArray(frame.message.data(), static_cast<int>(frame.message.size()))) {
    return {};
  }
  return std::unexpected(fmt::format("the {} is not a protobuf message", what));
}

}  // namespace tmprof
