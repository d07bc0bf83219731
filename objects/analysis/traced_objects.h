// SPDX-License-Identifier: Apache-2.0
// Attributes the accesses, references and samples of a trace's pages to what was allocated there.
//
// A page gives an object the share of its bytes that the object has, for the part of the epoch in
// which the object lived. Accesses are estimated over all epochs together
// (report/analysis/span_uses.h), and are those of the hot view and of advice on objects. A mapping
// gets the rest that allocations within it leave, and `elsewhere` gets the memory without any
// object. Only a share of small allocations is recorded. Each recorded one stands for as many as
// its weight says. Their pages are taken to be like its own, so that sums over them are estimates.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "objects/analysis/object_map.h"
#include "objects/analysis/objects.h"
#include "objects/format/allocations.h"
#include "proto/trace.h"
#include "rank/rank_weight.h"

namespace tmprof {

struct TracedObjectsOptions {
  ObjectsBy by = ObjectsBy::kSite;
  RankWeight weight = RankWeight::kMemory;
  EpochRange epochs;
  std::optional<Pid> pid;                           // unset: every target
  std::optional<Vpn> page;                          // unset: all pages
  std::optional<std::size_t> limit = std::nullopt;  // most rows that are kept; unset: all
  // Nodes of tier 2 and of those below it; unset: the trace's tiers.
  std::optional<std::vector<NodeId>> tier2 = std::nullopt;
};

struct TracedObjects {
  // Weight on pages whose tier is known. It is `ranked` if that is set, else accesses, else (if no
  // accessed bit was read) references and samples together.
  struct TierWeight {
    double tier1 = 0;
    double tier2 = 0;  // or below it

    double known() const { return tier1 + tier2; }
  };
  struct Row {
    TracedKind kind = TracedKind::kAllocated;
    std::string type;                    // only by type
    ObjectSite site;                     // no ID; without frames and name: unknown, or several
    std::optional<Pid> pid;              // unset: several processes
    std::optional<std::uint64_t> start;  // unset: several objects
    std::optional<MonotonicTime> birth;  // unset: several objects
    double objects = 0;                  // objects that lived in these epochs
    double bytes = 0;                    // bytes of all these objects
    double live_bytes = 0;               // bytes that lived when the last epoch ended
    bool estimated = false;              // some objects stand for others
    // On the row's pages. With options.page set, it leaves out the objects that the recorded ones
    // stand for. Unset: no accessed bit of these pages was read.
    std::optional<double> references;
    std::optional<double> samples;  // unset: no sampler was on while any of them lived
    // unset: none of its pages was observed, or accesses are unknown for all rows.
    std::optional<double> accesses;
    // Estimated accesses to memory, or accesses by accessed bits alone, as TracedObjects::basis
    // says. Unset: the basis counts all accesses, or `accesses` is unset.
    std::optional<double> ranked = std::nullopt;
    std::vector<double> heats;  // references and samples together, parallel to TracedObjects::nodes
    TierWeight tiers;           // zeros if TracedObjects::tier2 is unset
    // Bytes of all objects at their final sizes, and those of them on pages that were observed
    // while the objects lived. With options.page set, only bytes on that page count. 0 if
    // TracedObjects::accesses is unset.
    double final_bytes = 0;
    double observed_bytes = 0;
    // Accesses that the program itself counted in all its run (ObjectProfiles); unset: unknown.
    std::optional<std::uint64_t> counted = std::nullopt;
    // Mean lifetime, including the time before these epochs. A living object counts until the last
    // epoch ended.
    std::chrono::nanoseconds lifetime{0};

    // nullopt: unknown, or the row has no bytes.
    std::optional<double> AccessesPerByte() const;
    // Returns the share of its bytes on pages that were looked at or had samples. Accesses are of
    // these bytes, and references only of those looked at. nullopt: unknown, or the row has no
    // bytes.
    std::optional<double> ObservedShare() const;
    // Returns the share of its references and samples on pages of the node; nullopt: it has none.
    std::optional<double> ShareOnNode(std::size_t node) const;
  };
  std::string trace;
  StreamEnd end;
  TracedObjectsOptions options;
  std::uint64_t epochs = 0;
  std::uint64_t lost_epochs = 0;  // gaps between them
  struct Seen {
    MonotonicTime start;  // start of the first epoch with the target
    MonotonicTime end;    // end of the last epoch with it
  };
  std::map<Pid, Seen> seen;  // targets in these epochs
  bool tracked = false;      // false: the trace has no allocations
  // Sum over all pages of these targets. Unset: no accessed bit was read in these epochs.
  std::optional<double> references;
  std::optional<double> samples;                // unset: no sampler was on
  std::optional<double> accesses;               // estimated; unset if `references` is unset
  std::optional<double> ranked = std::nullopt;  // in the unit of Row::ranked
  RankBasis basis{};                            // rows are ordered by it
  // Size of the cache whose model estimates accesses to memory; unset: samples are used instead, or
  // there is no estimate.
  std::optional<std::uint64_t> modelled_llc_bytes = std::nullopt;
  // The parts of the sums above that belong to no object. Unset: unknown, for instance because
  // estimates for objects add up to more than all.
  struct Elsewhere {
    std::optional<double> references;
    std::optional<double> samples;
    std::optional<double> accesses;
    std::optional<double> ranked = std::nullopt;
    std::optional<TierWeight> tiers;
    bool estimated = false;  // some objects stand for others
  };
  Elsewhere elsewhere;
  bool page_observed = false;  // options.page was observed
  // Nodes of pages with references or samples, ascending. An unset last one: the node of some is
  // unknown.
  std::vector<std::optional<NodeId>> nodes;
  // Nodes of tier 2 and of those below it, ascending; empty if all memory is of one class. Unset:
  // the tiers are unknown, and with them the weights in them.
  std::optional<std::vector<NodeId>> tier2;
  TierWeight tiers;        // weight of all pages of these targets
  std::uint64_t lost = 0;  // lost allocations and frees
  // Accesses that programs themselves counted in all their runs; unset: there are no profiles.
  struct Counted {
    std::uint64_t accesses = 0;
    std::uint64_t freed_accesses = 0;  // to objects that were freed since
    std::uint64_t in_rows = 0;         // to objects of the rows
  };
  std::optional<Counted> counted = std::nullopt;
  // Weight by stack, or by type, whatever the limit: "allocated;outermost;...;innermost". It is
  // `ranked` if that is set, else accesses, else references and samples together. Stacks that
  // differ only in lines are one.
  std::map<std::string, double> stacks;
  std::size_t all_rows = 0;
  // Ordered by `ranked`, then by accesses, then by references and samples together, then by bytes,
  // all descending with unknown values last; then in the order of appearance.
  std::vector<Row> rows;

  // Returns the row's share of all counted accesses; nullopt: unknown.
  std::optional<double> CountedShare(const Row& row) const;
  // Returns the share of a weight that is in tier 2 or below. nullopt: the tier of all of it is
  // unknown.
  std::optional<double> InTier2(const std::optional<TierWeight>& weight) const;
  // Returns the row's share of all weight in tier 2 or below; 0 if the row has no weight. nullopt:
  // nothing is there, or the tier of all of the row's weight is unknown.
  std::optional<double> OfTier2(const Row& row) const;
  std::optional<double> OfTier2(const Elsewhere& rest) const;
};

// Reads the trace twice, from its beginning. Memory is bounded by the objects that live at once,
// all mappings ever made, sites, rows, and spans of pages that ever differed in their bounds. A
// trace by pages has the spans of its footprint; one by regions has up to as many more as each
// epoch has.
Result<TracedObjects> MakeTracedObjects(const Trace& trace, const TracedObjectsOptions& options);

std::string TracedObjectsText(const TracedObjects& objects, TextWidth width = {});
std::string TracedObjectsJson(const TracedObjects& objects);
std::string TracedObjectsCsv(const TracedObjects& objects);
// Returns a line for each stack, "outermost;...;innermost n", with n rounded.
std::string TracedObjectsFolded(const TracedObjects& objects);

}  // namespace tmprof
