// SPDX-License-Identifier: Apache-2.0
// The profiling loop: targets, gate, sources, one profile per epoch.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/result.h"
#include "profiler/frame_comparison.h"
#include "profiler/source.h"
#include "profiler/target_tracker.h"

namespace tmprof {

// Waits for input on any of `fds` or for `timeout`. ppoll(2) in production.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void Wait(const std::vector<int>& fds, std::chrono::nanoseconds timeout) = 0;
};

class PollWaiter final : public Waiter {
 public:
  void Wait(const std::vector<int>& fds, std::chrono::nanoseconds timeout) override;
};

// Which roles may be on: asked once per gate period, and four times as often while one is off that
// may come on at any time.
struct GateVerdict {
  bool references_active = true;
  bool samples_active = true;
  bool may_come_on_early = true;  // sources that are off, before the period is over
  // All sources are on, and only another memory-stall share changes that. The recorder then does
  // not wake for the gate, and asks it when something else wakes it.
  bool holds_until_samples = false;
  std::string references_basis;  // the reason, for people; goes into the sources' notes
  std::string samples_basis;
};
enum class GateLook : std::uint8_t { kPeriod, kWhatIsOff };
using GateCheck =
    std::function<GateVerdict(GateLook look, std::optional<double> memory_stall_share)>;

class Recorder {
 public:
  struct Options {
    std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
    std::optional<std::chrono::nanoseconds> duration;  // nullopt: until stopped or the targets end
    // The period at which targets are refreshed: four times within the second after which the
    // process filter judges a child.
    std::chrono::nanoseconds refresh{std::chrono::milliseconds(250)};
    std::chrono::nanoseconds gate_period{std::chrono::milliseconds(100)};
    // How often targets are looked for: with the refresh that comes next.
    std::chrono::nanoseconds find_period{std::chrono::seconds(1)};
    bool wait_for_targets = false;  // go on where there are none: they may yet be found
  };
  struct Environment {
    const Clock& clock;
    Waiter& waiter;
    TargetTracker& targets;
    std::function<std::chrono::nanoseconds()> own_cpu_time;
    std::function<bool()> stop_requested;  // asked after every wait
    std::vector<int> stop_fds;             // readable when it is time to ask
    GateCheck gate;                        // empty: always on
    // Asked as each epoch begins, for its length instead of that of Options; may be empty.
    std::function<std::chrono::nanoseconds()> epoch_length;
    // To name targets or have them followed, before `targets` is refreshed; may be empty.
    std::function<void(MonotonicTime now)> find_targets;
    // Told of the targets each time that they have been looked for; may be empty.
    std::function<void(const std::vector<TrackedProcess>&)> on_targets;
    // Called as often as sources are serviced; may be empty.
    std::function<void()> service;
    // Asked to add to each epoch, after all sources; may be empty.
    std::function<void(EpochProfile&)> complete_epoch;
    // Told of each source that fails while another works; may be empty.
    std::function<void(const Error&)> on_source_failure;
    // Asked for frames of pages that no look read; may be empty.
    FrameComparison::OpenFrames open_frames;
  };
  enum class StopReason : std::uint8_t { kDuration, kRequested, kTargetsGone };

  // `unavailable` are the sources that were asked for or possible but refused: they stand in every
  // epoch, so that a trace says what it does not hold.
  Recorder(const Options& options, Environment environment,
           std::vector<std::unique_ptr<Source>> sources, std::vector<SourceStatus> unavailable);

  // Gives the sources their targets, so that they follow them from now on; Run() does it again. A
  // source that fails is dropped; the error of the last one is returned.
  Status Attach();

  // Calls `on_epoch` for every epoch, the last, shorter one included. A source that fails is
  // dropped: what it holds goes into the open epoch, and it is unavailable in all later ones. The
  // error of the last source, or of `on_epoch`, ends the recording and is returned.
  Result<StopReason> Run(const std::function<Status(const EpochProfile&)>& on_epoch);

 private:
  // A source that failed in the open epoch.
  struct Dropped {
    SourceEpoch last;    // for the open epoch
    SourceStatus after;  // for all later ones
  };

  Status RefreshTargets(MonotonicTime now);
  void Drop(Source& source, const Error& error);
  void RetireDropped();
  // True: a role has come on.
  bool ConsultGate(GateLook look);
  SourceEpoch TakeEpochOf(Source& source) const;
  void BeginEpoch(MonotonicTime now);
  Status EndEpoch(MonotonicTime now, const std::function<Status(const EpochProfile&)>& on_epoch);

  Options options_;
  Environment environment_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<SourceStatus> unavailable_;
  std::vector<Dropped> dropped_;
  GateVerdict verdict_;
  FrameComparison frame_comparison_;
  MonotonicTime next_find_;
  std::uint64_t next_index_ = 0;
  MonotonicTime epoch_start_;
  std::chrono::nanoseconds epoch_length_{0};
  std::chrono::nanoseconds own_cpu_at_epoch_start_{0};
};

// User + system CPU time of this process, all threads.
std::chrono::nanoseconds OwnCpuTime();

}  // namespace tmprof
