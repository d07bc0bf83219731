// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/task_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tmprof {

Result<TaskEvents> TaskEvents::Create(PerfApi& api, std::vector<Event> events,
                                      std::size_t ring_bytes, std::optional<NamedEvent> counted) {
  TMPROF_CHECK(!events.empty());
  if (counted) {
    counted->attr.size = sizeof counted->attr;
    counted->attr.inherit = 1;
    counted->attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  }
  for (Event& event : events) {
    perf_event_attr& attr = event.event.attr;
    attr.size = sizeof attr;
    attr.inherit = 1;
    attr.use_clockid = 1;
    attr.clockid = CLOCK_MONOTONIC;
    TMPROF_CHECK(attr.sample_type == events.front().event.attr.sample_type);
    TMPROF_CHECK(attr.read_format == events.front().event.attr.read_format);
    attr.sample_id_all = 1;
    attr.watermark = 1;
    attr.wakeup_watermark = static_cast<std::uint32_t>(ring_bytes / 4);
  }
  perf_event_attr& first = events.front().event.attr;
  first.task = 1;  // FORK and EXIT
  first.mmap = 1;  // executable mappings …
  first.mmap2 = 1;
  first.comm = 1;  // … and exec
  first.comm_exec = 1;
  std::vector<CpuId> cpus = api.OnlineCpus();
  std::vector<PerfRing> rings;
  for (const CpuId cpu : cpus) {
    auto ring = PerfRing::Create(api, cpu, ring_bytes);
    if (!ring) return std::unexpected(ring.error());
    rings.push_back(std::move(*ring));
  }
  return TaskEvents(api, std::move(events), std::move(cpus), std::move(rings), std::move(counted));
}

TaskEvents::Family* TaskEvents::FamilyOf(Pid process) {
  const auto found = std::ranges::find_if(
      families_, [&](const Family& family) { return family.members.contains(process); });
  return found == families_.end() ? nullptr : &*found;
}

TaskEvents::Family* TaskEvents::FamilyInheritedFrom(Pid process) {
  constexpr int kMaxDepth = 64;  // parents are read one by one while processes come and go
  std::optional<ProcessOrigin> origin = api_->Origin(process);
  for (int depth = 0; origin && depth < kMaxDepth; ++depth) {
    if (Family* family = FamilyOf(origin->parent)) {
      // A fork within the tick of the attachment was recorded.
      const bool inherited = family->complete && origin->start_time_ticks > family->attached_ticks;
      return inherited ? family : nullptr;
    }
    origin = api_->Origin(origin->parent);
  }
  return nullptr;
}

void TaskEvents::Note(const PerfFork& fork) {
  Family* family = FamilyOf(fork.parent);
  if (family == nullptr) return;
  // Whoever wrote the record had our event, so the new task has inherited it.
  if (family->uncovered.contains(fork.parent_thread)) {
    family->uncovered.insert(fork.thread);
  } else {
    family->members.insert(fork.process);
    family->threads.insert(fork.thread);
    family->uncovered.erase(fork.thread);
  }
}

void TaskEvents::Drain(const Visit& visit) {
  const std::uint64_t sample_type = events_.front().event.attr.sample_type;
  for (const PerfRing& ring : rings_) {
    corrupt_bytes_ += DrainRing(ring.memory(), scratch_, [&](std::span<const std::byte> bytes) {
      const std::optional<PerfRecord> record = ParsePerfRecord(bytes, sample_type);
      if (!record) {
        corrupt_bytes_ += bytes.size();
        return;
      }
      if (const auto* fork = std::get_if<PerfFork>(&*record)) Note(*fork);
      visit(*record);
    });
  }
}

Status TaskEvents::AttachThread(Tid thread, Family& family) {
  std::vector<UniqueFd> fds;
  family.uncovered.insert(thread);  // unless all goes well
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    for (const Event& event : events_) {
      auto fd = OpenEvent(*api_, event.event, thread, cpus_[i]);
      if (!fd && fd.error().system_error == ESRCH) return {};
      if (!fd) return std::unexpected(fd.error());
      const auto redirected = api_->RedirectOutput(fd->get(), rings_[i].fd());
      if (!redirected) {
        return Fail(Refused("redirect perf event", event.event.name, redirected.error()));
      }
      fds.push_back(std::move(*fd));
    }
  }
  std::ranges::move(fds, std::back_inserter(family.fds));
  // Samples are worth taking without a count.
  if (counted_) {
    if (auto fd = OpenEvent(*api_, *counted_, thread, std::nullopt)) {
      family.counters.push_back({.fd = std::move(*fd), .last = {}});
    } else if (fd.error().system_error != ESRCH) {
      family.is_counted = false;
    }
  }
  family.threads.insert(thread);
  family.uncovered.erase(thread);
  return {};
}

// Events are opened running, even while disabled on the whole: only then do FORK records show which
// of the threads that appear meanwhile have inherited them and must not be attached twice.
Status TaskEvents::Attach(Pid process, Family& family, const Visit& visit) {
  std::set<Tid> attempted;
  for (bool found_new = true; found_new;) {
    found_new = false;
    const std::vector<Tid> threads = api_->Threads(process);
    Drain(visit);
    for (const Tid thread : threads) {
      if (!attempted.insert(thread).second || family.threads.contains(thread)) continue;
      found_new = true;
      if (Status attached = AttachThread(thread, family); !attached) return attached;
    }
  }
  return {};
}

// A member that has exited gives its number back to the system.
void TaskEvents::ForgetGoneMembers(const std::vector<Pid>& wanted) {
  for (Family& family : families_) {
    std::erase_if(family.members, [&](Pid process) {
      return std::ranges::find(wanted, process) == wanted.end() && api_->Threads(process).empty();
    });
  }
}

Status TaskEvents::Follow(const std::vector<Pid>& wanted, const Visit& visit) {
  Drain(visit);
  ForgetGoneMembers(wanted);
  Status status;
  for (const Pid process : wanted) {
    Family* family = FamilyOf(process);
    if (family == nullptr) {
      if (Family* ancestors = FamilyInheritedFrom(process)) {
        ancestors->members.insert(process);
        continue;
      }
      // Registered first, so that forks during the attachment find their family.
      family = &families_.emplace_back(Family{.founder = process, .members = {process}});
    } else if (family->complete || family->founder != process) {
      continue;
    }
    const Status attached = Attach(process, *family, visit);
    if (!attached && status) status = attached;
    family->complete = attached.has_value();
    family->attached_ticks = api_->NowTicks();
    if (!enabled_) {
      for (const UniqueFd& fd : family->fds) (void)api_->Disable(fd.get());
      for (const Counter& counter : family->counters) (void)api_->Disable(counter.fd.get());
    }
  }
  // A family without open events is attached anew if it is still wanted at the next call.
  std::erase_if(families_, [&](Family& family) {
    const bool is_wanted =
        std::ranges::any_of(wanted, [&](Pid process) { return family.members.contains(process); });
    if (is_wanted && !family.fds.empty()) return false;
    lost_by_closed_ += LostBy(family);
    CountOf(family);
    return true;
  });
  return status;
}

void TaskEvents::SetEnabled(bool enabled) {
  if (enabled == enabled_) return;
  enabled_ = enabled;
  for (const Family& family : families_) {
    for (const UniqueFd& fd : family.fds) {
      // Fails only for a task that is gone.
      (void)(enabled ? api_->Enable(fd.get()) : api_->Disable(fd.get()));
    }
    for (const Counter& counter : family.counters)
      (void)(enabled ? api_->Enable(counter.fd.get()) : api_->Disable(counter.fd.get()));
  }
}

std::uint64_t TaskEvents::LostBy(const Family& family) const {
  if (events_.front().event.attr.read_format != PERF_FORMAT_LOST) return 0;
  std::uint64_t lost = 0;
  for (const UniqueFd& fd : family.fds) lost += api_->ReadLost(fd.get()).value_or(0);
  return lost;
}

std::optional<std::uint64_t> TaskEvents::LostSamples() const {
  if (events_.front().event.attr.read_format != PERF_FORMAT_LOST) return std::nullopt;
  std::uint64_t lost = lost_by_closed_;
  for (const Family& family : families_) lost += LostBy(family);
  return lost;
}

void TaskEvents::CountOf(Family& family) {
  count_is_known_ = count_is_known_ && family.is_counted;
  for (Counter& counter : family.counters) {
    const auto now = api_->Read(counter.fd.get());
    if (!now) {
      count_is_known_ = false;
      continue;
    }
    const CounterReading last = std::exchange(counter.last, *now);
    const auto counted = static_cast<double>(now->count - last.count);
    const auto enabled = static_cast<double>(now->enabled_ns - last.enabled_ns);
    const auto running = static_cast<double>(now->running_ns - last.running_ns);
    if (running > 0) {
      count_ += counted * std::max(enabled / running, 1.0);
    } else if (enabled > 0) {
      count_is_known_ = false;  // others had the counters all the time
    }
  }
}

std::optional<std::uint64_t> TaskEvents::TakeCount() {
  if (!counted_) return std::nullopt;
  for (Family& family : families_) CountOf(family);
  const double count = std::exchange(count_, 0);
  if (!std::exchange(count_is_known_, true)) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(count));
}

std::vector<int> TaskEvents::RingFds() const {
  std::vector<int> fds;
  for (const PerfRing& ring : rings_) fds.push_back(ring.fd());
  return fds;
}

bool TaskEvents::HasEvents() const { return !families_.empty(); }

}  // namespace tmprof
