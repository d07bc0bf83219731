// SPDX-License-Identifier: Apache-2.0
// The recorder's side of allocation logs (objtrace/tracker/log.h). What processes write there is
// checked before it is used.

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
#include "objtrace/tracker/log.h"

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
  std::uint32_t site = 0;  // of a thread, its TID
  double weight = 0;  // allocations that this one stands for, on average; 1: all such are recorded
};

std::string ThreadNameOf(const LoggedEvent& ended);

// Of one process, from its begin or its exec(2) on.
class ProcessLog {
 public:
  Pid pid() const;
  MonotonicTime begin() const;

  // IDs below are, or are being written.
  std::uint32_t sites() const;
  // Return addresses, innermost first; empty: unknown, or not written yet.
  std::span<const std::uint64_t> Frames(std::uint32_t site) const;
  std::vector<LoggedModule> Modules() const;  // in the order in which they were found
  // As many of Modules() as were there when the site was found. Where libraries lay at one address,
  // one after the other, the last of these is the site's.
  std::size_t ModulesOf(std::uint32_t site) const;

  // Events that were not recorded, so far.
  std::uint64_t lost() const;

  // Whether these are of the program that writes it: an exec(2) unmaps it.
  bool IsMappedIn(std::span<const Mapping> mappings) const;

 private:
  friend class AllocationLogs;
  struct Unmap {
    void operator()(objtrace::AllocationLog* log) const;
  };

  std::unique_ptr<objtrace::AllocationLog, Unmap> log_;
  std::uint64_t next_ = 0;
  std::uint64_t torn_ = 0;  // events that a process died in
  // The end of its path, of which there is one: what leads to it may be named by links.
  std::string name_;
  bool is_left_ = false;
};

class AllocationLogs {
 public:
  struct Options {
    std::uint64_t threshold_bytes = 4096;  // of each allocation that is recorded
    // Of smaller ones, on average between those recorded; 0: none is.
    std::uint64_t interval_bytes = 512 * 1024;
    std::filesystem::path parent = "/dev/shm";  // a folder in memory
  };
  // Makes a folder that nobody else may read, which goes with this object.
  static Result<AllocationLogs> Create(const Options& options);
  AllocationLogs(AllocationLogs&&) noexcept = default;
  AllocationLogs& operator=(AllocationLogs&&) noexcept = default;
  ~AllocationLogs();

  // Of objtrace::kTrackVariable, for programs that preload the tracker.
  const std::string& request() const { return request_; }

  using Log = std::shared_ptr<ProcessLog>;
  using Visit = std::function<void(const Log& log, const LoggedEvent& event)>;
  // After each process's events; `end`: it has begun another log then, or ended or left this one,
  // as is seen then, and is forgotten now.
  using After = std::function<void(const Log& log, std::optional<MonotonicTime> end)>;
  // Hands over what has been logged since the last call: for each process in the order of its log.
  void Take(const Visit& visit, const After& after);

  // Of a process that runs no program any more, or one that writes no log: it ends with the next
  // Take().
  static void Leave(const Log& log) { log->is_left_ = true; }

  // Processes that had no room for a log, as far as Take() has seen.
  std::uint64_t refused() const { return refused_; }

 private:
  AllocationLogs() = default;
  void FindNew();
  LoggedEvent Checked(const objtrace::LogEvent& event) const;
  void TakeOf(const Log& log, bool is_gone, const Visit& visit) const;

  // Moved from: empty.
  std::unique_ptr<std::filesystem::path> folder_;
  UniqueFd lock_;
  std::string request_;
  std::uint64_t interval_bytes_ = 0;
  std::uint64_t refused_ = 0;
  std::vector<Log> logs_;
};

}  // namespace tmprof
