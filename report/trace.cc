// SPDX-License-Identifier: Apache-2.0

#include "report/trace.h"

#include <system_error>
#include <utility>

#include "proto/trace_file.h"

namespace tmprof {

Result<Trace> OpenTraceFile(const std::filesystem::path& path) {
  const Result<TraceReader> probe = TraceReader::Open(path);
  if (!probe) return Fail(probe.error());
  return Trace{.name = path.filename().string(),
               .path = path,
               .info = probe->info(),
               .open = [path]() -> Result<std::unique_ptr<EpochStream>> {
                 Result<TraceReader> reader = TraceReader::Open(path);
                 if (!reader) return Fail(std::move(reader.error()));
                 return std::make_unique<TraceReader>(std::move(*reader));
               },
               .finished =
                   [](const EpochStream& stream) {
                     return static_cast<const TraceReader&>(stream).finished();
                   }};
}

Status RefuseToOverwrite(const Trace& trace, const std::filesystem::path& output) {
  std::error_code ignored;  // of a file that does not exist, which is no other file
  if (!trace.path || !std::filesystem::equivalent(*trace.path, output, ignored)) return {};
  return Fail(
      BadInput("write file", output.string(), "it is the trace to be read", "name another file"));
}

Result<ReadEnd> ReadEpochs(const Trace& trace, EpochRange range,
                           const std::function<void(const EpochProfile&)>& visit) {
  const Result<std::unique_ptr<EpochStream>> stream = trace.open();
  if (!stream) return Fail(stream.error());
  EpochProfile epoch;
  for (;;) {
    Result<bool> more = (*stream)->Next(epoch);
    if (!more) return ReadEnd{.damage = std::move(more.error()), .finished = std::nullopt};
    if (!*more) break;
    if (range.Contains(epoch.index)) visit(epoch);
  }
  ReadEnd end;
  if (trace.finished) end.finished = trace.finished(**stream);
  return end;
}

}  // namespace tmprof
