// SPDX-License-Identifier: Apache-2.0
// The part of `tmprof record` that tracks and places allocations. It needs component objects/.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "base/tracked_process.h"
#include "profiler/recording_outcome.h"

namespace tmprof {

struct ObjectRecordingOptions {
  bool objects = false;
  std::optional<std::uint64_t> from_bytes;      // set if `objects` is
  std::optional<std::uint64_t> interval_bytes;  // set if `objects` is
  std::string advice;  // file; empty: objects lie where malloc(3) puts them
};

void AddObjectRecordingOptions(CLI::App& command, ObjectRecordingOptions& options);
// Refuses advice that cannot be read.
Status CheckObjectRecording(const ObjectRecordingOptions& options);

// Does nothing until Preload() is called.
class RecordedObjects {
 public:
  // `procfs` has to outlive it.
  explicit RecordedObjects(const ProcFs& procfs);
  ~RecordedObjects();
  RecordedObjects(const RecordedObjects&) = delete;
  RecordedObjects& operator=(const RecordedObjects&) = delete;

  // All programs that this process starts from now on preload a library that reports allocations
  // or places them, as the options say. To be called before there are threads.
  Status Preload(const ObjectRecordingOptions& options, const std::string& program);

  // True if allocations are tracked. The calls below do something only then.
  bool is_tracking() const;
  void Service();
  void Complete(EpochProfile& epoch);
  void SeeTargets(const std::vector<TrackedProcess>& targets);
  void Add(const EpochProfile& epoch);

  // Says which processes had no room for their logs; empty: all had.
  std::string Refusal() const;
  UntrackedProcesses Untracked() const;
  // The reason is empty if some process's allocations were tracked, or nobody asked for them.
  std::string WhyNone(const UntrackedProcesses& untracked) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
