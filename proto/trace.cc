// SPDX-License-Identifier: Apache-2.0

#include "proto/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "proto/trace_file.h"

namespace tmprof {
namespace {

// Refuses pipes. Other faults of the file are left to its reader.
Status RequireRereadable(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd || ::lseek(fd.get(), 0, SEEK_CUR) >= 0 || errno != ESPIPE) return {};
  struct stat status{};
  const bool is_pipe = ::fstat(fd.get(), &status) == 0 && S_ISFIFO(status.st_mode);
  return Fail(BadInput("read trace file", path.string(),
                       is_pipe ? "it is a pipe, and a trace is read more than once"
                               : "it cannot be rewound, and a trace is read more than once",
                       "save it to a file"));
}

}  // namespace

Result<Trace> OpenTraceFile(const std::filesystem::path& path, const ExtensionCodec* codec) {
  if (Status rereadable = RequireRereadable(path); !rereadable) return Fail(rereadable.error());
  const Result<TraceReader> probe = TraceReader::Open(path, codec);
  if (!probe) return Fail(ExplainRefusal(probe.error(), path));
  return Trace{.name = path.filename().string(),
               .path = path,
               .info = probe->info(),
               .open = [path, codec]() -> Result<std::unique_ptr<EpochStream>> {
                 Result<TraceReader> reader = TraceReader::Open(path, codec);
                 if (!reader) return Fail(std::move(reader.error()));
                 return std::make_unique<TraceReader>(std::move(*reader));
               }};
}

Error ExplainRefusal(Error error, const std::filesystem::path& path) {
  struct stat status{};
  if (error.system_error != EACCES || ::stat(path.c_str(), &status) != 0) return error;
  return ExplainOwner(std::move(error), status.st_uid, ::geteuid());
}

Error ExplainOwner(Error error, uid_t owner, uid_t reader) {
  if (error.system_error != EACCES || owner == reader) return error;
  error.advice = fmt::format(
      "it belongs to {}, as what was recorded under sudo does: read it under sudo, or make it "
      "yours "
      "with 'sudo chown \"$USER\" {}'",
      owner == 0 ? std::string("root") : fmt::format("user {}", owner), error.object);
  return error;
}

Status RefuseToOverwrite(const Trace& trace, const std::filesystem::path& output) {
  if (!trace.path) return {};
  return RefuseToOverwrite(*trace.path, output);
}

Status RefuseToOverwrite(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;  // set if the file does not exist, and then it is no other file
  if (!std::filesystem::equivalent(input, output, ignored)) return {};
  return Fail(BadInput("write file", output.string(), "it is the trace, or what is read beside it",
                       "name another file"));
}

Result<StreamEnd> ReadEpochs(const Trace& trace, EpochRange range,
                             const std::function<void(const EpochProfile&)>& visit) {
  const Result<std::unique_ptr<EpochStream>> stream = trace.open();
  if (!stream) return Fail(stream.error());
  return ReadToEnd(**stream, [&](const EpochProfile& epoch) {
    if (range.Contains(epoch.index)) visit(epoch);
  });
}

}  // namespace tmprof
