// SPDX-License-Identifier: Apache-2.0
// A process whose pages are accessed at given rates, in virtual time.

#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/memcg_ageing.h"

namespace tmprof::abit {

// A run of pages, all base or all huge or all giant: one mapping unless parted by Map(). Of base
// pages, whole tables may be huge pages all the same. Accesses are Poisson, per second of CPU time.
class SimulatedProcess {
 public:
  using Seconds = double;

  struct Page {
    double rate = 0;
    bool present = true;
    bool mapped = true;           // accessibly
    bool shared = false;          // the clear passes it by
    bool stuck = false;           // the clear skips it, and the kernel does not report it
    bool unsettled = false;       // the clear skips it, and the kernel says why
    std::uint32_t passed_by = 0;  // later clears that skip it, unreported by the kernel
    // ClearableAlone() calls the page clearable so often, and then reports that it is not.
    std::uint32_t stuck_until_asked = ~0u;
    std::uint32_t asked_alone = 0;
    bool mlocked = false;  // a clear of it is refused
    std::uint64_t frame = 0;
    bool charged_elsewhere = false;  // ageing skips it
    bool table_in_use = false;       // the same, and the kernel does not report it
    bool accessed = true;            // the state after its first touch
    Seconds next_access = 0;         // in CPU time, while not accessed
    // A CPU keeps its translation, so that a clear without a flush hides all accesses.
    bool translation_stays = false;
    bool hidden = false;
  };

  SimulatedProcess(TrackedProcess identity, Vpn start, PageCount unit, std::vector<double> rates)
      : identity_(std::move(identity)), start_(start), unit_(unit) {
    for (const double rate : rates) pages.push_back({.rate = rate});
    identity_.mappings = {{.range = range(), .kind = MappingKind::kAnonymous, .path = ""}};
  }

  void Grow(std::size_t more, double rate) {
    for (std::size_t i = 0; i < more; ++i) pages.push_back({.rate = rate});
    identity_.mappings.front().range = range();
  }

  // These mappings hold pages from now on, and the others none. Of whole units, ascending, in
  // range().
  void Map(std::vector<Mapping> mappings) {
    for (Page& page : pages) page.mapped = false;
    for (const Mapping& mapping : mappings) {
      for (Vpn vpn = mapping.range.start; vpn < mapping.range.end; vpn = vpn + unit_)
        pages[IndexOf(vpn)].mapped = mapping.accessible;
    }
    identity_.mappings = std::move(mappings);
  }
  const Mapping* MappingOf(Vpn vpn) const {
    for (const Mapping& mapping : identity_.mappings)
      if (mapping.range.Contains(vpn)) return &mapping;
    return nullptr;
  }

  // The pages of this table are one huge page, which has the state of the first of them.
  void MakeHuge(Vpn table) { huge_.insert(table); }
  bool IsHugeAt(Vpn vpn) const { return huge_.contains(TableOf(vpn)); }
  // An entry of its own: a base page, or the first page of a huge one.
  bool HasEntry(Vpn vpn) const { return !IsHugeAt(vpn) || vpn == TableOf(vpn); }
  static Vpn TableOf(Vpn vpn) {
    return Vpn(vpn.value() / kTablePages.value() * kTablePages.value());
  }

  VpnRange range() const { return {start_, start_ + PageCount(pages.size() * unit_.value())}; }
  const TrackedProcess& identity() const { return identity_; }
  PageCount unit() const { return unit_; }
  std::size_t IndexOf(Vpn vpn) const { return (vpn - start_).value() / unit_.value(); }

  std::vector<Page> pages;
  std::uint64_t address_space = 0x1000;
  bool alive = true;
  bool is_another = false;  // the one that was opened has exited, and this has its number
  bool unmapped = false;
  bool mlocked = false;              // all of it
  std::optional<int> refuses;        // errno of a clear
  std::optional<int> refuses_read;   // errno
  bool clears_whole = false;         // the kernel offers it
  std::optional<int> refuses_whole;  // errno
  std::uint64_t whole_clears = 0;
  bool flushes = false;            // on demand, of the whole process
  std::uint64_t one_flush_in = 1;  // ... works
  std::uint64_t flushes_asked = 0;
  std::uint64_t flushes_made = 0;
  bool dies_at_whole = false;             // right before such a clear
  std::chrono::nanoseconds lock_wait{0};  // before each of them
  int busy_reads = 0;                     // to come
  std::uint64_t busy_points = 0;          // one in so many reads of points finds all busy; 0: none
  std::uint64_t point_reads = 0;
  std::uint64_t shape_reads = 0;
  std::optional<std::uint64_t> collapses_after;  // reads of points, which find huge pages from then
  std::uint64_t splits = 0;                      // clears of part of such a page
  bool collapsed() const { return collapses_after && point_reads > *collapses_after; }
  double cpus = 1;                          // that it uses
  std::chrono::nanoseconds used_before{0};  // before it was opened
  // If this is set, it uses one CPU by turns, from time 0 of the clock on.
  struct Duty {
    std::chrono::nanoseconds run;
    std::chrono::nanoseconds rest;

    bool RunsAt(MonotonicTime time) const { return PhaseAt(time) < run; }
    std::chrono::nanoseconds CpuAt(MonotonicTime time) const {
      return time.time_since_epoch() / (run + rest) * run + std::min(PhaseAt(time), run);
    }
    MonotonicTime NextStart(MonotonicTime time) const {
      return time + (run + rest - PhaseAt(time));
    }

   private:
    std::chrono::nanoseconds PhaseAt(MonotonicTime time) const {
      return time.time_since_epoch() % (run + rest);
    }
  };
  std::optional<Duty> duty;
  double clock_costs = 0;  // share of the CPU time that it uses
  bool clock_dropped = false;
  // A process with a duty wakes the scanner when it gets the CPU with so much CPU time used.
  std::optional<std::chrono::nanoseconds> wakes_at_cpu;
  std::uint64_t sets = 0;      // cleared bits that were set again
  std::uint64_t regained = 0;  // cache lines of entries, got back from a reader to set bits in
  std::uint64_t clears = 0;    // clears of a block or a page
  std::uint64_t page_clears = 0;
  std::uint64_t refusals = 0;   // refused clears
  std::uint64_t inspected = 0;  // pages

 private:
  TrackedProcess identity_;
  Vpn start_;
  PageCount unit_;
  std::set<Vpn> huge_;
};

class SimulatedKernel final : public AbitKernel {
 public:
  static constexpr std::chrono::nanoseconds kWholeClearTakes{70};  // a page
  static constexpr std::chrono::nanoseconds kAgeingTakes{50};      // a page

  MonotonicTime now{std::chrono::seconds(1000)};
  std::map<Pid, SimulatedProcess*> processes;
  std::optional<std::string> pressure;
  std::vector<MonotonicTime> clears_at;
  std::vector<Vpn> cleared;  // start of each clear
  // Clears of more than a page, and reads of entries, in order.
  struct Event {
    bool is_clear = false;
    MonotonicTime time;  // of a clear: the end of its flush
    Vpn start;
    std::vector<bool> accessed;  // by the pages of the process; empty for a clear
  };
  std::vector<Event> events;
  bool keeps_events = false;
  // Counts reads of a range right after its clear, or after other such reads.
  std::uint64_t reads_after_clear = 0;
  std::optional<int> open_error;  // errno: no process can be opened

  bool tells_when_processes_run = false;
  double page_clear_moment = 0.5;
  std::chrono::nanoseconds page_clear_takes{std::chrono::microseconds(6)};
  std::chrono::nanoseconds clear_takes{
      std::chrono::microseconds(30)};           // for a clear of more than a page
  std::chrono::nanoseconds interrupt_takes{0};  // for a clear of one page

  // Returns the time at which it wakes the scanner if nothing else happens.
  MonotonicTime NextWake() const {
    MonotonicTime next = MonotonicTime::max();
    for (const auto& [pid, process] : processes) {
      if (!process->wakes_at_cpu) continue;
      MonotonicTime at = process->duty->NextStart(now);
      while (process->duty->CpuAt(at) < *process->wakes_at_cpu) at = process->duty->NextStart(at);
      next = std::min(next, at);
    }
    return next;
  }
  // The clock goes on until then, or until it wakes the scanner.
  void WaitUntil(MonotonicTime time) {
    const MonotonicTime wake = NextWake();
    now = std::max(now, std::min(time, wake));
    for (const auto& [pid, process] : processes) {
      if (now == wake && process->wakes_at_cpu &&
          process->duty->CpuAt(now) >= *process->wakes_at_cpu)
        process->wakes_at_cpu.reset();
    }
  }

  Result<std::unique_ptr<AbitProcess>> Open(Pid pid, std::uint64_t start_time_ticks) override {
    if (open_error) return Fail(Refused("watch", "a simulated process", *open_error));
    const auto found = processes.find(pid);
    if (found == processes.end() || !found->second->alive ||
        found->second->identity().start_time_ticks != start_time_ticks)
      return Fail(Refused("watch", "a simulated process", ESRCH));
    return std::make_unique<Handle>(*this, *found->second);
  }
  MonotonicTime Now() override { return now; }
  void SpinUntil(MonotonicTime time) override {
    if (reads_cost_cpu) own_cpu += std::max(time - now, std::chrono::nanoseconds(0));
    now = std::max(now, time);
  }
  std::chrono::nanoseconds OwnCpuTime() override { return own_cpu; }
  std::chrono::nanoseconds Tick() const override { return std::chrono::milliseconds(4); }
  std::uint64_t frame_mask() const override { return 0x000ffffffffff000; }
  std::optional<std::string> MemoryPressure() override { return pressure; }

  std::chrono::nanoseconds own_cpu{0};
  std::chrono::nanoseconds read_takes{std::chrono::microseconds(2)};
  bool reads_cost_cpu = false;  // the scanner's own CPU time
  std::chrono::nanoseconds flush_takes{
      0};  // own CPU time, for each mapping in which a bit is cleared
  std::uint64_t most_parts_per_read = 512;
  std::mt19937_64 random{42};

  // Clears the bits of a process that was opened, and flushes nothing.
  void Age(const SimulatedProcess& process) {
    const auto found = handles_.find(&process);
    if (found == handles_.end()) return;
    found->second->ClearAll(kAgeingTakes, [](const SimulatedProcess::Page& page) {
      return !page.mlocked && !page.charged_elsewhere && !page.table_in_use;
    });
  }

 private:
  class Handle final : public AbitProcess {
   public:
    Handle(SimulatedKernel& kernel, SimulatedProcess& process)
        : kernel_(kernel), process_(process), opened_(kernel.now), counted_to_(kernel.now) {
      kernel_.handles_[&process_] = this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() override { kernel_.handles_.erase(&process_); }

    ReadResult Read(VpnRange range, PageTableReader::Depth depth,
                    std::vector<TablePart>& parts) override {
      const bool is_at_once = kernel_.now == cleared_at_ && cleared_.Contains(range.start);
      kernel_.now += kernel_.read_takes;
      if (is_at_once) cleared_at_ = kernel_.now;  // those that follow are, too
      kernel_.reads_after_clear += is_at_once;
      if (kernel_.reads_cost_cpu) kernel_.own_cpu += kernel_.read_takes;
      parts.clear();
      ReadResult result;
      process_.shape_reads += depth == PageTableReader::Depth::kShape;
      if (!process_.alive) return Failed(ReadOutcome::kProcessGone);
      if (process_.refuses_read) {
        result.outcome = ReadOutcome::kRefused;
        result.system_error = process_.refuses_read;
        return result;
      }
      if (process_.busy_reads > 0) {
        --process_.busy_reads;
        return Failed(ReadOutcome::kBusy);
      }
      const Mapping* mapping = process_.MappingOf(range.start);
      if (process_.unmapped || mapping == nullptr) return Failed(ReadOutcome::kUnmapped);
      result = Mapped();
      const std::uint64_t table = std::max(process_.unit(), kTablePages).value();
      const Vpn full((range.start.value() / table + kernel_.most_parts_per_read) * table);
      const Vpn last(CeilDivide(mapping->range.end.value(), table) * table);
      result.next = std::min({range.end, last, full});
      tables_.clear();
      if (depth == PageTableReader::Depth::kShape && process_.unit() == PageCount(1)) {
        for (std::uint64_t at = range.start.value() / table * table; at < result.next.value();
             at += table) {
          if (process_.IsHugeAt(Vpn(at)))
            parts.push_back(Part(Vpn(at)));
          else
            parts.push_back({.start = Vpn(at), .leaf = {}, .entries = {}});
        }
        return result;
      }
      for (std::uint64_t at = range.start.value() / table * table; at < result.next.value();
           at += table)
        parts.push_back(Part(Vpn(at)));
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (!parts[i].huge) parts[i].entries = tables_[i];
      if (kernel_.keeps_events && depth == PageTableReader::Depth::kEntries) {
        kernel_.events.push_back({.time = kernel_.now, .start = range.start});
        for (const SimulatedProcess::Page& page : process_.pages)
          kernel_.events.back().accessed.push_back(page.accessed);
      }
      return result;
    }

    ReadResult ReadPoints(std::span<const Vpn> pages, std::vector<PointEntry>& entries) override {
      entries.assign(pages.size(), PointEntry{});
      std::vector<TablePart> parts;
      ReadResult result = Read(process_.range(), PageTableReader::Depth::kShape, parts);
      if (result.outcome == ReadOutcome::kUnmapped) result = Mapped();
      ++process_.point_reads;
      if (process_.busy_points > 0 && process_.point_reads % process_.busy_points == 0)
        return result;
      for (std::size_t i = 0; i < pages.size(); ++i) {
        entries[i].read = true;
        if (process_.unmapped || process_.MappingOf(pages[i]) == nullptr) continue;
        const bool is_huge = process_.IsHugeAt(pages[i]);
        const Vpn entry = is_huge ? SimulatedProcess::TableOf(pages[i]) : pages[i];
        auto& page = process_.pages[process_.IndexOf(entry)];
        process_.regained += Touch(page);
        entries[i].entry = TableEntry(Entry(page));
        entries[i].unit = process_.collapsed() || is_huge ? kTablePages : process_.unit();
      }
      return result;
    }

    // The bits of a single page go when `page_clear_moment` of it has passed.
    ClearOutcome Clear(VpnRange range) override {
      const bool is_page = range.size() == PageCount(1);
      const auto first = is_page ? std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       kernel_.page_clear_moment * kernel_.page_clear_takes)
                                 : kernel_.clear_takes;
      kernel_.now += first;
      const ClearOutcome outcome = ClearNow(range);
      if (kernel_.keeps_events && !is_page)
        kernel_.events.push_back({.is_clear = true, .time = kernel_.now, .start = range.start});
      cleared_ = range;
      cleared_at_ = kernel_.now;
      if (!is_page) return outcome;
      kernel_.now += kernel_.page_clear_takes - first;
      if (kernel_.interrupt_takes == std::chrono::nanoseconds(0)) return outcome;
      for (SimulatedProcess::Page& page : process_.pages) {
        if (page.accessed) continue;
        page.next_access += std::chrono::duration<double>(kernel_.interrupt_takes).count();
      }
      return outcome;
    }

    ClearOutcome ClearNow(VpnRange range) {
      if (!process_.alive) return ClearOutcome::kProcessGone;
      if (process_.refuses) {
        ++process_.refusals;
        return ClearOutcome::kRefused;
      }
      if (process_.mlocked || process_.pages[process_.IndexOf(range.start)].mlocked) {
        ++process_.refusals;
        return ClearOutcome::kUnclearable;
      }
      if (process_.unmapped) return ClearOutcome::kUnmapped;
      process_.page_clears += range.size() == PageCount(1);
      ++process_.clears;
      process_.splits += process_.collapsed() && range.size() < kTablePages;
      kernel_.clears_at.push_back(kernel_.now);
      kernel_.cleared.push_back(range.start);
      std::set<const Mapping*> flushed;
      for (Vpn vpn = range.start; vpn < range.end; vpn = vpn + process_.unit()) {
        if (process_.IsHugeAt(vpn) && (SimulatedProcess::TableOf(vpn) < range.start ||
                                       range.end < SimulatedProcess::TableOf(vpn) + kTablePages))
          ++process_.splits;
        if (!process_.HasEntry(vpn)) continue;
        auto& page = process_.pages[process_.IndexOf(vpn)];
        Touch(page);
        if (page.mlocked) {
          ++process_.refusals;
          return ClearOutcome::kUnclearable;
        }
        if (!page.present || !page.mapped || page.shared || page.stuck || page.unsettled ||
            !page.accessed)
          continue;
        if (page.passed_by > 0) {
          --page.passed_by;
          continue;
        }
        Unset(page);
        flushed.insert(process_.MappingOf(vpn));
      }
      kernel_.own_cpu += kernel_.flush_takes * flushed.size();
      return ClearOutcome::kDone;
    }

    bool ClearsWhole() const override { return process_.clears_whole; }

    ClearOutcome TryWhole() override {
      if (!process_.alive) return ClearOutcome::kProcessGone;
      return process_.refuses_whole ? ClearOutcome::kRefused : ClearOutcome::kDone;
    }

    ClearOutcome ClearWhole() override {
      if (process_.dies_at_whole) process_.alive = false;
      if (const ClearOutcome tried = TryWhole(); tried != ClearOutcome::kDone) return tried;
      ++process_.whole_clears;
      kernel_.now += process_.lock_wait;
      ClearAll(kWholeClearTakes, [](const SimulatedProcess::Page&) { return true; });
      return ClearOutcome::kDone;
    }

    template <typename Reaches>
    void ClearAll(std::chrono::nanoseconds of_page, Reaches reaches) {
      for (std::size_t i = 0; i < process_.pages.size(); ++i) {
        SimulatedProcess::Page& page = process_.pages[i];
        if (!page.present || !page.mapped) continue;
        if (!process_.HasEntry(process_.range().start + PageCount(i * process_.unit().value())))
          continue;
        kernel_.now += of_page;
        kernel_.own_cpu += of_page;
        if (!reaches(page)) continue;
        Touch(page);
        if (page.accessed) Unset(page);
        page.hidden = page.translation_stays;
      }
    }

    bool Flush() override {
      ++process_.flushes_asked;
      if (!process_.flushes || process_.flushes_asked % process_.one_flush_in != 0) return false;
      ++process_.flushes_made;
      kernel_.now += kernel_.clear_takes;
      for (SimulatedProcess::Page& page : process_.pages)
        if (std::exchange(page.hidden, false)) Unset(page);
      return true;
    }

    std::optional<int> refusal() const override {
      return process_.refuses ? process_.refuses : process_.refuses_whole;
    }

    std::vector<PageStanding> Inspect(std::span<const Vpn> pages,
                                      const std::vector<bool>&) override {
      std::vector<PageStanding> standing;
      for (const Vpn vpn : pages) {
        // The driver keeps an entry by its first page.
        const bool first = (vpn - process_.range().start).value() % process_.unit().value() == 0;
        const SimulatedProcess::Page& page = process_.pages[process_.IndexOf(vpn)];
        standing.push_back(page.shared && first ? PageStanding::kShared
                           : page.unsettled     ? PageStanding::kUnsettled
                                                : PageStanding::kClearable);
      }
      process_.inspected += pages.size();
      return standing;
    }

    std::vector<bool> ClearableAlone(std::span<const Vpn> pages) override {
      std::vector<bool> clearable = AbitProcess::ClearableAlone(pages);
      for (std::size_t i = 0; i < pages.size(); ++i) {
        auto& page = process_.pages[process_.IndexOf(pages[i])];
        if (++page.asked_alone > page.stuck_until_asked) clearable[i] = false;
      }
      return clearable;
    }

    std::chrono::nanoseconds CpuTime() override { return process_.used_before + SinceOpened(); }
    bool Alive() override { return process_.alive && !process_.is_another; }

    std::optional<RunningTime> Running(MonotonicTime time) override {
      if (!HasClock()) return std::nullopt;
      if (!process_.duty) {
        const auto ago = (kernel_.now - time) * Threads();
        return RunningTime{.cpu = SinceOpened() - ago, .threads = Threads(), .longest_stay = {}};
      }
      return RunningTime{.cpu = process_.duty->CpuAt(time) - process_.duty->CpuAt(opened_),
                         .threads = Threads(),
                         .longest_stay = process_.duty->run};
    }
    void WakeAt(std::chrono::nanoseconds cpu) override {
      if (process_.duty) process_.wakes_at_cpu = cpu + process_.duty->CpuAt(opened_);
    }
    void DoNotWake() override { process_.wakes_at_cpu.reset(); }
    bool WillWake() const override { return process_.wakes_at_cpu.has_value(); }
    bool HasClock() const override {
      return kernel_.tells_when_processes_run && !process_.clock_dropped;
    }
    std::chrono::nanoseconds TakeClockCost() override {
      const double used = CpuSeconds() - std::exchange(clock_paid_to_, CpuSeconds());
      return std::chrono::nanoseconds(
          HasClock() ? static_cast<std::int64_t>(used * process_.clock_costs * 1e9) : 0);
    }
    void DropClock() override { process_.clock_dropped = true; }

   private:
    ReadResult Mapped() {
      ReadResult result;
      result.address_space = process_.address_space;
      result.time = kernel_.now;
      result.running_threads = Threads();
      return result;
    }
    static ReadResult Failed(ReadOutcome outcome) {
      ReadResult result;
      result.outcome = outcome;
      return result;
    }
    std::uint32_t Threads() const {
      if (process_.duty) return process_.duty->RunsAt(kernel_.now);
      return static_cast<std::uint32_t>(process_.cpus);
    }
    std::chrono::nanoseconds SinceOpened() {
      return std::chrono::nanoseconds(static_cast<std::int64_t>(CpuSeconds() * 1e9));
    }
    // Since it was opened. What `cpus` has become holds from the last call on.
    double CpuSeconds() {
      if (process_.duty) {
        return std::chrono::duration<double>(process_.duty->CpuAt(kernel_.now) -
                                             process_.duty->CpuAt(opened_))
            .count();
      }
      const MonotonicTime before = std::exchange(counted_to_, kernel_.now);
      cpu_seconds_ += process_.cpus * std::chrono::duration<double>(kernel_.now - before).count();
      return cpu_seconds_;
    }
    bool Touch(SimulatedProcess::Page& page) {
      if (page.accessed || !page.mapped || page.hidden || page.next_access > CpuSeconds())
        return false;
      page.accessed = true;
      ++process_.sets;
      return true;
    }
    void Unset(SimulatedProcess::Page& page) {
      page.accessed = false;
      page.next_access =
          page.rate > 0 ? CpuSeconds() + std::exponential_distribution(page.rate)(kernel_.random)
                        : 1e18;
    }
    static std::uint64_t Entry(const SimulatedProcess::Page& page) {
      return page.present && page.mapped
                 ? 0x1 | (page.accessed ? 0x20 : 0) | page.frame * kBasePageBytes
                 : 0;
    }
    TablePart Part(Vpn start) {
      TablePart part;
      part.start = start;
      part.huge = process_.unit() != PageCount(1) || process_.IsHugeAt(start);
      if (process_.unit() != PageCount(1)) part.span = process_.unit();
      tables_.emplace_back();
      if (part.huge) {
        auto& page = process_.pages[process_.IndexOf(start)];
        Touch(page);
        part.leaf = TableEntry(Entry(page));
        return part;
      }
      tables_.back().resize(kTablePages.value());
      constexpr std::size_t kEntriesPerLine = 8;
      bool line_has_sets = false;
      for (std::size_t i = 0; i < kTablePages.value(); ++i) {
        if (i % kEntriesPerLine == 0) process_.regained += std::exchange(line_has_sets, false);
        const Vpn vpn = start + PageCount(i);
        if (!process_.range().Contains(vpn)) continue;
        auto& page = process_.pages[process_.IndexOf(vpn)];
        line_has_sets |= Touch(page);
        tables_.back()[i] = Entry(page);
      }
      process_.regained += line_has_sets;
      return part;
    }

    SimulatedKernel& kernel_;
    SimulatedProcess& process_;
    VpnRange cleared_{};
    MonotonicTime cleared_at_{};
    double clock_paid_to_ = 0;  // CPU seconds
    MonotonicTime opened_;
    double cpu_seconds_ = 0;
    MonotonicTime counted_to_;
    std::vector<std::vector<std::uint64_t>> tables_;
  };

  std::map<const SimulatedProcess*, Handle*> handles_;  // handles of processes that are open
};

// One memory cgroup of that kernel.
class SimulatedAgeing final : public MemcgAgeing {
 public:
  explicit SimulatedAgeing(SimulatedKernel& kernel) : kernel_(kernel) {}

  static constexpr std::uint64_t kSecondNode = 1'000'000;  // its first frame

  std::string path = "/service";
  std::vector<SimulatedProcess*> members;
  std::vector<SimulatedProcess*> joined;  // members that GroupOf() does not report yet
  std::set<Pid> left;                     // no members any more, which it does not report either
  std::vector<Member> others;             // members that are no targets
  PageCount file{0};                      // page cache
  std::optional<PageCount> held;          // default: the memory that members have
  PageCount freed_since{0};               // less since the survey that GroupOf() goes by
  PageCount held_since{0};                // more since the survey that GroupOf() goes by
  std::optional<PageCount> resident;      // each member's; by default, all that it has
  std::map<Pid, PageCount> proportional;  // default: all that the process has
  std::optional<std::string> pressure;
  std::optional<std::string> trouble;
  bool is_there = true;
  bool tells_who_is_present = true;
  std::map<std::uint64_t, int>
      refusals;                     // errno, by the number of the ageing; it clears all the same
  std::set<std::uint64_t> off_lru;  // frames
  bool has_removed_groups = false;
  std::chrono::nanoseconds takes_more{0};
  std::uint64_t without_effect = 0;  // number of the next ageings that have no effect
  std::function<void()> before_ageing = [] {};
  std::uint64_t ageings = 0;
  std::uint64_t asked = 0;
  std::uint64_t plans = 0;
  std::uint64_t distrusted = 0;
  std::chrono::nanoseconds proportional_takes{0};  // CPU time of the scanner
  std::uint64_t proportional_reads = 0;

  const Group* GroupOf(Pid pid) override {
    ++plans;
    if (trouble) return nullptr;
    if (kernel_.now < survey_again_) return nullptr;
    if (survey_again_ != MonotonicTime{}) {
      surveyed_ = held_since;
      surveyed_freed_ = freed_since;
    }
    group_ = {.path = path, .members = others, .file = file, .held = PageCount(0)};
    bool found = false;
    for (const Member& other : others) group_.held += other.resident;
    for (const SimulatedProcess* process : members) {
      const PageCount pages = resident.value_or(PageCount(process->pages.size()));
      group_.members.push_back({.pid = process->identity().pid, .resident = pages});
      group_.held += pages;
      found = found || process->identity().pid == pid;
    }
    group_.held = held.value_or(group_.held) + surveyed_ - surveyed_freed_;
    return found ? &group_ : nullptr;
  }

  std::optional<std::string> Trouble() const override { return trouble; }

  void Distrust(const std::string&) override {
    ++distrusted;
    survey_again_ = kernel_.now + kSurveyLasts;
  }

  Result<Present> PresentIn(const std::string&, std::span<const Pid> pids) override {
    if (!tells_who_is_present) return Fail(Refused("read", "lru_gen", EIO));
    Present present{.inside = {},
                    .outside = {},
                    .held = group_.held + held_since - surveyed_ - (freed_since - surveyed_freed_)};
    for (const auto* processes : {&members, &joined}) {
      for (const SimulatedProcess* process : *processes) {
        const Pid pid = process->identity().pid;
        if (std::ranges::find(pids, pid) == pids.end()) continue;
        (left.contains(pid) ? present.outside : present.inside).insert(pid);
      }
    }
    return present;
  }

  std::optional<PageCount> ProportionalOf(Pid pid) override {
    ++proportional_reads;
    kernel_.now += proportional_takes;
    kernel_.own_cpu += proportional_takes;
    if (const auto known = proportional.find(pid); known != proportional.end())
      return known->second;
    return PageCount(kernel_.processes.at(pid)->pages.size());
  }

  Status Age(const std::string& aged) override {
    ++asked;
    if (!is_there) return Fail(Refused("age", "the memory of cgroup " + aged, ENOENT));
    ++ageings;
    before_ageing();
    std::uint64_t foreign = file.value();
    for (const Member& other : others) foreign += other.resident.value();
    const auto takes = takes_more + foreign * SimulatedKernel::kAgeingTakes;
    kernel_.now += takes;
    kernel_.own_cpu += takes;
    if (without_effect > 0) {
      --without_effect;
      return {};
    }
    for (const auto* processes : {&members, &joined})
      for (const SimulatedProcess* process : *processes) kernel_.Age(*process);
    if (const auto refusal = refusals.find(ageings); refusal != refusals.end())
      return Fail(Refused("age", "the memory of cgroup " + aged, refusal->second));
    return {};
  }

  std::optional<std::string> Pressure(const std::string&) override { return pressure; }

  std::vector<AgeingReach> ReachOf(const std::string&,
                                   std::span<const std::uint64_t> frames) override {
    std::set<std::uint64_t> out = off_lru;
    for (const SimulatedProcess* process : members) {
      for (const SimulatedProcess::Page& page : process->pages)
        if (page.charged_elsewhere) out.insert(page.frame);
    }
    std::vector<AgeingReach> reach;
    for (const std::uint64_t frame : frames) {
      reach.push_back(out.contains(frame)  ? AgeingReach::kNo
                      : has_removed_groups ? AgeingReach::kUnknown
                                           : AgeingReach::kYes);
    }
    return reach;
  }

  std::optional<NodeId> NodeOf(std::uint64_t frame) const override {
    return NodeId(frame < kSecondNode ? 0 : 1);
  }

 private:
  SimulatedKernel& kernel_;
  Group group_;
  MonotonicTime survey_again_{};  // if the group is distrusted
  PageCount surveyed_{0};         // the part of held_since that was surveyed
  PageCount surveyed_freed_{0};   // the part of freed_since that was surveyed
};

}  // namespace tmprof::abit
