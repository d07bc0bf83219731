// SPDX-License-Identifier: Apache-2.0
// Which processes are observed: those that are named or were found and, as they come and go, their
// descendants.

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "profiler/process_filter.h"
#include "profiler/source.h"

namespace tmprof {

class TargetTracker {
 public:
  struct Options {
    bool follow_children = true;
    // Filter of descendants; other processes are always tracked. nullopt: every descendant is
    // tracked, too.
    std::optional<ProcessFilter> filter = ProcessFilter{};
    // The strict mode: at most this many targets, those that use most CPU. One that has a place
    // keeps it, unless another uses over 1.25 times as much: what sources know of it would be lost.
    // If they are equally busy, named and found ones come first, then the order of registration.
    std::optional<std::size_t> max_targets;
    std::optional<Pid> observer;  // this process, which never is a target of its own
    // The observer is the subreaper of what it launched (prctl(2)): its children are followed, too.
    bool observer_adopts_orphans = false;
    friend bool operator==(const Options&, const Options&) = default;
  };

  TargetTracker(const ProcFs& procfs, CpuTimeOf cpu_time_of, Options options);

  // Applies the options from now on. Processes found so far stay known, and so do their ids.
  void Configure(const Options& options);

  // Names a process. Fails with ESRCH where there is none, with EPERM/EACCES where its memory map
  // may not be read, and for a kernel thread, which has no memory of its own.
  Status AddNamed(Pid pid);

  // Tracks the processes `found` (by TargetFinder, ascending) from now on. Processes that only the
  // call before had are dropped; each keeps its id, should it come back. Returns why processes
  // cannot be tracked, once for each: their memory maps may not be read. Each call tries them
  // again. A process that is gone is no error.
  std::vector<Error> Follow(std::span<const ProcessInstance> found);

  // Looks for new children, drops dead ones, re-reads mappings: how often is a matter of how short
  // a life is to be noticed (Recorder::Options::refresh). A new child is tracked at once; the
  // filter is applied when a full second of its CPU use has been seen, and again each second. Where
  // an address space has the size and the resident pages that it had, as far as the kernel has
  // counted them, its mappings are read again a second after they were: while they are, the process
  // cannot map anything. A process that has used no CPU time since has mapped nothing, either. Very
  // many mappings are read less often: 60 000 of them every 2.4 s.
  void Refresh(MonotonicTime now);

  // The live processes that are named or found or pass the filter, ascending by id.
  const std::vector<TrackedProcess>& tracked() const { return tracked_; }
  // Resident pages of the tracked processes, as of the last refresh. Pages that several share count
  // for each, as in the kernel.
  PageCount resident() const;
  // How many more would be tracked without Options::max_targets.
  std::size_t left_out() const { return left_out_; }
  // The live descendants that Options::filter leaves out, as of the last refresh.
  const FilteredChildren& filtered() const { return filtered_; }
  bool AnyAlive() const;

  // The targets of the epoch that ends now: everything that was alive at some time since the last
  // call, and for one epoch more those that died, since their last evidence may still be under way.
  // Those that were not tracked in that time have no mappings, which means that they are unknown.
  // Processes that are found no longer are left out.
  std::vector<Target> EndEpoch();

  // Returns the parent that the process had when it was registered. nullopt: the target is unknown,
  // or has been gone for more than an epoch.
  std::optional<Pid> ParentOf(TargetId target) const;

 private:
  // When mappings were read, and what the process was right before that.
  struct Reading {
    MonotonicTime time;
    std::optional<std::chrono::nanoseconds> cpu_time;  // nullopt: its clock could not be read
    PageCount mapped;
    PageCount resident;
    std::string name;
    std::size_t mappings = 0;
  };

  struct Process {
    Target target;
    Pid parent;
    bool named = false;
    bool found = false;  // the last call of Follow() listed it
    bool child = false;  // it is a child of another one
    // The named or found process that it descends from, or itself; nullopt: its ancestors are gone.
    std::optional<TargetId> family;
    bool passes_filter = true;
    bool tracked = false;   // now
    bool observed = false;  // tracked at some time in this epoch, or in its last one
    PageCount resident;
    std::optional<Reading> mappings_read;
    // CPU time used so far, as last read and as of the start of the epoch; nullopt: not readable.
    std::optional<std::chrono::nanoseconds> cpu_time_now;
    std::optional<std::chrono::nanoseconds> cpu_time_at_epoch;
    std::optional<std::chrono::nanoseconds> cpu_time_at_first;  // at Register()
    CpuShareMeter cpu_share;
    int epochs_since_exit = 0;

    // Not so for what is found no longer.
    bool followed() const { return named || found || child; }
    bool wanted() const { return named || found || (child && passes_filter); }
    // The claim to a place under Options::max_targets: CPU use over the last full second, or of
    // late if it rested then; before a second has passed, and of two that are equal, what each has
    // used since it was registered. Weighted up for one that is `tracked`.
    std::pair<double, double> Claim() const;
  };

  // Not yet named, found or a child.
  Process& Register(Pid pid, const ProcessStat& stat);
  // Reads state and CPU time; nullopt where nothing could be learnt or the process is gone, which
  // is noted in the target.
  std::optional<ProcessStat> Observe(Process& process) const;
  // Reads the mappings and the command, too. False: the mappings could not be read.
  bool Update(Process& process) const;
  // Those only where they may be others by now.
  void UpdateIfDue(Process& process, MonotonicTime now) const;
  static bool MayHaveOtherMappings(const Reading& read, const ProcessStat& stat,
                                   std::optional<std::chrono::nanoseconds> cpu_time,
                                   MonotonicTime now);
  Status CheckMappings(Pid pid) const;
  Status FollowNew(const ProcessInstance& instance);
  void FindChildren();
  void FollowChildrenOf(Pid parent, std::optional<TargetId> family);
  // Decides which children are targets.
  void ApplyFilter();
  void RebuildTracked();
  Process* Find(Pid pid, std::uint64_t start_time_ticks);

  const ProcFs& procfs_;
  CpuTimeOf cpu_time_of_;
  Options options_;
  std::optional<PageCount> total_memory_;
  std::vector<Process> processes_;  // ascending by id
  std::vector<TrackedProcess> tracked_;
  std::size_t left_out_ = 0;
  FilteredChildren filtered_;
  std::vector<ProcessInstance> refused_;  // found processes that were refused
  std::uint32_t next_id_ = 0;
};

}  // namespace tmprof
