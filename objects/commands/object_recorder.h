// SPDX-License-Identifier: Apache-2.0
// `tmprof record --objects`: what the recorded processes allocate, into the epochs of a trace, and
// which variables and stacks lie on their accessed pages.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "objects/analysis/loaded_data.h"
#include "objects/tracker/log_reader.h"

namespace tmprof {

class ObjectRecorder {
 public:
  static Result<ObjectRecorder> Create(const AllocationLogs::Options& options);

  // Value of kTrackVariable for programs that preload the tracker.
  std::string request() const { return logs_.request(); }

  // Takes the events that the processes have reported since the last call: they report if there is
  // room, so that it is to be called often.
  void Service();

  // True: some process was tracked, as far as Service() has seen.
  bool tracked_any() const { return tracked_any_; }
  // Processes that are not tracked, for want of room in the folder in memory.
  std::uint64_t refused() const { return logs_.refused(); }

  // Adds what the epoch's targets have allocated and freed since the last call, and the variables
  // and stacks on pages that it saw accessed and none before it did. What lives in a process that
  // becomes a target comes first.
  void Complete(EpochProfile& epoch);

 private:
  using LiveEvents = std::map<std::uint64_t, LoggedEvent>;  // keyed by address

  struct Stack {
    std::optional<Tid> thread;
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    MonotonicTime begin;
    std::optional<MonotonicTime> end;
    std::string name;                   // name of a thread that has ended
    std::uint32_t site = kUnknownSite;  // unknown: not reported

    VpnRange pages() const {
      return {VpnOfAddress(start), Vpn(VpnOfAddress(start + bytes - 1).value() + 1)};
    }
  };

  // Memory of a target that needs no tracking of allocations.
  struct Fixed {
    Stack main;
    std::map<std::string, MonotonicTime> files;  // that are mapped, and since when
  };

  struct Process {
    AllocationLogs::Log log;
    std::vector<LoggedEvent> waiting;  // for the end of the epoch
    std::vector<LoggedEvent> going;    // kGoing
    std::optional<MonotonicTime> end;  // it is gone: when that was, or was seen
    LiveEvents allocated;
    LiveEvents mapped;
    std::optional<TargetId> told;                  // target whose live objects are known
    MonotonicTime last;                            // event
    std::map<std::uint32_t, std::uint32_t> sites;  // IDs of its log, and of the trace
    std::uint64_t lost = 0;
    std::vector<Mapping> mappings;  // mappings of the program that writes the log, as last read
    std::map<std::uint32_t, Stack> stacks;  // stacks of threads but the main one, keyed by TID
    std::vector<Stack> ended;               // in this epoch
  };
  using ProcessKey = std::pair<Pid, MonotonicTime>;

  ObjectRecorder(AllocationLogs logs, std::uint64_t all_from_bytes)
      : logs_(std::move(logs)), all_from_bytes_(all_from_bytes) {}

  using Accessed = std::map<TargetId, std::vector<VpnRange>>;  // pages, ascending, disjoint

  static Accessed AccessedPages(const PageColumns& pages);
  static const Target* FindTarget(const EpochProfile& epoch, Pid pid);
  void TellWhatLives(Process& process, const ProcessLog& log, const Target& target,
                     Allocations& into);
  Process& ProcessOf(const AllocationLogs::Log& log);
  // Takes its mappings, unless they are no longer those of the program that began its log: then
  // that has ended.
  void LookAtMappings(Process& process);
  // All that lives in a process that is gone.
  void End(const Process& process, TargetId target, Allocations& into);
  static void FollowThread(Process& process, const LoggedEvent& event);
  // `process` is null for a process whose allocations are not tracked.
  void AddFixed(const EpochProfile& epoch, const Target& target, Process* process,
                std::span<const VpnRange> accessed, Allocations& into);
  void AddData(const EpochProfile& epoch, const Target& target, std::span<const Mapping> mappings,
               std::optional<MonotonicTime> begin, std::span<const VpnRange> accessed,
               Allocations& into);
  void AddMainStack(const EpochProfile& epoch, const Target& target,
                    std::span<const Mapping> mappings, std::optional<MonotonicTime> begin,
                    std::span<const VpnRange> accessed, Allocations& into);
  void AddStack(TargetId target, Stack& stack, std::string name, Allocations& into);
  std::uint32_t SiteOf(const LoadedData::Change& change, Allocations& into);
  // Those that have come true, in order: what is about to go has, or has not, by a later one.
  static std::vector<LoggedEvent> Settle(Process& process, const LoggedEvent& event);
  // True: the event begins an object, or ends one that lives.
  static bool Apply(Process& process, const LoggedEvent& event);
  void Add(Process& process, const ProcessLog& log, const LoggedEvent& event, TargetId target,
           Allocations& into);
  std::uint32_t SiteOf(Process& process, const ProcessLog& log, std::uint32_t site,
                       Allocations& into);
  std::vector<SourceFrame> FramesOf(const ProcessLog& log, std::uint32_t site);
  void TellFile(const std::string& path, Allocations& into);

  AllocationLogs logs_;
  bool tracked_any_ = false;
  std::uint64_t all_from_bytes_;
  std::map<ProcessKey, Process> processes_;
  std::map<std::vector<SourceFrame>, std::uint32_t> sites_;
  std::map<std::tuple<FixedKind, std::string, std::string, std::uint64_t>, std::uint32_t>
      data_sites_;  // keyed by name, file and place
  std::uint32_t last_site_ = kUnknownSite;
  std::set<std::string> told_files_;
  ProcFs procfs_;
  LoadedData loaded_;
  std::map<TargetId, Fixed> fixed_;
  // Frames of calls, keyed by the module's path and the offset in it.
  std::map<std::pair<std::string, std::uint64_t>, std::vector<SourceFrame>> calls_;
};

}  // namespace tmprof
