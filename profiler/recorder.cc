// SPDX-License-Identifier: Apache-2.0

#include "profiler/recorder.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "driver/core/gate.h"
#include "profiler/epoch_builder.h"

namespace tmprof {
namespace {

// These are the promise of Source::Service(). The first is a third of the time in which the clock
// sampler fills a ring of 512 KiB at its highest rate: 20 000 records of 176 bytes a second, 149
// ms. A ring that fills faster wakes the recorder. Each wake-up costs it some 40 us.
constexpr std::chrono::milliseconds kServicePeriod{50};
constexpr std::chrono::milliseconds kQuietServicePeriod{200};

timespec ToTimespec(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = seconds.count(), .tv_nsec = (duration - seconds).count()};
}

void AddNote(SourceStatus& status, const std::string& text) {
  if (!status.note.empty()) status.note += "; ";
  status.note += text;
}

// Says with the looks at pages which of them were not compared.
void Tell(const FrameComparison::Outcome& outcome, EpochProfile& profile) {
  for (SourceStatus& status : profile.sources) {
    if (status.role != SourceRole::kReferences || status.state != SourceState::kActive) continue;
    if (outcome.not_compared > 0)
      status.details.push_back({"records_not_compared", outcome.not_compared});
    if (outcome.are_frames_hidden) {
      AddNote(
          status,
          "a page that forked processes share may count for each of them, because the kernel shows "
          "frames in /proc/PID/pagemap with CAP_SYS_ADMIN only");
    }
  }
}

}  // namespace

void PollWaiter::Wait(const std::vector<int>& fds, std::chrono::nanoseconds timeout) {
  std::vector<pollfd> polled;
  polled.reserve(fds.size());
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  const timespec limit = ToTimespec(std::max(timeout, std::chrono::nanoseconds(0)));
  // Interrupted or not, the caller looks at the clock and at every source again.
  (void)ppoll(polled.data(), polled.size(), &limit, nullptr);
}

std::chrono::nanoseconds OwnCpuTime() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

Recorder::Recorder(const Options& options, Environment environment,
                   std::vector<std::unique_ptr<Source>> sources,
                   std::vector<SourceStatus> unavailable)
    : options_(options),
      environment_(std::move(environment)),
      sources_(std::move(sources)),
      unavailable_(std::move(unavailable)) {
  TMPROF_CHECK(options_.epoch > options_.epoch.zero());
  TMPROF_CHECK(options_.refresh > options_.refresh.zero());
  TMPROF_CHECK(options_.gate_period > options_.gate_period.zero());
  TMPROF_CHECK(options_.find_period > options_.find_period.zero());
}

Status Recorder::RefreshTargets(MonotonicTime now) {
  if (environment_.find_targets && now >= next_find_) {
    environment_.find_targets(now);
    next_find_ = now + options_.find_period;
  }
  environment_.targets.Refresh(now);
  if (environment_.on_targets) environment_.on_targets(environment_.targets.tracked());
  std::vector<Error> failures;
  std::erase_if(sources_, [&](const std::unique_ptr<Source>& source) {
    const Status followed = source->SetTargets(environment_.targets.tracked());
    if (followed) return false;
    Drop(*source, followed.error());
    failures.push_back(followed.error());
    return true;
  });
  std::optional<Error> last;
  if (sources_.empty() && !failures.empty()) {
    last = std::move(failures.back());
    failures.pop_back();
  }
  if (environment_.on_source_failure)
    std::ranges::for_each(failures, environment_.on_source_failure);
  if (last) return Fail(*std::move(last));
  return {};
}

Status Recorder::Attach() { return RefreshTargets(environment_.clock.Now()); }

void Recorder::Drop(Source& source, const Error& error) {
  SourceEpoch last = TakeEpochOf(source);
  AddNote(last.status, error.Message());
  SourceStatus after{.name = last.status.name,
                     .label = last.status.label,
                     .role = last.status.role,
                     .state = SourceState::kUnavailable,
                     .samples_of = last.status.samples_of,
                     .note = error.Message()};
  dropped_.push_back({.last = std::move(last), .after = std::move(after)});
}

void Recorder::RetireDropped() {
  for (Dropped& dropped : dropped_) unavailable_.push_back(std::move(dropped.after));
  dropped_.clear();
}

bool Recorder::ConsultGate(GateLook look) {
  std::optional<double> stall_share;
  for (const auto& source : sources_) {
    if (!stall_share) stall_share = source->MemoryStallShare();
  }
  const GateVerdict before = std::exchange(verdict_, environment_.gate(look, stall_share));
  const auto is_on = [](const GateVerdict& verdict, SourceRole role) {
    return role == SourceRole::kReferences ? verdict.references_active : verdict.samples_active;
  };
  bool came_on = false;
  for (const auto& source : sources_) {
    const bool on = is_on(verdict_, source->role());
    if (on == is_on(before, source->role())) continue;
    source->SetActive(on);
    came_on |= on;
  }
  return came_on;
}

SourceEpoch Recorder::TakeEpochOf(Source& source) const {
  SourceEpoch epoch = source.TakeEpoch();
  const std::string& basis =
      source.role() == SourceRole::kReferences ? verdict_.references_basis : verdict_.samples_basis;
  if (!basis.empty()) AddNote(epoch.status, "gate: " + basis);
  return epoch;
}

Status Recorder::EndEpoch(MonotonicTime now,
                          const std::function<Status(const EpochProfile&)>& on_epoch) {
  std::vector<SourceEpoch> delivered;
  for (const auto& source : sources_) delivered.push_back(TakeEpochOf(*source));
  for (const SourceEpoch& epoch : delivered) {
    if (epoch.samples.empty()) continue;
    for (const auto& source : sources_) source->SeeSamples(epoch.samples);
  }
  for (Dropped& dropped : dropped_) delivered.push_back(std::move(dropped.last));
  for (const SourceStatus& status : unavailable_) delivered.push_back({.status = status});
  RetireDropped();

  const auto own_cpu = environment_.own_cpu_time();
  std::vector<std::optional<SeenFrame>> frames;
  EpochProfile profile = BuildEpoch({.index = next_index_++,
                                     .start = epoch_start_,
                                     .end = now,
                                     .targets = environment_.targets.EndEpoch(),
                                     .profiler_cpu_time = own_cpu - own_cpu_at_epoch_start_},
                                    std::move(delivered), &frames);
  const auto parent_of = [this](TargetId target) { return environment_.targets.ParentOf(target); };
  Tell(frame_comparison_.Compare(profile, frames, parent_of, environment_.open_frames), profile);
  own_cpu_at_epoch_start_ = own_cpu;
  if (environment_.complete_epoch) environment_.complete_epoch(profile);
  const Status taken = on_epoch(profile);
  BeginEpoch(now);
  return taken;
}

void Recorder::BeginEpoch(MonotonicTime now) {
  epoch_start_ = now;
  epoch_length_ = environment_.epoch_length ? environment_.epoch_length() : options_.epoch;
}

Result<Recorder::StopReason> Recorder::Run(
    const std::function<Status(const EpochProfile&)>& on_epoch) {
  if (auto status = Attach(); !status) return Fail(status.error());
  // Records and CPU time from before the first epoch belong to no epoch.
  RetireDropped();
  (void)environment_.targets.EndEpoch();
  const MonotonicTime start = environment_.clock.Now();
  BeginEpoch(start);
  own_cpu_at_epoch_start_ = environment_.own_cpu_time();
  MonotonicTime next_refresh = start + options_.refresh;
  MonotonicTime next_gate = start + options_.gate_period;
  MonotonicTime gate_period_end = next_gate;
  std::chrono::nanoseconds service_period = kServicePeriod;

  std::optional<StopReason> stopped;
  while (true) {
    const MonotonicTime now = environment_.clock.Now();
    if (now >= next_refresh) {
      if (const Status status = RefreshTargets(now); !status) {
        if (auto delivered = EndEpoch(now, on_epoch); !delivered) return Fail(delivered.error());
        return Fail(status.error());
      }
      next_refresh = now + options_.refresh;
    }
    bool any_input = static_cast<bool>(environment_.service);
    for (const auto& source : sources_) any_input |= source->Service();
    if (environment_.service) environment_.service();
    service_period =
        any_input ? kServicePeriod
                  : std::min<std::chrono::nanoseconds>(2 * service_period, kQuietServicePeriod);
    if (environment_.gate && now >= next_gate) {
      const bool period_over = now >= gate_period_end;
      const bool came_on = ConsultGate(period_over ? GateLook::kPeriod : GateLook::kWhatIsOff);
      // A source that has come on is judged by a whole period.
      if (period_over || came_on) gate_period_end = now + options_.gate_period;
      const bool all_on = verdict_.references_active && verdict_.samples_active;
      next_gate = all_on || !verdict_.may_come_on_early
                      ? gate_period_end
                      : std::min(gate_period_end, now + options_.gate_period / TMPROF_GATE_PARTS);
    }

    if (environment_.stop_requested()) {
      stopped = StopReason::kRequested;
    } else if (options_.duration && now - start >= *options_.duration) {
      stopped = StopReason::kDuration;
    } else if (!options_.wait_for_targets && !environment_.targets.AnyAlive()) {
      stopped = StopReason::kTargetsGone;
    }
    if (stopped && now == epoch_start_) return *stopped;
    if (stopped || now - epoch_start_ >= epoch_length_) {
      if (auto status = EndEpoch(now, on_epoch); !status) return Fail(status.error());
      if (stopped) return *stopped;
    }

    MonotonicTime wake =
        std::min({now + service_period, next_refresh, epoch_start_ + epoch_length_});
    if (environment_.gate && !verdict_.holds_until_samples) wake = std::min(wake, next_gate);
    if (options_.duration) wake = std::min(wake, start + *options_.duration);
    std::vector<int> fds = environment_.stop_fds;
    for (const auto& source : sources_) {
      const std::vector<int> source_fds = source->PollFds();
      fds.insert(fds.end(), source_fds.begin(), source_fds.end());
    }
    environment_.waiter.Wait(fds, wake - environment_.clock.Now());
  }
}

}  // namespace tmprof
