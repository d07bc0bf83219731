// SPDX-License-Identifier: Apache-2.0
// A trace read once and added up: what most views start from. Memory is bounded by the footprint.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "rank/known_evidence.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "rank/total_ranker.h"
#include "report/trace.h"

namespace tmprof {

// What a source said of itself in some of its epochs. Notes that differ in numbers only are one, in
// its latest wording.
struct SourceNote {
  std::string text;
  std::uint64_t first_index = 0;  // of the epochs that have it
  std::uint64_t last_index = 0;
  std::uint64_t epochs = 0;  // how many of them have it
};

// One source over all epochs. A sum with an unknown term is unknown.
struct SourceTotal {
  std::string name;
  std::string label;
  SourceRole role = SourceRole::kReferences;
  SourceState state =
      SourceState::kUnavailable;  // the most it ever was: active, gated, unavailable
  std::optional<SampleSubject> samples_of;
  // The same in all epochs in which the source was not unavailable; nullopt: unknown, or they
  // differ.
  std::optional<std::uint64_t> accesses_per_sample;
  // Mean duty cycle, weighted by epoch length; an unavailable source is off.
  std::optional<double> active_ratio;
  std::optional<std::uint64_t> observations;
  std::optional<std::uint64_t> lost;
  std::vector<NamedCount> details;  // sums; of a level, as `unclearable_pages`, the largest
  std::uint64_t epochs = 0;         // that list the source
  std::vector<SourceNote> notes;    // in order of appearance

  std::optional<std::uint64_t> Detail(std::string_view detail) const;
};

struct TargetTotal {
  TargetId id;
  Pid pid;
  std::uint64_t start_time_ticks = 0;  // with pid, names the process
  std::string name;
  std::string command;
  bool exited = false;
  std::optional<std::chrono::nanoseconds> cpu_time;
  bool by_regions = false;  // in some epoch: which of a region's pages were looked at is unknown
};

struct TraceTotals {
  std::string trace;
  TraceInfo info;
  std::vector<std::string> notes;  // Trace::notes
  StreamEnd end;
  std::uint64_t epochs = 0;
  std::uint64_t first_index = 0;  // of the epochs read; 0 without any
  std::uint64_t lost_epochs = 0;  // gaps between them
  // Length of a short epoch: a tenth of them are shorter.
  std::chrono::nanoseconds short_epoch{0};
  MonotonicTime start;
  MonotonicTime stop;
  std::vector<SourceTotal> sources;  // in order of appearance
  std::vector<TargetTotal> targets;  // ascending by id
  std::chrono::nanoseconds profiler_cpu_time{0};
  std::optional<PageCount> most_resident;     // at the end of an epoch; as of ResidentPages()
  std::optional<double> accesses_per_sample;  // as of SampleScale
  // Size of the cache whose model tells accesses to memory; nullopt: samples do, or nothing does.
  std::optional<std::uint64_t> modelled_llc_bytes;
  bool llc_is_refuted = false;  // as of Estimates::cache_is_refuted; by ChooseBasis()
  // Names what the scores of a view count (ChooseBasis()).
  RankBasis basis;

  std::chrono::nanoseconds duration() const { return stop - start; }
  const TargetTotal* FindTarget(TargetId id) const;
  // Has the ID alone if no epoch listed the target.
  TargetTotal TargetOf(TargetId id) const;
  // Whether the target is this process; any is, where none is asked for.
  bool IsOf(TargetId id, std::optional<Pid> pid) const;
  // Whether a source of this role delivered in any epoch; without one, its counts are unknown.
  bool Delivered(SourceRole role) const;
};

struct WholeTrace {
  TraceTotals totals;
  // Holds all evidence; Score() gives estimated accesses over the whole trace (rate) or counts
  // (sum).
  TotalRanker ranker;
  KnownEvidence known{};
};

// Whether any source saw an access: what makes a page part of the footprint.
bool Accessed(const Evidence& evidence);

Result<WholeTrace> ReadWholeTrace(const Trace& trace, RankModel model, EpochRange epochs);

// Chooses what a view goes by, and keeps it in `whole.totals`. Refuses what KnownEvidence::Choose()
// does, and says by what it was attempted.
Status ChooseBasis(WholeTrace& whole, const RankChoice& asked, std::string attempted);

// Refuses to tell accesses from samples alone: how many accesses one stands for is unknown.
Status RequireAccesses(const WholeTrace& whole, RankSource by, std::string attempted);

// What a reader of a ranking by `source` must know: blind spots of the samplers that fed it, and
// what cut the trace short.
std::vector<std::string> Caveats(const TraceTotals& totals, RankSource source);

// What one unit of score is: "accesses (estimated)", "samples (expected)", "references + samples" …
std::string ScoreUnit(const TraceTotals& totals, RankModel model, RankSource source);

}  // namespace tmprof
