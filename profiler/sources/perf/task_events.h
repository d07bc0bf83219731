// SPDX-License-Identifier: Apache-2.0
// Sampling events on every thread of the followed processes and on all that they create.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/perf_record.h"
#include "profiler/sources/perf/perf_ring.h"

namespace tmprof {

// One descriptor per event, existing thread and CPU, inherited by what the thread creates: the
// kernel maps an inherited event only if it is bound to a CPU (kernel/events/core.c, perf_mmap()).
// One ring per CPU takes the records of all.
//
// Inheritance defines a family: an explicitly attached process and everything it has forked since.
// Closing a descriptor also ends it for every heir, so a family's descriptors stay open while any
// member is wanted, even after the process they were opened on has exited.
class TaskEvents {
 public:
  struct Event {
    NamedEvent event;  // inherit, clockid, sample_id_all and the like are filled in
  };
  using Visit = std::function<void(const PerfRecord&)>;

  // The first event reports forks and changes of code, too; all have the same sample_type and
  // read_format. `counted` is counted beside them, in no ring; its read_format is filled in.
  static Result<TaskEvents> Create(PerfApi& api, std::vector<Event> events, std::size_t ring_bytes,
                                   std::optional<NamedEvent> counted = std::nullopt);

  // The whole set of wanted processes. Opens events on those that no family covers yet; records
  // found on the way go to `visit`. An error means that some thread could not be followed; whatever
  // was opened before it stays in use, and the rest is tried again by the next call. Vanished
  // threads are no error.
  Status Follow(const std::vector<Pid>& wanted, const Visit& visit);
  // Disabled events cost the targets nothing; forks are inherited all the same.
  void SetEnabled(bool enabled);
  void Drain(const Visit& visit);

  std::vector<int> RingFds() const;
  bool HasEvents() const;
  // Samples that the kernel counts as lost, so far: those that found a ring full and those that the
  // PMU reported. Unset unless the events' read_format is PERF_FORMAT_LOST: then records in the
  // ring count only the former.
  std::optional<std::uint64_t> LostSamples() const;
  // Returns how often the counted event has happened since the last call, in all that is followed,
  // while enabled. Where the kernel had counters take turns, the count is scaled up to all the
  // time. nullopt: nothing is counted, or some thread's count is unknown.
  std::optional<std::uint64_t> TakeCount();
  // Bytes of records that made no sense, so far.
  std::uint64_t corrupt_bytes() const { return corrupt_bytes_; }

 private:
  struct Counter {
    UniqueFd fd;
    CounterReading last;
  };
  struct Family {
    Pid founder;  // the process that was attached
    std::set<Pid> members;
    std::set<Tid> threads;  // attached or known to have inherited
    // They had some of the events, which were closed again: refused, or gone before they had all;
    // and those that they have created meanwhile.
    std::set<Tid> uncovered;
    bool complete = false;             // all threads of the founder are attached
    std::uint64_t attached_ticks = 0;  // PerfApi::NowTicks()
    std::vector<UniqueFd> fds;
    std::vector<Counter> counters;
    bool is_counted = true;  // false: a thread has no counter
  };

  TaskEvents(PerfApi& api, std::vector<Event> events, std::vector<CpuId> cpus,
             std::vector<PerfRing> rings, std::optional<NamedEvent> counted)
      : api_(&api),
        events_(std::move(events)),
        cpus_(std::move(cpus)),
        rings_(std::move(rings)),
        counted_(std::move(counted)) {}

  Family* FamilyOf(Pid process);
  std::uint64_t LostBy(const Family& family) const;
  void CountOf(Family& family);
  // The family of the nearest covered ancestor, if the line of descent left it after it was
  // attached: for forks that happened while nothing was recorded.
  Family* FamilyInheritedFrom(Pid process);
  Status Attach(Pid process, Family& family, const Visit& visit);
  // All events, or none. A thread that is gone is no error.
  Status AttachThread(Tid thread, Family& family);
  void Note(const PerfFork& fork);
  void ForgetGoneMembers(const std::vector<Pid>& wanted);

  PerfApi* api_;
  std::vector<Event> events_;
  std::vector<CpuId> cpus_;
  std::vector<PerfRing> rings_;  // one for each of cpus_
  std::vector<Family> families_;
  std::vector<std::byte> scratch_;
  std::uint64_t corrupt_bytes_ = 0;
  std::uint64_t lost_by_closed_ = 0;  // families
  std::optional<NamedEvent> counted_;
  double count_ = 0;            // since the last TakeCount()
  bool count_is_known_ = true;  // for all threads, since the last TakeCount()
  bool enabled_ = true;
};

}  // namespace tmprof
