// SPDX-License-Identifier: Apache-2.0
// What the pages of a trace hold: accesses, references and samples by what was allocated there.
//
// Each of an object's pages gives it the share of its bytes that the object has, for as long of the
// epoch as it lived. Accesses are those of the hot view, and of advice on objects: estimated over
// all epochs together (report/span_uses.h). What was mapped gets what is left by allocations within
// it, and `elsewhere` has what no object has. Of small
// allocations a share is recorded: each stands for as many as its weight says, whose pages are
// taken to be as its own, so that sums of them are estimates.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/allocations.h"
#include "base/result.h"
#include "base/units.h"
#include "rank/rank_weight.h"
#include "report/object_map.h"
#include "report/objects.h"
#include "report/trace.h"

namespace tmprof {

struct TracedObjectsOptions {
  ObjectsBy by = ObjectsBy::kSite;
  RankWeight weight = RankWeight::kMemory;
  EpochRange epochs;
  std::optional<Pid> pid;                           // unset: every target
  std::optional<Vpn> page;                          // unset: all pages
  std::optional<std::size_t> limit = std::nullopt;  // rows that are kept; unset: all
  // Nodes of tier 2 and of those below it; unset: those that the trace says.
  std::optional<std::vector<NodeId>> tier2 = std::nullopt;
};

struct TracedObjects {
  // `ranked` if it is set, else accesses, of those pages of which the tier is known; references and
  // samples together where no bit was read.
  struct TierWeight {
    double tier1 = 0;
    double tier2 = 0;  // or below it

    double known() const { return tier1 + tier2; }
  };
  struct Row {
    TracedKind kind = TracedKind::kAllocated;
    std::string type;                    // by type alone
    ObjectSite site;                     // no ID; without frames and name: unknown, or of several
    std::optional<Pid> pid;              // unset: of several processes
    std::optional<std::uint64_t> start;  // unset: of several objects
    std::optional<MonotonicTime> birth;  // likewise
    double objects = 0;                  // that lived in these epochs
    double bytes = 0;                    // of all of them
    double live_bytes = 0;               // when the last epoch ended
    bool estimated = false;              // some stand for others
    // Of its pages; of one page without what others that it stands for have of theirs. Unset: of
    // none of them an accessed bit was read.
    std::optional<double> references;
    std::optional<double> samples;   // unset: no sampler was on while any of them lived
    std::optional<double> accesses;  // unset: none of its pages was observed, or all are unset
    // Estimated accesses to memory, or those that accessed bits alone tell, as TracedObjects::basis
    // says. Unset: it counts all accesses, or as `accesses`.
    std::optional<double> ranked = std::nullopt;
    std::vector<double> heats;  // references and samples together, by node; as `nodes` below
    TierWeight tiers;           // nothing where `tier2` below is unset
    // As large as they were in the end, of one page what they have of it, all of them, and those on
    // pages that were observed while they lived. 0 where `accesses` below is unset.
    double final_bytes = 0;
    double observed_bytes = 0;
    // By the program itself, each, in all its run (ObjectProfiles); unset: unknown.
    std::optional<std::uint64_t> counted = std::nullopt;
    // Mean, in these epochs or before; of what lives, until the last one ended.
    std::chrono::nanoseconds lifetime{0};

    // Unset: unknown, or of no bytes.
    std::optional<double> AccessesPerByte() const;
    // Of its bytes, those on pages that were looked at or had samples: accesses are of them, and
    // references of the first alone. Unset: unknown, or of no bytes.
    std::optional<double> ObservedShare() const;
    // Of its references and samples, those of pages that were on the node; unset: it has none.
    std::optional<double> ShareOnNode(std::size_t node) const;
  };
  std::string trace;
  StreamEnd end;
  TracedObjectsOptions options;
  std::uint64_t epochs = 0;
  std::uint64_t lost_epochs = 0;  // gaps between them
  struct Seen {
    MonotonicTime start;  // of the first epoch with it
    MonotonicTime end;    // of the last one
  };
  std::map<Pid, Seen> seen;  // targets in these epochs
  bool tracked = false;      // false: nobody told of allocations in this trace
  // Of all pages of these targets. Unset: no accessed bit was read in these epochs.
  std::optional<double> references;
  std::optional<double> samples;                // unset: no sampler was on
  std::optional<double> accesses;               // estimated; unset where references are
  std::optional<double> ranked = std::nullopt;  // as of rows
  RankBasis basis{};                            // what rows are ordered by
  // Size of the cache whose model tells accesses to memory; unset: samples do, or nothing.
  std::optional<std::uint64_t> modelled_llc_bytes = std::nullopt;
  // Of them, what is of no object. Unset: unknown, also where what stands for others adds up to
  // more than all.
  struct Elsewhere {
    std::optional<double> references;
    std::optional<double> samples;
    std::optional<double> accesses;
    std::optional<double> ranked = std::nullopt;
    std::optional<TierWeight> tiers;
    bool estimated = false;  // some objects stand for others
  };
  Elsewhere elsewhere;
  bool page_observed = false;  // of options.page
  // That held pages with references or samples, ascending; unset, last: not known of some.
  std::vector<std::optional<NodeId>> nodes;
  // Of tier 2 and of those below it, ascending; none where all memory is of one class. Unset:
  // nobody knows which tiers there are, nor what the weights in them are.
  std::optional<std::vector<NodeId>> tier2;
  TierWeight tiers;        // of all pages of these targets
  std::uint64_t lost = 0;  // allocations and frees
  // By programs themselves, in all their runs; unset: nobody gave what they counted.
  struct Counted {
    std::uint64_t accesses = 0;
    std::uint64_t freed_accesses = 0;  // of them, to objects that were freed since
    std::uint64_t in_rows = 0;         // of them
  };
  std::optional<Counted> counted = std::nullopt;
  // `ranked` if it is set, else accesses, by stacks, or by types, whatever the limit:
  // "allocated;outermost;...;innermost". Those that differ in lines alone are one.
  // References and samples together where `accesses` is unset.
  std::map<std::string, double> stacks;
  std::size_t all_rows = 0;
  // By `ranked`, then by accesses, those that are unknown last, then references and samples
  // together, then bytes, descending; then as first seen.
  std::vector<Row> rows;

  // Of all that was counted; unset: unknown.
  std::optional<double> CountedShare(const Row& row) const;
  // Of a weight, what is in tier 2 or below. Unset: of none of it the tier is known.
  std::optional<double> InTier2(const std::optional<TierWeight>& weight) const;
  // Of all that is in tier 2 or below, what the row has; 0 of one without weight. Unset: nothing is
  // there, or of none of the row's weight the tier is known.
  std::optional<double> OfTier2(const Row& row) const;
  std::optional<double> OfTier2(const Elsewhere& rest) const;
};

// Reads the trace twice, from its begin. Memory is bounded by what lives at once, mappings ever
// made, sites, rows, and spans of pages that ever differed in their bounds: of a trace by pages
// those of the footprint, of one by regions up to as many more as each epoch has.
Result<TracedObjects> MakeTracedObjects(const Trace& trace, const TracedObjectsOptions& options);

std::string TracedObjectsText(const TracedObjects& objects);
std::string TracedObjectsJson(const TracedObjects& objects);
std::string TracedObjectsCsv(const TracedObjects& objects);
// A line for each of the stacks, "outermost;...;innermost n", n rounded.
std::string TracedObjectsFolded(const TracedObjects& objects);

}  // namespace tmprof
