// SPDX-License-Identifier: Apache-2.0
// Finds the processes of `tmprof record --objects` that are not tracked, why, and how much of the
// accessed memory is theirs.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "profiler/page_set.h"
#include "profiler/recording_outcome.h"
#include "profiler/source.h"

namespace tmprof {

class TrackerCoverage {
 public:
  // Returns why the program that a process runs now loads no tracker, or is not tracked by the one
  // that it has; empty: nothing is known to keep it from being tracked.
  using WhyNot = std::function<std::string(const TrackedProcess&, bool has_tracker)>;
  // Returns the path of the program that a process runs; empty: unknown.
  using ProgramOf = std::function<std::string(const TrackedProcess&)>;

  // `library`: name of the tracker's file, as mappings have it.
  TrackerCoverage(std::string library, WhyNot why_not, ProgramOf program_of)
      : library_(std::move(library)),
        why_not_(std::move(why_not)),
        program_of_(std::move(program_of)) {}

  // The targets as they are now; to be called each time that they were looked for. Asks why when a
  // process is first seen, and again for each program that it then runs.
  void SeeTargets(const std::vector<TrackedProcess>& targets);
  // An epoch's accesses of a process are those of the program that was seen in it last.
  void Add(const EpochProfile& epoch);

  UntrackedProcesses Untracked() const;

 private:
  struct Seen {
    // The first mapping of a file, which is hardly ever the same for two programs. It may be of
    // another file than the program's.
    std::optional<Mapping> first_file;
    bool has_tracker = false;
    std::string why;  // it is not tracked; empty: it is, or may be about to be
  };

  std::string NotLoaded(const TrackedProcess& target) const;

  std::string library_;
  WhyNot why_not_;
  ProgramOf program_of_;
  std::map<TargetId, Seen> seen_;
  std::set<TargetId> accessing_;
  PageSet accessed_;
  PageSet untracked_;                     // accessed pages alone
  std::map<TargetId, std::string> whys_;  // reasons of targets in `untracked_`
};

}  // namespace tmprof
