// SPDX-License-Identifier: Apache-2.0
// The ledger: every move of a placement daemon, what did not move and why, and which moves paid
// back. One header, one frame per epoch, one end frame; docs/trace-format.md has the layout and the
// compatibility promise.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/move.h"
#include "base/result.h"
#include "base/tiers.h"
#include "base/trace_info.h"
#include "base/units.h"

namespace tmprof {

// What it takes to read a ledger alone.
struct LedgerInfo {
  std::string tool_version;                          // "tmprof 0.1.0"
  std::string kernel_release;                        // uname -r
  std::chrono::system_clock::time_point wall_start;  // at `start`
  MonotonicTime start;
  std::chrono::nanoseconds epoch_length{0};
  Tiers tiers;
  std::string rank_model;  // whose unit scores and weights have: "rate"
  std::string policy;      // "history"
  bool dry_run = false;    // nothing was moved: each outcome has the error ECANCELED
  std::vector<Setting> settings;
  std::vector<std::string> warnings;
  friend bool operator==(const LedgerInfo&, const LedgerInfo&) = default;
};

struct LedgerTarget {
  TargetId id;
  Pid pid;
  std::uint64_t start_time_ticks = 0;  // /proc/PID/stat field 22
  std::string name;                    // comm
  std::string command;                 // argv joined by spaces
  friend bool operator==(const LedgerTarget&, const LedgerTarget&) = default;
};

struct LedgerEpoch {
  std::uint64_t index = 0;  // a gap is an epoch that was lost
  MonotonicTime start;
  MonotonicTime end;
  // Ascending by id: new ones, and those that have changed their name or command.
  std::vector<LedgerTarget> targets;
  NotMoved not_moved;
  std::uint64_t replaced = 0;  // moves dropped untried, as newer decisions took their place
  // Names the evidence that scores and weights of the epoch are estimated from: "memory",
  // "combined", "references", "samples". Empty: not told.
  std::string ranked_by;
  // Those that were over in this epoch, in that order; of targets told of here or before.
  std::vector<MoveOutcome> moves;
  std::vector<SettledMove> settled;  // of this epoch and of earlier ones
  friend bool operator==(const LedgerEpoch&, const LedgerEpoch&) = default;
};

// Streams: holds one epoch at a time, and the numbers of the targets. Not thread-safe.
class LedgerWriter {
 public:
  // Creates `path` or empties it, and writes the header; mode, lock, links, devices and "-" are as
  // TraceWriter has them.
  static Result<LedgerWriter> Create(const std::filesystem::path& path, const LedgerInfo& info);
  LedgerWriter(LedgerWriter&&) noexcept;
  LedgerWriter& operator=(LedgerWriter&&) noexcept;
  // Does not Finish(): a destroyed writer leaves a ledger that ends early, and says so.
  ~LedgerWriter();

  // The frame is handed to the kernel before this returns: killing the process afterwards loses
  // nothing of it. A failed write (full disk) leaves the file as it was before the call, and the
  // writer refuses all further calls with the same error: the ledger ends there, and moving need
  // not. Indexes ascend; an epoch that breaks the rules of LedgerEpoch is a broken invariant.
  Status Write(const LedgerEpoch& epoch);
  // Marks the ledger as complete and brings it to the disk. Nothing may be written afterwards.
  Status Finish();

  std::uint64_t bytes_written() const;

 private:
  struct State;
  explicit LedgerWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Streams: memory is bounded by the largest epoch and the numbers of the targets. Not thread-safe.
class LedgerReader {
 public:
  // Fails on a wrong magic number, a version of the future, or a damaged header. Takes anything
  // that can be read from start to end, a pipe too.
  static Result<LedgerReader> Open(const std::filesystem::path& path);
  LedgerReader(LedgerReader&&) noexcept;
  LedgerReader& operator=(LedgerReader&&) noexcept;
  ~LedgerReader();

  const LedgerInfo& info() const;
  const std::filesystem::path& path() const;

  // Overwrites `epoch` with the next one; false at the end. Errors name the file and the byte
  // offset of the frame that is cut or damaged, and stay: what came before stands.
  Result<bool> Next(LedgerEpoch& epoch);

  // After Next() returned false: whether the daemon finished the ledger, or was killed, or still
  // writes.
  bool finished() const;
  StreamEnd End() const;

 private:
  struct State;
  explicit LedgerReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
