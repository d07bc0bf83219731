// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"
#include "proto/epoch_codec.h"
#include "proto/frame.h"
#include "proto/trace.pb.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

constexpr mode_t kMode = S_IRUSR | S_IWUSR;
constexpr mode_t kModeBits = 07777;

std::string AdviceFor(int system_error) {
  switch (system_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free some space or write to another file system (-o)";
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOENT:
    case ENOTDIR:
      return "name a file in an existing folder that you may write to (-o)";
    case EISDIR:
      return "name a file, not a folder (-o)";
    case EWOULDBLOCK:
      return "another recorder is writing to it; name another file (-o)";
    default:
      return {};
  }
}

Error WriteError(const std::string& attempt, const std::filesystem::path& path, int system_error) {
  return Refused(attempt, path.string(), system_error, AdviceFor(system_error));
}

}  // namespace

struct TraceWriter::State {
  UniqueFd fd;
  std::filesystem::path path;
  bool regular = false;
  std::uint64_t bytes_written = 0;
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  std::optional<std::uint64_t> last_index;
  bool finished = false;
  std::optional<Error> error;
  MappingMemory mappings;
  FrameEncoder encoder;
  wire::Epoch epoch_message;
  std::string message;

  Status Open();
  // All of `bytes`, or none where the file can be cut back.
  Status Append(const std::string& attempt, std::string_view bytes);
  Status AppendFrame(const std::string& attempt, FrameKind kind,
                     const google::protobuf::MessageLite& contents);
};

Status TraceWriter::State::Open() {
  constexpr const char* kAttempt = "create trace file";
  fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode));
  if (!fd) return Fail(WriteError(kAttempt, path, errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return Fail(WriteError(kAttempt, path, errno));
  regular = S_ISREG(status.st_mode);
  if (!regular) return {};
  // File systems without locks are no reason not to record.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Fail(WriteError(kAttempt, path, errno));
  }
  // A trace tells what a program does in memory: nobody else's business, whatever was there before.
  const mode_t mode = status.st_mode & kModeBits;
  if ((mode & ~kMode) != 0 && ::fchmod(fd.get(), mode & kMode) != 0) {
    return Fail(WriteError("restrict the mode of trace file", path, errno));
  }
  if (::ftruncate(fd.get(), 0) != 0) return Fail(WriteError(kAttempt, path, errno));
  return {};
}

Status TraceWriter::State::Append(const std::string& attempt, std::string_view bytes) {
  const std::uint64_t before = bytes_written;
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      error = WriteError(attempt, path, errno);
      bytes_written = before;
      if (regular && ::ftruncate(fd.get(), static_cast<off_t>(before)) != 0) {
        error->reason =
            fmt::format("and cannot cut it back to {} bytes: {}", before, ErrnoText(errno));
      }
      return Fail(*error);
    }
    bytes_written += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Status TraceWriter::State::AppendFrame(const std::string& attempt, FrameKind kind,
                                       const google::protobuf::MessageLite& contents) {
  if (const std::size_t bytes = contents.ByteSizeLong(); bytes > kMaxMessageBytes) {
    error = Error{.attempt = attempt,
                  .object = path.string(),
                  .reason = fmt::format("it has {} bytes uncompressed, the format holds {}", bytes,
                                        kMaxMessageBytes),
                  .advice = "use shorter epochs or fewer targets"};
    return Fail(*error);
  }
  TMPROF_CHECK(contents.SerializeToString(&message));
  return Append(attempt, encoder.Encode(kind, message));
}

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::Create(const std::filesystem::path& path, const TraceInfo& info) {
  if (path == "-") {
    return Fail(BadInput("create trace file", "-", "a trace is not written to standard output",
                         "name a file, or /dev/stdout if you mean it"));
  }
  auto state = std::make_unique<State>();
  state->path = path;
  if (Status status = state->Open(); !status) return Fail(status.error());
  constexpr const char* kAttempt = "write the header of trace file";
  wire::TraceHeader header;
  EncodeInfo(info, header);
  if (Status status = state->Append(kAttempt, EncodePreamble(kTraceVersion)); !status) {
    return Fail(status.error());
  }
  if (Status status = state->AppendFrame(kAttempt, FrameKind::kHeader, header); !status) {
    return Fail(status.error());
  }
  return TraceWriter(std::move(state));
}

Status TraceWriter::Write(const EpochProfile& epoch) {
  State& s = *state_;
  if (s.error) return Fail(*s.error);
  TMPROF_CHECK(!s.finished && (!s.last_index || *s.last_index < epoch.index));
  EncodeEpoch(epoch, s.mappings, s.epoch_message);
  const std::string attempt = fmt::format("write epoch {} to trace file", epoch.index);
  if (Status status = s.AppendFrame(attempt, FrameKind::kEpoch, s.epoch_message); !status) {
    return status;
  }
  s.last_index = epoch.index;
  ++s.epochs;
  s.records += epoch.pages.size();
  return {};
}

Status TraceWriter::Finish() {
  State& s = *state_;
  if (s.error) return Fail(*s.error);
  TMPROF_CHECK(!s.finished);
  constexpr const char* kAttempt = "finish trace file";
  wire::TraceEnd end;
  end.set_epochs(s.epochs);
  end.set_records(s.records);
  if (Status status = s.AppendFrame(kAttempt, FrameKind::kEnd, end); !status) return status;
  // Pipes and devices have nothing to synchronise and say EINVAL.
  if (::fsync(s.fd.get()) != 0 && (s.regular || errno != EINVAL)) {
    s.error = WriteError(kAttempt, s.path, errno);
    return Fail(*s.error);
  }
  s.finished = true;
  return {};
}

std::uint64_t TraceWriter::bytes_written() const { return state_->bytes_written; }

}  // namespace tmprof
