// SPDX-License-Identifier: Apache-2.0
// Reads a trace once and adds it up. Most views start from the result. Memory is bounded by the
// footprint.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "proto/trace.h"
#include "rank/known_evidence.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "rank/total_ranker.h"

namespace tmprof {

// A source's own note in some of its epochs. Notes that differ only in numbers are one, in its
// latest wording.
struct SourceNote {
  std::string text;
  std::uint64_t first_index = 0;  // index of the first epoch with this note
  std::uint64_t last_index = 0;
  std::uint64_t epochs = 0;  // number of epochs with this note
};

// One source over all epochs. A sum with an unknown term is unknown.
struct SourceTotal {
  std::string name;
  std::string label;
  SourceRole role = SourceRole::kReferences;
  SourceState state =
      SourceState::kUnavailable;  // the most it ever was: active, gated, unavailable
  std::optional<SampleSubject> samples_of;
  // Set if all epochs in which the source was not unavailable agree; nullopt: unknown, or they
  // differ.
  std::optional<std::uint64_t> accesses_per_sample;
  // Mean duty cycle, weighted by epoch length; an unavailable source is off.
  std::optional<double> active_ratio;
  std::optional<std::uint64_t> observations;
  std::optional<std::uint64_t> lost;
  // Sums; of a level such as `unclearable_pages` the largest value.
  std::vector<NamedCount> details;
  std::uint64_t epochs = 0;       // epochs that list the source
  std::vector<SourceNote> notes;  // in order of appearance

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
  // In some epoch, so that it is unknown which of a region's pages were looked at.
  bool by_regions = false;
};

struct TraceTotals {
  std::string trace;
  TraceInfo info;
  std::vector<std::string> notes;  // Trace::notes
  StreamEnd end;
  std::uint64_t epochs = 0;
  std::uint64_t first_index = 0;  // index of the first epoch read; 0 without any
  std::uint64_t lost_epochs = 0;  // gaps between them
  // Length of a short epoch: a tenth of them are shorter.
  std::chrono::nanoseconds short_epoch{0};
  MonotonicTime start;
  MonotonicTime stop;
  std::vector<SourceTotal> sources;  // in order of appearance
  std::vector<TargetTotal> targets;  // ascending by id
  std::chrono::nanoseconds profiler_cpu_time{0};
  std::optional<PageCount> most_resident;     // at the end of an epoch (ResidentPages())
  std::optional<double> accesses_per_sample;  // see SampleScale
  // Size of the cache whose model estimates accesses to memory. nullopt: samples of them are used
  // instead, or there is no estimate.
  std::optional<std::uint64_t> modelled_llc_bytes;
  bool llc_is_refuted = false;  // Estimates::cache_is_refuted; ChooseBasis() sets it
  // Names what the scores of a view count (ChooseBasis()).
  RankBasis basis;

  std::chrono::nanoseconds duration() const { return stop - start; }
  const TargetTotal* FindTarget(TargetId id) const;
  // Has the ID alone if no epoch listed the target.
  TargetTotal TargetOf(TargetId id) const;
  // True if the target is this process, or if no process is asked for.
  bool IsOf(TargetId id, std::optional<Pid> pid) const;
  // True if a source of this role delivered in any epoch. False: its counts are unknown.
  bool Delivered(SourceRole role) const;
};

struct WholeTrace {
  TraceTotals totals;
  // Holds all evidence; Score() gives estimated accesses over the whole trace (rate) or counts
  // (sum).
  TotalRanker ranker;
  KnownEvidence known{};
};

// True if any source saw an access, which makes a page part of the footprint.
bool Accessed(const Evidence& evidence);

Result<WholeTrace> ReadWholeTrace(const Trace& trace, RankModel model, EpochRange epochs);

// Chooses what a view ranks by, and keeps it in `whole.totals`. Refuses what
// KnownEvidence::Choose() refuses. The error says that `attempted` was attempted.
Status ChooseBasis(WholeTrace& whole, const RankChoice& asked, std::string attempted);

// Refuses to estimate accesses from samples alone, because it is unknown how many accesses one
// stands for.
Status RequireAccesses(const WholeTrace& whole, RankSource by, std::string attempted);

// Returns what a reader of a ranking by `source` must know: blind spots of the samplers behind it,
// and why the trace ends early.
std::vector<std::string> Caveats(const TraceTotals& totals, RankSource source);

// Names the unit of a score: "accesses (estimated)", "samples (expected)", "references + samples" …
std::string ScoreUnit(const TraceTotals& totals, RankModel model, RankSource source);

}  // namespace tmprof
