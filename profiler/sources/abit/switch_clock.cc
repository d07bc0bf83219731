// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/switch_clock.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <string>

#include "base/host/capabilities.h"
#include "profiler/sources/abit/libbpf_log.h"
#include "profiler/sources/abit/map_view.h"
#include "profiler/sources/abit/switch_clock_map.h"

// Generated; it wants the structures above.
#include "switch_clock.skel.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

class BpfSwitchClock final : public SwitchClock {
 public:
  explicit BpfSwitchClock(switch_clock* skeleton) : skeleton_(skeleton) {}
  BpfSwitchClock(const BpfSwitchClock&) = delete;
  BpfSwitchClock& operator=(const BpfSwitchClock&) = delete;
  ~BpfSwitchClock() override {
    ring_buffer__free(wakes_);
    switch_clock__destroy(skeleton_);
  }

  // 0 or an errno.
  int Prepare() {
    if (!view_.Map(bpf_map__fd(skeleton_->maps.slots),
                   sizeof(tmprof_clock_slot) * TMPROF_CLOCK_SLOTS, PROT_READ | PROT_WRITE))
      return errno;
    const auto ignore = [](void*, void*, std::size_t) { return 0; };
    wakes_ = ring_buffer__new(bpf_map__fd(skeleton_->maps.wakes), ignore, nullptr, nullptr);
    if (wakes_ == nullptr) return errno;
    return -switch_clock__attach(skeleton_);
  }

  // A place whose last process still has a thread on a CPU is not free yet: that thread's switch is
  // to come.
  std::optional<Slot> Watch(Pid pid) override {
    if (const auto known = slots_.find(pid); known != slots_.end()) {
      ++users_[known->second];
      return known->second;
    }
    for (Slot slot = 0; slot < TMPROF_CLOCK_SLOTS; ++slot) {
      if (users_[slot] > 0 || ThreadsOf(Word(slot)) != 0) continue;
      At(slot).longest_ns = 0;
      DoNotWake(slot);
      const std::int32_t key = pid.value();
      if (bpf_map__update_elem(skeleton_->maps.watched, &key, sizeof key, &slot, sizeof slot,
                               BPF_ANY) != 0)
        return std::nullopt;
      users_[slot] = 1;
      slots_[pid] = slot;
      // The place has counted the CPU time of processes before.
      starts_[slot] = tmprof_clock_cpu_time(Word(slot), 0);
      return slot;
    }
    return std::nullopt;
  }

  void Unwatch(Pid pid, Slot slot) override {
    if (--users_[slot] > 0) return;
    slots_.erase(pid);
    const std::int32_t key = pid.value();
    bpf_map__delete_elem(skeleton_->maps.watched, &key, sizeof key, 0);
    DoNotWake(slot);
  }

  std::uint64_t Switches(Slot slot) const override { return Word(slot); }

  RunningTime At(Slot slot, MonotonicTime time, nanoseconds last) const override {
    const std::uint64_t word = Word(slot);
    const auto now = static_cast<std::uint64_t>(time.time_since_epoch().count());
    const std::uint64_t cpu = tmprof_clock_cpu_time(word, now);
    const auto before = starts_[slot] + static_cast<std::uint64_t>(last.count());
    return {.cpu = last + nanoseconds(tmprof_clock_difference(cpu, before)),
            .threads = ThreadsOf(word),
            .longest_stay = nanoseconds(std::atomic_ref(At(slot).longest_ns).load())};
  }

  void WakeAt(Slot slot, nanoseconds cpu) override {
    DoNotWake(slot);
    std::atomic_ref(At(slot).wake_at)
        .store(starts_[slot] + static_cast<std::uint64_t>(cpu.count()));
    std::atomic_ref(At(slot).armed).store(1);
  }
  void DoNotWake(Slot slot) override { std::atomic_ref(At(slot).armed).store(0); }
  bool WillWake(Slot slot) const override { return std::atomic_ref(At(slot).armed).load() != 0; }

  nanoseconds Cost(Slot slot) const override {
    return nanoseconds(static_cast<std::int64_t>(std::atomic_ref(At(slot).cost_ns).load()));
  }

  int wake_fd() const override { return bpf_map__fd(skeleton_->maps.wakes); }
  void TakeWakes() override { ring_buffer__consume(wakes_); }

 private:
  static std::uint32_t ThreadsOf(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & ((1U << TMPROF_CLOCK_THREAD_BITS) - 1));
  }
  tmprof_clock_slot& At(Slot slot) const { return view_.as<tmprof_clock_slot>()[slot]; }
  std::uint64_t Word(Slot slot) const { return std::atomic_ref(At(slot).word).load(); }

  switch_clock* skeleton_;
  ring_buffer* wakes_ = nullptr;
  MapView view_;
  std::map<Pid, Slot> slots_;  // that are in use
  std::array<std::uint32_t, TMPROF_CLOCK_SLOTS> users_{};
  std::array<std::uint64_t, TMPROF_CLOCK_SLOTS> starts_{};
};

}  // namespace

Result<std::unique_ptr<SwitchClock>> SwitchClock::Open() {
  const auto refused = [](int system_error, const LibbpfLog& log) {
    Error error = Refused("load", "the BPF program on context switches", system_error,
                          CapabilityAdvice(kAccessedBitCapabilities) + ", on a kernel with BTF");
    // libbpf complains of a memory limit if the capabilities are missing; the limit is not what is
    // wrong.
    if (system_error != EPERM) error.reason = log.first();
    return Fail(std::move(error));
  };
  const LibbpfLog log;
  switch_clock* skeleton = switch_clock__open_and_load();
  if (skeleton == nullptr) return refused(errno, log);
  auto clock = std::make_unique<BpfSwitchClock>(skeleton);
  if (const int error = clock->Prepare(); error != 0) return refused(error, log);
  return std::unique_ptr<SwitchClock>(std::move(clock));
}

}  // namespace tmprof::abit
