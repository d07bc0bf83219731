// SPDX-License-Identifier: Apache-2.0
// Tells how much memory is in use, over time, and how much has been idle for how long.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "report/analysis/whole_trace.h"

namespace tmprof {

struct WorkingSetOptions {
  std::optional<RankSource> by;  // unset: the best that the trace has (KnownEvidence)
  EpochRange epochs;
  std::optional<Pid> pid;  // unset: every target
  // A page belongs to the working set of a rate if it is accessed so often in a second of its
  // process's CPU time, or more often. They ascend.
  std::vector<double> rates = {1, 10, 100, 1000};
};

// Base pages of memory that were looked at. Pages that nobody looked at are in no size. A process
// counts from the first epoch that lists it to the last one before its exit.
struct WorkingSet {
  struct Size {
    double pages = 0;
    double low = 0;  // the interval that holds the truth with a probability of 90 %
    double high = 0;
    bool is_told = true;  // false: too little was seen to know it (HitRate::kWidestTold)
  };
  struct Row {
    MonotonicTime start;
    MonotonicTime end;
    bool any_ran = true;    // false: no process used CPU time, nothing is known
    bool any_there = true;  // false: processes were there for none of the row's time, as one that
                            // ends in the midst of an epoch counts until the epoch before
    std::vector<Size> at_least;  // one per rate, mean over the row's time with processes
  };
  struct Idle {
    std::chrono::nanoseconds age{0};
    // It was not accessed for so long, at the end of its process's epochs. Processes that were not
    // there for so long have no part in it.
    Size size;
    double not_seen = 0;  // pages that were not seen accessed for so long: an upper bound
  };
  // These are sizes of all resident pages, if those that nobody looked at are like the others.
  struct OfResident {
    std::vector<Size> at_least;
    std::vector<Size> idle;
  };

  TraceTotals totals;
  WorkingSetOptions options;
  bool is_exact = false;
  std::vector<Row> rows;       // one if there is no evidence that rates changed
  std::vector<Size> at_least;  // mean over the time in which processes ran; empty: unknown
  std::vector<Idle> idle;      // ages that some process was there for; empty: unknown
  PageCount visited;           // pages with an estimate; exact: pages that were accessed
  // The most at any time. nullopt: the trace does not say, or several processes map a page and it
  // counts for each.
  std::optional<PageCount> resident;
  // Resident pages that were not visited. nullopt: it is not known how many are resident.
  std::optional<PageCount> never_visited;
  std::optional<OfResident> of_resident;
  std::string why_no_resident;  // set if there is no `of_resident`
  bool whole_regions = false;   // pages of a region count alike
  bool is_shared = false;       // several processes map a page
};

// A page that several processes map counts once, if they map it by spans of one size: it is
// accessed as often as by the process that accesses it the most. Refuses to estimate accesses from
// samples alone. Reads the trace two or three times.
Result<WorkingSet> MakeWorkingSet(const Trace& trace, const WorkingSetOptions& options);

std::string AgeText(std::chrono::nanoseconds age);  // "5 min"; whole seconds
std::string WorkingSetText(const WorkingSet& set, TextWidth width = {});
std::string WorkingSetJson(const WorkingSet& set);
std::string WorkingSetCsv(const WorkingSet& set);
Result<std::string> WorkingSetPng(const WorkingSet& set);  // the bytes of a PNG file

}  // namespace tmprof
