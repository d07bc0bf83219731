// SPDX-License-Identifier: Apache-2.0
// The recorder's side of allocation logs (objects/tracker/log.h). It checks all data from
// processes before it uses them.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "objects/tracker/log.h"

namespace tmprof {

struct LoggedModule {
  std::string path;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;
};

struct LoggedEvent {
  objtrace::LogEventKind kind = objtrace::LogEventKind::kAllocated;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  MonotonicTime time;
  std::uint32_t site = 0;  // for a thread's event: its TID
  double weight = 0;  // mean number of allocations that it stands for; 1: all such are recorded
};

std::string ThreadNameOf(const LoggedEvent& ended);

// The log of one process, from its begin or its exec(2) on.
class ProcessLog {
 public:
  Pid pid() const;
  MonotonicTime begin() const;

  // IDs below this have been written, or are being written.
  std::uint32_t sites() const;
  // Returns return addresses, innermost first; empty: unknown, or not written yet.
  std::span<const std::uint64_t> Frames(std::uint32_t site) const;
  std::vector<LoggedModule> Modules() const;  // in the order of discovery
  // Returns how many of Modules() existed when the site was found. If libraries lay at one address
  // one after the other, the last of these is the site's.
  std::size_t ModulesOf(std::uint32_t site) const;

  // Returns the number of events that were not recorded up to now.
  std::uint64_t lost() const;

  // True if these are mappings of the program that writes the log: an exec(2) unmaps it.
  bool IsMappedIn(std::span<const Mapping> mappings) const;

 private:
  friend class AllocationLogs;
  struct Unmap {
    void operator()(objtrace::AllocationLog* log) const;
  };

  std::unique_ptr<objtrace::AllocationLog, Unmap> log_;
  std::uint64_t next_ = 0;
  std::uint64_t torn_ = 0;  // events during which a process died
  // The last part of its path, which identifies it. The folders before it may be named by links.
  std::string name_;
  bool is_left_ = false;
};

class AllocationLogs {
 public:
  struct Options {
    std::uint64_t threshold_bytes = 4096;  // least size of an allocation that is always recorded
    // Mean bytes of smaller allocations between two that are recorded; 0: none is recorded.
    std::uint64_t interval_bytes = 512 * 1024;
    std::filesystem::path parent = "/dev/shm";  // a folder on a file system in memory
  };
  // Creates a folder that nobody else may read. It is removed together with this object.
  static Result<AllocationLogs> Create(const Options& options);
  AllocationLogs(AllocationLogs&&) noexcept = default;
  AllocationLogs& operator=(AllocationLogs&&) noexcept = default;
  ~AllocationLogs();

  // Returns the value of objtrace::kTrackVariable for programs that preload the tracker.
  const std::string& request() const { return request_; }

  using Log = std::shared_ptr<ProcessLog>;
  using Visit = std::function<void(const Log& log, const LoggedEvent& event)>;
  // Called after each process's events. `end` is set if the process began another log, ended, or
  // was seen to have left this one. The log is then forgotten.
  using After = std::function<void(const Log& log, std::optional<MonotonicTime> end)>;
  // Hands over all events since the last call, process by process in the order of its log.
  void Take(const Visit& visit, const After& after);

  // Ends the log with the next Take(). It serves processes that no longer run a program, or whose
  // program writes no log.
  static void Leave(const Log& log) { log->is_left_ = true; }

  // Returns the processes without room for a log that Take() has seen.
  std::uint64_t refused() const { return refused_; }

 private:
  AllocationLogs() = default;
  void FindNew();
  LoggedEvent Checked(const objtrace::LogEvent& event) const;
  void TakeOf(const Log& log, bool is_gone, const Visit& visit) const;

  // Empty after a move.
  std::unique_ptr<std::filesystem::path> folder_;
  UniqueFd lock_;
  std::string request_;
  std::uint64_t interval_bytes_ = 0;
  std::uint64_t refused_ = 0;
  std::vector<Log> logs_;
};

}  // namespace tmprof
