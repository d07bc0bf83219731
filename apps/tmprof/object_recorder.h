// SPDX-License-Identifier: Apache-2.0
// `tmprof record --objects`: what the recorded processes allocate, into the epochs of a trace.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "objtrace/tracker/log_reader.h"

namespace tmprof {

class ObjectRecorder {
 public:
  static Result<ObjectRecorder> Create(const AllocationLogs::Options& options);

  // What programs that preload the tracker find in kTrackVariable.
  std::string request() const { return logs_.request(); }

  // Takes what the processes have told since the last call: they tell it where it finds room, so
  // that it is to be called often.
  void Service();

  // Processes that are not tracked, for want of room in the folder in memory.
  std::uint64_t refused() const { return logs_.refused(); }

  // Adds what the epoch's targets have allocated and freed since the last call. What lives in a
  // process that becomes a target comes first.
  void Complete(EpochProfile& epoch);

 private:
  using LiveEvents = std::map<std::uint64_t, LoggedEvent>;  // by address

  struct Process {
    AllocationLogs::Log log;
    std::vector<LoggedEvent> waiting;  // for the end of the epoch
    bool is_gone = false;
    LiveEvents allocated;
    LiveEvents mapped;
    std::optional<TargetId> told;                  // what lives is known of it
    MonotonicTime last;                            // event
    std::map<std::uint32_t, std::uint32_t> sites;  // IDs of its log, and of the trace
    std::uint64_t lost = 0;
  };
  using ProcessKey = std::pair<Pid, MonotonicTime>;

  ObjectRecorder(AllocationLogs logs, std::uint64_t all_from_bytes)
      : logs_(std::move(logs)), all_from_bytes_(all_from_bytes) {}

  static const Target* FindTarget(const EpochProfile& epoch, Pid pid);
  void TellWhatLives(Process& process, const ProcessLog& log, const Target& target,
                     Allocations& into);
  Process& ProcessOf(const AllocationLogs::Log& log);
  // All that lives in a process that is gone.
  static void End(const Process& process, TargetId target, Allocations& into);
  // Whether it ends anything that lives.
  static bool Apply(Process& process, const LoggedEvent& event);
  void Add(Process& process, const ProcessLog& log, const LoggedEvent& event, TargetId target,
           Allocations& into);
  std::uint32_t SiteOf(Process& process, const ProcessLog& log, std::uint32_t site,
                       Allocations& into);
  std::vector<SourceFrame> FramesOf(const ProcessLog& log, std::uint32_t site);

  AllocationLogs logs_;
  std::uint64_t all_from_bytes_;
  std::map<ProcessKey, Process> processes_;
  std::map<std::vector<SourceFrame>, std::uint32_t> sites_;
  // Of calls, by the module's path and the offset in it.
  std::map<std::pair<std::string, std::uint64_t>, std::vector<SourceFrame>> calls_;
};

}  // namespace tmprof
