// SPDX-License-Identifier: Apache-2.0
// What every view is made from: a trace that can be read from its start more than once.

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

namespace tmprof {

struct Trace {
  std::string name;                           // as titles show it
  std::optional<std::filesystem::path> path;  // unset: not of a file
  TraceInfo info;
  // Size of the last-level cache that is modelled where too few accesses to memory were sampled.
  // nullopt: none is. No trace tells it by itself.
  std::optional<std::uint64_t> llc_bytes = std::nullopt;
  std::vector<std::string> notes;  // what readers must know, beside what the trace tells itself
  std::function<Result<std::unique_ptr<EpochStream>>()> open;
};

// Refuses a pipe or whatever else cannot be read a second time.
Result<Trace> OpenTraceFile(const std::filesystem::path& path);

// The error's advice names the owner if `path` may not be read and belongs to somebody else, as a
// trace recorded under sudo does.
Error ExplainRefusal(Error error, const std::filesystem::path& path);
Error ExplainOwner(Error error, uid_t owner, uid_t reader);

// Refuses an output that is the file the trace is read from, by whatever name: the output
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

// Hands the epochs of `range` to `visit` in order. Fails only where the trace cannot be opened.
Result<StreamEnd> ReadEpochs(const Trace& trace, EpochRange range,
                             const std::function<void(const EpochProfile&)>& visit);

}  // namespace tmprof
