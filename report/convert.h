// SPDX-License-Identifier: Apache-2.0
// Converts traces to formats of other tools.

#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "proto/trace.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"

namespace tmprof {

struct ConvertStats {
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  // The evidence that the requests are made from, its score over the whole trace, and the requests
  // per unit of score. Only ConvertToOracleGeneral() sets these.
  RankBasis basis;
  double weight = 0;
  double ratio = 1;
  StreamEnd end;  // how the trace ended; the output holds the epochs before
};

// Both functions replace `output` whole or not at all, and refuse the trace itself. Memory is
// bounded by one epoch (CSV) or by the footprint.

// Writes a header row and one line per page record. A field is empty if the source did not observe
// it. "-" is standard output.
Result<ConvertStats> ConvertToCsv(const Trace& trace, const std::filesystem::path& output);

// Writes libCacheSim's binary format. A request has 24 bytes, packed and little-endian:
//  uint32 clock_time (seconds since the trace began),
//  uint64 obj_id,
//  uint32 obj_size (bytes),
//  int64 next_access_vtime (the number, counted from 1, of the next request for the same object;
//  -1: none).
// Each epoch has requests in proportion to what the rank weight counts in it
// (rank/epoch_estimates.h), in random order. Accesses are sampled if there are more than
// `most_requests`. An object is a base page of a target, whatever span it is part of: obj_id =
// target << 44 | vpn. `output` must be a regular file, because requests are completed in place.
struct OracleGeneralOptions {
  RankModel model = RankModel::kRate;
  RankWeight weight = RankWeight::kMemory;
  std::uint64_t most_requests = 1'000'000;  // 24 MB
  std::uint64_t seed = 1;                   // seed of the random numbers
};
Result<ConvertStats> ConvertToOracleGeneral(const Trace& trace, const OracleGeneralOptions& options,
                                            const std::filesystem::path& output);

}  // namespace tmprof
