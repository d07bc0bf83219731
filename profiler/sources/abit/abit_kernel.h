// SPDX-License-Identifier: Apache-2.0
// The scanner's interface to the kernel. Tests put a simulated process behind it.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "profiler/sources/abit/page_table_reader.h"
#include "profiler/sources/abit/switch_clock.h"

namespace tmprof::abit {

enum class ClearOutcome : std::uint8_t {
  kDone,
  // The kernel refuses it: hugetlb, mlocked or device memory, or a process whose main thread has
  // exited before the others. Mappings before the refused one may have been cleared.
  kUnclearable,
  kUnmapped,  // no page is mapped in the range, if the kernel reports that
  kProcessGone,
  kRefused,  // see refusal()
};

// Why a bit may be set although the range was just cleared.
enum class PageStanding : std::uint8_t {
  kClearable,  // it was cleared: the program has accessed the page since
  kShared,     // also mapped elsewhere, so the clear skipped it
  kUnsettled,  // not yet on the kernel's page lists, so the clear skipped it
};

// One live process. A process that vanishes turns into outcomes, never into errors.
class AbitProcess {
 public:
  virtual ~AbitProcess() = default;

  // Like PageTableReader::Read, but the parts are valid until the next Read of any process.
  virtual ReadResult Read(VpnRange range, PageTableReader::Depth depth,
                          std::vector<TablePart>& parts) = 0;

  // Clears the accessed bits of all mappings in the range and flushes them. Holes are skipped.
  // Precondition: `range` holds whole huge pages only, as part of one would be split off.
  virtual ClearOutcome Clear(VpnRange range) = 0;

  // The first is true where there is a ClearWhole(). The second says how it would end now, and
  // clears nothing.
  virtual bool ClearsWhole() const { return false; }
  virtual ClearOutcome TryWhole() { return ClearOutcome::kUnclearable; }

  // Clears the accessed bits of all base and huge pages of the process, also of those that Clear()
  // skips or is refused: mapped elsewhere too, or locked. Not those of hugetlb. It flushes nothing,
  // so that for a while translations that CPUs hold hide accesses, and holds the process's
  // mmap_lock for writing throughout: some 0.1 us an entry.
  virtual ClearOutcome ClearWhole() { return ClearOutcome::kUnclearable; }

  // Makes every CPU forget the translations of the process. False: some CPU may still hold one.
  virtual bool Flush() { return false; }

  // The entries of single pages, ascending, into `entries`, as many. The outcome is of all of them;
  // what was busy or torn is left unread.
  virtual ReadResult ReadPoints(std::span<const Vpn> pages, std::vector<PointEntry>& entries);

  // Calls Clear() for each of many ranges. The outcomes are in the order of the ranges.
  virtual std::vector<ClearOutcome> ClearEach(std::span<const VpnRange> ranges);

  // errno of the latest kRefused, where the kernel gave one.
  virtual std::optional<int> refusal() const { return std::nullopt; }

  // A Clear() passes by pages that are not yet on the kernel's page lists, and Inspect() may come
  // when they are.
  virtual bool PassesByNewPages() const { return true; }

  // Returns for each page if the last Clear() reached it, or why not. `settled[i]`: page i is known
  // not to be kUnsettled, so that this need not be asked again.
  virtual std::vector<PageStanding> Inspect(std::span<const Vpn> pages,
                                            const std::vector<bool>& settled) = 0;

  // Tells of each page if a Clear() of it alone would reach it and nothing else. The kernel would
  // split a folio that a page is part of.
  virtual std::vector<bool> ClearableAlone(std::span<const Vpn> pages);

  // CPU time of all threads so far; lags by up to a timer tick per running thread.
  virtual std::chrono::nanoseconds CpuTime() = 0;

  // CPU time and running threads at a moment, which is now or some microseconds ago; nullopt: the
  // kernel does not report them, or not yet.
  virtual std::optional<RunningTime> Running(MonotonicTime time) {
    (void)time;
    return std::nullopt;
  }
  // Has the kernel's wake_fd() become readable once a thread of it gets a CPU with so much CPU time
  // used, as Running() gives it. Replaces the wish before.
  virtual void WakeAt(std::chrono::nanoseconds cpu) { (void)cpu; }
  virtual void DoNotWake() {}
  virtual bool WillWake() const { return false; }  // it was asked to, and has not yet
  // False: Running() is nullopt for ever.
  virtual bool HasClock() const { return false; }
  // Returns what the target's threads have paid for Running() since the last time.
  virtual std::chrono::nanoseconds TakeClockCost() { return std::chrono::nanoseconds(0); }
  // Ends the clock: HasClock() is false from now on.
  virtual void DropClock() {}

  // False once the process has exited, also when its number is in use again.
  virtual bool Alive() = 0;
};

// Returns the message for a refusal. It names the attempt (what was to be read or cleared), the
// process, and a remedy.
std::string ProcessRefusal(std::string attempt, Pid pid, std::optional<int> system_error);

// ProcessRefusal() of ClearWhole(), which takes a capability of its own.
std::string WholeClearRefusal(Pid pid, std::optional<int> system_error);

// `refusals`: of the targets that could not be opened; at least one.
std::string UnopenedTargets(const std::vector<Error>& refusals);

class AbitKernel {
 public:
  virtual ~AbitKernel() = default;

  // Fails with ESRCH if that process is gone; with anything else it may succeed later.
  virtual Result<std::unique_ptr<AbitProcess>> Open(Pid pid, std::uint64_t start_time_ticks) = 0;

  virtual MonotonicTime Now() = 0;
  // Waits without leaving the CPU, because to wake up takes longer than such waits are.
  virtual void SpinUntil(MonotonicTime time) {
    while (Now() < time) __builtin_ia32_pause();  // a target may run on the same core
  }
  // True if its processes will report Running(), perhaps not at once.
  virtual bool tells_running_time() const { return false; }
  virtual std::chrono::nanoseconds OwnCpuTime() = 0;  // the calling thread's
  virtual std::chrono::nanoseconds Tick() const = 0;  // CpuTime() may lag by so much
  virtual std::uint64_t frame_mask() const = 0;

  // Set: memory is short, and clearing, which moves pages to the inactive list, would feed reclaim.
  virtual std::optional<std::string> MemoryPressure() = 0;

  // -1 wakes nobody. TakeWakes() makes it unreadable again.
  virtual int wake_fd() const { return -1; }
  virtual void TakeWakes() {}

  // Set: no process can be read or cleared any more, whatever is tried.
  virtual std::optional<Error> Failure() { return std::nullopt; }
};

}  // namespace tmprof::abit
