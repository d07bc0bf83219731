// SPDX-License-Identifier: Apache-2.0
// Compares the rankings of a trace with what the program really did.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_stream.h"
#include "base/ratio.h"
#include "base/result.h"
#include "base/units.h"
#include "rank/rank_model.h"

namespace tmprof {

// Pages that share the accesses, or misses, of a phase evenly.
struct TruthSpan {
  VpnRange range;
  double page_weight = 0;  // one page's part in the accesses or misses, in units of the file
};

// Spans ascending and disjoint. Without a pid they hold for every target, but a page counts once.
struct ProcessTruth {
  std::optional<Pid> pid;
  std::vector<TruthSpan> spans;
};

struct TruthPhase {
  MonotonicTime start;
  MonotonicTime end;
  std::vector<ProcessTruth> processes;  // at most one per PID
};

// The true accesses of processes. Phases are ascending and disjoint, and each holds some positive
// weight.
struct Truth {
  std::vector<TruthPhase> phases;
  RankSource of = RankSource::kTruth;  // what weights count: accesses, misses or stalls
  StreamEnd end{};                     // how the epochs it was made of ended; a text sets nothing
};

// The text is {"pid"?, "of"?, "phases": [{"t_start_ns", "t_end_ns", "ranges": [{"start", "end",
// "weight", "pid"?}]}]}. Times are those of CLOCK_MONOTONIC. `start` and `end` are byte addresses,
// half-open, and are widened to whole pages. `weight` is the range's part of the phase's accesses,
// or of those that missed the last-level cache if "of" is "misses" instead of "accesses". If ranges
// overlap, a page has the sum of their weights. A range's own PID takes precedence over the file's.
// Other fields are ignored. Errors call the text `name` and say at which place in it the fault is.
Result<Truth> ParseTruth(std::string_view json, std::string_view name);
Result<Truth> ReadTruth(const std::filesystem::path& path);

// Makes a truth of exact counts. Successive epochs are added up to phases that are at least as long
// as `phase`; nullopt: all epochs are one phase. `by` is kTruth or kMisses and says what a page
// weighs. Every page that was accessed is a page of the truth, with or without misses. Memory grows
// with phases x pages. Fails if there are no exact counts, or if they are unknown.
Result<Truth> TruthOfEpochs(EpochStream& epochs, std::string_view name,
                            std::optional<std::chrono::nanoseconds> phase,
                            RankSource by = RankSource::kTruth);

// True: the file is a trace or a ledger. False: it is taken for a text.
bool IsTraceOrLedger(const std::filesystem::path& path);

struct AccuracyOptions {
  Ratio k_ratio{1, 16};  // k is this part of the pages of the truth, at least 1
  RankModel model = RankModel::kRate;
  // If true, only pages of the truth are ranked: other pages take no place among the k ranked best.
  bool among_truth = false;
};

// Returns the truth of the pages within these ranges alone. Phases without weight there are left
// out.
Truth TruthWithin(Truth truth, std::span<const VpnRange> ranges);

// These are pages of one process. nullopt: the process is unknown, and only a truth without a PID
// has them.
struct PagesOfProcess {
  std::optional<Pid> pid;
  VpnRange pages;
};

// Returns the part of the phase's weight that these pages have. A page of the truth counts once.
double ShareOf(const TruthPhase& phase, std::span<const PagesOfProcess> pages);

// Returns the part of the phase's weight that the k heaviest pages have.
double BestShare(const TruthPhase& phase, PageCount k);

// Averages over the phases that hold at least one whole epoch.
struct AccuracyRow {
  RankSource rank = RankSource::kCombined;
  PageCount k;  // in the first such phase
  // Relevant pages among the k ranked best / pages ranked, at most k. Pages that weigh as much as
  // the k-th heaviest are relevant, ties included. Unset: this source ranked nothing.
  std::optional<double> precision;
  double recall = 0;             // relevant pages among the k ranked best / min(k, relevant)
  double coverage = 0;           // part of the true weight that the k ranked best have
  double coverage_of_ideal = 0;  // `coverage` / the part of the k heaviest pages
  // The correlations are over all pages of the truth. Pages that this source does not rank are tied
  // last. Unset: the source ranked no page, or all alike.
  std::optional<double> spearman_rho;
  std::optional<double> kendall_tau_b;
  std::uint64_t phases = 0;
};

struct AccuracyOutcome {
  std::vector<AccuracyRow> rows;  // references, samples, combined
  StreamEnd end;                  // how the trace ended; the rows stand for the epochs before
};

// Sums the epochs that lie whole within a phase and ranks by the sum. Fails if no phase holds a
// whole epoch.
Result<AccuracyOutcome> ScoreAgainstTruth(EpochStream& trace, const Truth& truth,
                                          const AccuracyOptions& options);

}  // namespace tmprof
