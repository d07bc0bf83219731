// SPDX-License-Identifier: Apache-2.0
// What the pages of a trace hold: references and samples by what was allocated there.
//
// Each of an object's pages gives it the share of its bytes that the object has, for as long of the
// epoch as it lived. What was mapped gets what is left by allocations within it. Of small
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
#include "report/object_map.h"
#include "report/objects.h"
#include "report/trace.h"

namespace tmprof {

struct TracedObjectsOptions {
  ObjectsBy by = ObjectsBy::kSite;
  EpochRange epochs;
  std::optional<Pid> pid;                           // unset: every target
  std::optional<Vpn> page;                          // unset: all pages
  std::optional<std::size_t> limit = std::nullopt;  // rows that are kept; unset: all
};

struct TracedObjects {
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
    // Of its pages; of one page without what others that it stands for have of theirs.
    double references = 0;
    double samples = 0;
    double accesses = 0;        // estimated; see TracedObjects::accesses
    std::vector<double> heats;  // references and samples together, by node; as `nodes` below
    // By the program itself, each, in all its run (ObjectProfiles); unset: unknown.
    std::optional<std::uint64_t> counted = std::nullopt;
    // Mean, in these epochs or before; of what lives, until the last one ended.
    std::chrono::nanoseconds lifetime{0};

    // Unset: of no bytes.
    std::optional<double> AccessesPerByte() const;
    // Of its references and samples, those of pages that were on the node; unset: it has none.
    std::optional<double> ShareOnNode(std::size_t node) const;
  };
  std::string trace;
  StreamEnd end;
  TracedObjectsOptions options;
  std::uint64_t epochs = 0;
  struct Seen {
    MonotonicTime start;  // of the first epoch with it
    MonotonicTime end;    // of the last one
  };
  std::map<Pid, Seen> seen;  // targets in these epochs
  bool tracked = false;      // false: nobody told of allocations in this trace
  double references = 0;     // of all pages of these targets
  double samples = 0;
  // Estimated, in epochs in which accessed bits were read; unset: there are none.
  std::optional<double> accesses;
  // That held pages with references or samples, ascending; unset, last: not known of some.
  std::vector<std::optional<NodeId>> nodes;
  std::uint64_t lost = 0;  // allocations and frees
  // By programs themselves, in all their runs; unset: nobody gave what they counted.
  struct Counted {
    std::uint64_t accesses = 0;
    std::uint64_t freed_accesses = 0;  // of them, to objects that were freed since
    std::uint64_t in_rows = 0;         // of them
  };
  std::optional<Counted> counted = std::nullopt;
  // References and samples together by stacks, or by types, whatever the limit:
  // "allocated;outermost;...;innermost". Those that differ in lines alone are one.
  std::map<std::string, double> stacks;
  std::size_t all_rows = 0;
  // By references and samples together, then bytes, descending; then as first seen.
  std::vector<Row> rows;

  // Of all that was counted; unset: unknown.
  std::optional<double> CountedShare(const Row& row) const;
};

// Reads the trace once, from its begin. Memory is bounded by what lives at once, mappings ever
// made, sites and rows.
Result<TracedObjects> MakeTracedObjects(const Trace& trace, const TracedObjectsOptions& options);

std::string TracedObjectsText(const TracedObjects& objects);
std::string TracedObjectsJson(const TracedObjects& objects);
std::string TracedObjectsCsv(const TracedObjects& objects);
// A line for each of the stacks, "outermost;...;innermost n", n the references and samples,
// rounded.
std::string TracedObjectsFolded(const TracedObjects& objects);

}  // namespace tmprof
