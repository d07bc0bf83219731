// SPDX-License-Identifier: Apache-2.0
// The input of every view: a trace that can be read from its start more than once.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/trace_info.h"
#include "proto/extension_codec.h"

namespace tmprof {

struct Trace {
  std::string name;                           // for titles
  std::optional<std::filesystem::path> path;  // unset: it has no file
  TraceInfo info;
  // Size of the last-level cache that is modelled if too few accesses to memory were sampled.
  // nullopt: none is modelled. No trace contains it.
  std::optional<std::uint64_t> llc_bytes = std::nullopt;
  std::vector<std::string> notes;  // facts for readers that are not in the trace itself
  std::function<Result<std::unique_ptr<EpochStream>>()> open;
};

// Refuses a pipe or anything else that cannot be read a second time. `codec` is that of
// TraceReader::Open(), and has to outlive the trace.
Result<Trace> OpenTraceFile(const std::filesystem::path& path,
                            const ExtensionCodec* codec = nullptr);

// Returns the error. Its advice names the owner if `path` may not be read and belongs to somebody
// else, which is the case for a trace recorded under sudo.
Error ExplainRefusal(Error error, const std::filesystem::path& path);
Error ExplainOwner(Error error, uid_t owner, uid_t reader);

// Refuses an output that is the file the trace is read from, by whatever name, because the output
// would replace it.
Status RefuseToOverwrite(const Trace& trace, const std::filesystem::path& output);
Status RefuseToOverwrite(const std::filesystem::path& input, const std::filesystem::path& output);

// Epochs by index, half-open.
struct EpochRange {
  std::uint64_t first = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();

  bool IsAll() const { return *this == EpochRange{}; }
  bool Contains(std::uint64_t index) const { return first <= index && index < end; }
  friend bool operator==(const EpochRange&, const EpochRange&) = default;
};

// Hands the epochs of `range` to `visit` in order. Fails only if the trace cannot be opened.
Result<StreamEnd> ReadEpochs(const Trace& trace, EpochRange range,
                             const std::function<void(const EpochProfile&)>& visit);

}  // namespace tmprof
