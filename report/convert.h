// SPDX-License-Identifier: Apache-2.0
// Traces for other tools.

#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "rank/rank_model.h"
#include "report/trace.h"

namespace tmprof {

struct ConvertStats {
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  StreamEnd end;  // of the trace; the output holds what came before
};

// Both create or truncate `output`; refused where that is the trace itself. Memory is bounded by
// one epoch (CSV) or by the footprint.

// One line per page record, with a header row; what a source did not observe is an empty field.
// "-" is standard output.
Result<ConvertStats> ConvertToCsv(const Trace& trace, const std::filesystem::path& output);

// libCacheSim's binary format: 24 bytes per request, packed and little-endian: uint32 clock_time
// (seconds since the trace began), uint64 obj_id, uint32 obj_size (bytes), int64 next_access_vtime
// (the number, counted from 1, of the next request for the same object; -1 for none).
// One request per accessed span and epoch, hottest first by the combined score per page, then
// ascending key. An object is a target's page: obj_id = target << 44 | first vpn; a span that
// changes its size keeps its id. `output` must be a regular file: requests are completed in place.
Result<ConvertStats> ConvertToOracleGeneral(const Trace& trace, RankModel model,
                                            const std::filesystem::path& output);

}  // namespace tmprof
