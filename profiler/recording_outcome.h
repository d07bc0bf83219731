// SPDX-License-Identifier: Apache-2.0
// The line that every recording ends with: what it saw, in how much of the targets' memory, with
// what confidence, and what to run next.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/units.h"

namespace tmprof {

// Processes whose allocations --objects asked for and whose programs load no tracker.
struct UntrackedProcesses {
  std::uint64_t processes = 0;
  std::uint64_t of_processes = 0;  // that were seen accessing memory, the untracked ones included
  PageCount accessed;              // pages that untracked ones were seen accessing ...
  PageCount of_accessed;           // ... of those that any were; shared pages count for each
  std::string why;  // reason for most of these pages: "'/bin/p' is statically linked"
  std::uint64_t other_reasons = 0;  // beside `why`
};

// Facts of a recording, known when it ends. Pages are base pages, each counted once, however many
// epochs and processes saw it.
struct RecordingFacts {
  std::string trace;  // file, as the user named it
  std::string title;  // first words of the line; empty: the file's name
  std::uint64_t epochs = 0;
  std::chrono::nanoseconds length{0};
  std::chrono::nanoseconds starting{0};  // between the call of tmprof and the first look
  std::vector<Pid> targets;              // that were observed at some time; ascending
  bool all_ended = false;                // no target lived to the end of the recording
  bool stopped_throughout = false;  // whenever looked at, each was stopped: SIGSTOP or a debugger
  std::uint64_t over_max_targets = 0;  // processes left out by --max-targets, the most at one time
  std::optional<FilteredChildren> filtered;          // nullopt: nobody looked
  std::optional<std::chrono::nanoseconds> cpu_time;  // the targets' together; nullopt: not readable
  std::optional<PageCount> resident;  // the targets' most at one time; nullopt: never read
  // `resident` counts memory that several targets share for each, as what they share is unknown.
  bool resident_is_at_most = false;
  // The part of `resident` that processes map which are no targets, at least. nullopt: unknown.
  std::optional<PageCount> mapped_elsewhere;
  UnobservableMemory unobservable;
  std::string refusal;  // why the latest refusal to clear bits, and what helps; empty: not known

  // True: a source of that kind was on at some time. `gated_throughout`: there were sources, and
  // the gate kept all of them off.
  bool had_references = false;
  bool had_samples = false;
  bool had_truth = false;
  bool gated_throughout = false;
  bool by_regions = false;  // one page of each region was looked at in its place
  PageCount looked_at;      // pages with an accessed bit read after a clear; of regions, at most
  PageCount accessed;       // pages that any source saw accessed; of regions, at most
  std::uint64_t looks = 0;  // pages x reads after a clear
  std::uint64_t samples = 0;

  // Why --objects was asked for and no process was tracked; empty: it was not, or one was.
  std::string objects_missing;
  UntrackedProcesses untracked;  // if some other process was tracked
};

// A recording that saw less than this is too little to rank by:
// one tenth of the resident memory looked at, or ...
inline constexpr double kLittleLookedAt = 0.1;
// ... this many samples. A page with a tenth of all accesses then has ten, give or take three.
inline constexpr std::uint64_t kFewSamples = 100;

// Starting that takes longer is reported: a program was not observed, or had to wait, for so long.
inline constexpr std::chrono::seconds kSlowStart{3};

// Exit status of `tmprof record` where it recorded, and saw nothing, or too little to rank by.
inline constexpr int kSawLittle = 3;

// A pure function. The text names no file, as the trace may get another name. It is one line
// without a trailing period:
//   "8 epochs in 8s; saw accesses to 64 MiB, looked at 66.1 MiB (67 MiB resident); confidence high:
//   43.0 looks at each page, 1 204 samples"
//   "3 epochs in 3s; saw no access, looked at 0 B (476 KiB resident); PID 4711 was stopped (SIGSTOP
//   or a debugger) all the time; next: continue it (kill -CONT 4711), and record again"
RecordingOutcome OutcomeOf(const RecordingFacts& facts);
// The line that the recording ends with: its title, the text of its outcome, and unless it saw too
// little the command that shows the trace.
std::string LastLineOf(const RecordingFacts& facts, const RecordingOutcome& outcome);

}  // namespace tmprof
