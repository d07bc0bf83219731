// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/abit_scanner.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/host/capabilities.h"
#include "base/unique_fd.h"
#include "profiler/sources/abit/auto_engine.h"
#include "profiler/sources/abit/calibration.h"
#include "profiler/sources/abit/kept_calibration.h"
#include "profiler/sources/abit/linux_abit_kernel.h"
#include "profiler/sources/abit/memcg_ageing.h"
#include "profiler/sources/abit/node_map.h"
#include "profiler/sources/abit/other_clearers.h"
#include "profiler/sources/abit/other_scanners.h"
#include "profiler/sources/abit/punctual_thread.h"
#include "profiler/sources/abit/region_engine.h"
#include "profiler/sources/abit/scan_engine.h"
#include "profiler/sources/abit/short_waits.h"
#include "profiler/sources/abit/switch_clock.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// Others that clear are looked for this often, and as rarely as keeps the look, which goes through
// all processes, at half a percent of a CPU.
constexpr nanoseconds kLookForOthers = std::chrono::seconds(1);
constexpr int kLookForOthersRest = 200;  // times what the last one took
// This is a safeguard: callers and the kernel wake the thread.
constexpr nanoseconds kLongestWait = std::chrono::seconds(1);
// The thread looks for callers so often if it has no eventfd for them to wake it by.
constexpr nanoseconds kWithoutDescriptor = std::chrono::milliseconds(10);

constexpr nanoseconds kFirstRetrial = std::chrono::seconds(1);

constexpr char kWithoutClock[] = "programs that rest are looked at more often than needed";

std::string_view Name(ScanOptions::Mode mode) {
  return mode == ScanOptions::Mode::kLadder ? "exposure ladder" : "plain, one bit per interval";
}

std::unique_ptr<Engine> MakeEngine(AbitKernel& kernel, const ScanOptions& options) {
  switch (options.looked) {
    case Looked::kFull:
      return std::make_unique<ScanEngine>(kernel, options);
    case Looked::kRegions:
      return std::make_unique<RegionEngine>(kernel, options);
    case Looked::kAuto:
      return std::make_unique<AutoEngine>(kernel, options);
  }
  return nullptr;
}

ReferenceRecord HugeRecord(const HugeSpan& huge) {
  ReferenceRecord record;
  record.key = {huge.target, huge.start};
  record.span = huge.span;
  return record;
}

void Deliver(const BlockEvidence& block, const NodeMap& nodes,
             std::vector<ReferenceRecord>& records) {
  for (std::size_t i = 0; i < block.units.size(); ++i) {
    const UnitRecord& unit = block.units[i];
    const tmprof_tally& tally = unit.tally;
    if (tally.looks == 0 && unit.fast_looks == 0 && !unit.seen) continue;
    records.push_back(
        {.key = {block.target, block.start + PageCount(i * block.unit.value())},
         .span = block.unit,
         .looks = tally.looks,
         .references = tally.references,
         .first_accesses = tally.first_accesses,
         .time_at_risk = nanoseconds(tally.at_risk_ns),
         .first_read_finds = tally.first_read_finds,
         .first_read_time = nanoseconds(tally.first_read_ns),
         .later_read_time = nanoseconds(tally.later_read_ns),
         .seen = unit.seen,
         .node = nodes.NodeOf(unit.frame),
         .frame =
             SeenFrame{.number = unit.frame, .is_shareable = unit.frame != 0 && !unit.writable},
         .fast_looks = unit.fast_looks,
         .fast_found = unit.fast_found,
         .fast_time = nanoseconds(unit.fast_ns),
         .fast_earlier = unit.fast_earlier,
         .fast_earlier_time = nanoseconds(unit.fast_earlier_ns),
         .new_first_accesses = tally.first_accesses - unit.older.first_accesses,
         .new_time_at_risk = nanoseconds(tally.at_risk_ns - unit.older.at_risk_ns),
         .new_later_read_time = nanoseconds(tally.later_read_ns - unit.older.later_read_ns)});
  }
}

// Returns the node that holds all frames; nullopt: none does, or the node of a frame is unknown.
std::optional<NodeId> NodeOfAll(const std::vector<std::uint64_t>& frames, const NodeMap& nodes) {
  std::optional<NodeId> node;
  for (const std::uint64_t frame : frames) {
    const auto here = nodes.NodeOf(frame);
    if (!here || (node && *node != *here)) return std::nullopt;
    node = here;
  }
  return node;
}

std::string WithoutFlush(const std::string& doubt) {
  return "of shared and locked memory accesses are seen, but not how long there are none: " + doubt;
}

}  // namespace

// Owns the thread that scans. The engine and the kernel belong to whoever holds the mutex.
class AbitScanner::Worker {
 public:
  Worker(std::unique_ptr<AbitKernel> kernel, std::unique_ptr<Engine> engine)
      : kernel_(std::move(kernel)),
        engine_(std::move(engine)),
        changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { Run(); }) {}

  // Calls `work` with the engine, between two steps of the thread.
  template <typename Work>
  decltype(auto) With(Work work) {
    ++callers_;
    std::unique_lock lock(mutex_);
    --callers_;
    // Whatever it does, the thread must look at its new situation.
    struct Wake {
      int changed;
      ~Wake() { ::eventfd_write(changed, 1); }
    } wake{changed_.get()};
    return work(*engine_);
  }

  Harvest TakeEpoch() {
    return With([](Engine& engine) { return engine.TakeEpoch(); });
  }
  void SetActive(bool active) {
    With([&](Engine& engine) { engine.SetActive(active); });
  }
  std::optional<Error> SetTargets(const std::vector<TrackedProcess>& tracked) {
    return With([&](Engine& engine) {
      engine.SetTargets(tracked);
      return engine.Failure();
    });
  }

  ~Worker() {
    With([this](Engine&) { stopping_ = true; });
    thread_.join();
  }

  // The members below are for the recorder's thread only.
  void LookForOthers() {
    others.clear();
    if (auto other = OtherAccessedBitClearer(); other && !other->is_harmless)
      others.push_back(std::move(other->text));
    if (auto other = OtherScannerOf(targets, Pid(::getpid()))) others.push_back(*std::move(other));
  }

  NodeMap nodes;
  std::set<Pid> targets;
  MonotonicTime look_for_others{};
  std::vector<std::string> others;  // that clear, too

 private:
  void Run() {
    BePunctual(kScannerThread);
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const MonotonicTime next = engine_->Step();
      if (callers_ > 0) {
        Wait(lock, kLongestWait);
      } else if (const MonotonicTime now = kernel_->Now();
                 !short_waits_.Spins(now, next) && next > now) {
        Wait(lock, std::min(next - now, kLongestWait));
      }
    }
  }

  // Returns once a caller has been served or the kernel wakes the thread, after `time` at the
  // latest.
  void Wait(std::unique_lock<std::mutex>& lock, nanoseconds time) {
    std::array<pollfd, 2> events{{{.fd = changed_.get(), .events = POLLIN, .revents = 0},
                                  {.fd = kernel_->wake_fd(), .events = POLLIN, .revents = 0}}};
    // Descriptors may be used up: callers wake nobody then.
    if (!changed_) time = std::min(time, kWithoutDescriptor);
    const auto whole = std::chrono::floor<std::chrono::seconds>(time);
    const timespec timeout{.tv_sec = whole.count(), .tv_nsec = (time - whole).count()};
    lock.unlock();
    ::ppoll(events.data(), events.size(), &timeout, nullptr);
    lock.lock();
    eventfd_t count = 0;
    if (events[0].revents != 0) ::eventfd_read(changed_.get(), &count);
    if (events[1].revents != 0) kernel_->TakeWakes();
  }

  std::unique_ptr<AbitKernel> kernel_;
  std::unique_ptr<Engine> engine_;
  ShortWaits short_waits_;
  std::mutex mutex_;
  UniqueFd changed_;             // a caller has been served
  std::atomic<int> callers_{0};  // waiting for the mutex
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all the others
};

AbitScanner::AbitScanner(std::unique_ptr<AbitKernel> kernel, const ScanOptions& options,
                         const SourceKind& kind, std::unique_ptr<Engine> engine)
    : kind_(kind), options_(options) {
  if (!engine) engine = MakeEngine(*kernel, options);
  worker_ = std::make_unique<Worker>(std::move(kernel), std::move(engine));
}

AbitScanner::~AbitScanner() = default;

Result<std::unique_ptr<AbitScanner>> AbitScanner::Open(const Options& options) {
  auto reader = options.way ? PageTableReader::Open(*options.way) : PageTableReader::Open();
  if (!reader) return Fail(std::move(reader.error()));
  if (auto clearing = TryClearing(); !clearing) return Fail(std::move(clearing.error()));
  std::vector<std::string> warnings;
  if (!(*reader)->fallback_reason().empty()) {
    warnings.push_back(fmt::format("accessed bits are read through the {}: {}",
                                   Name((*reader)->way()), (*reader)->fallback_reason()));
  }
  // The ladder of a full scan alone waits by this clock.
  std::unique_ptr<SwitchClock> clock;
  if (options.scan.mode == ScanOptions::Mode::kLadder && options.scan.looked != Looked::kRegions) {
    if (auto opened = SwitchClock::Open()) {
      clock = *std::move(opened);
    } else {
      warnings.push_back(fmt::format("{}: {}", kWithoutClock, opened.error().Message()));
    }
  }
  const bool has_clock = clock != nullptr;
  // Another way to read page tables has other prices.
  std::optional<KeptFigures> kept;
  if (options.kept) kept = options.kept->Of(Name((*reader)->way()));
  auto kernel = MakeLinuxAbitKernel(std::move(*reader), std::move(clock));
  ScanOptions scan = options.scan;
  // A scan by regions makes no clears of whole processes.
  std::optional<WholeFlushTrial> trial;
  if (scan.looked != Looked::kRegions) {
    trial = KeptTrial(kept, *kernel);
    if (!trial) {
      trial = TryWholeFlush(*kernel);
      Keep(kept, *trial, *kernel);
    }
    const auto doubt = DoubtOf(*trial);
    scan.can_flush = !doubt;
    if (doubt) {
      const char* const hope = MayYetTell(*trial) ? "; this is tried again later" : "";
      warnings.push_back(WithoutFlush(*doubt) + hope);
    }
    if (scan.ageing_use != AgeingUse::kOff) {
      if (auto ageing = OpenMemcgAgeing()) {
        scan.ageing = *std::move(ageing);
      } else {
        warnings.push_back("no memory cgroup is aged: " + ageing.error().Message());
      }
    }
  }
  const KernelMaker make_kernel = [way = options.way,
                                   has_clock]() -> Result<std::unique_ptr<AbitKernel>> {
    auto another = way ? PageTableReader::Open(*way) : PageTableReader::Open();
    if (!another) return Fail(std::move(another.error()));
    std::unique_ptr<SwitchClock> its_clock;
    if (has_clock) {
      if (auto opened = SwitchClock::Open()) its_clock = *std::move(opened);
    }
    return MakeLinuxAbitKernel(*std::move(another), std::move(its_clock));
  };
  auto scanner = Open(std::move(kernel), kAbitBpfSource, scan, {}, make_kernel, kept);
  if (!scanner) return scanner;
  (*scanner)->warnings_.insert((*scanner)->warnings_.begin(), warnings.begin(), warnings.end());
  if (trial && MayYetTell(*trial)) (*scanner)->TryFlushesAgain(*trial, options.way, kept);
  return scanner;
}

Result<std::unique_ptr<AbitScanner>> AbitScanner::Open(std::unique_ptr<AbitKernel> kernel,
                                                       const SourceKind& kind, ScanOptions scan,
                                                       const EngineMaker& make_engine,
                                                       const KernelMaker& make_kernel,
                                                       std::optional<KeptFigures> kept) {
  // An engine of the caller's that looks at regions from the start clears no page by itself.
  const bool looks_at_regions =
      scan.looked == Looked::kAuto || (scan.looked == Looked::kRegions && !make_engine);
  const bool tries_fast = scan.looked != Looked::kRegions &&
                          scan.mode == ScanOptions::Mode::kLadder && kernel->tells_running_time();
  const bool points = looks_at_regions || tries_fast;
  const MeasurePoints measure = points ? MeasurePoints::kYes : MeasurePoints::kNo;
  const CostFigures figures = FiguresToMeasure(*kernel, measure);
  std::optional<nanoseconds> age;
  Result<MeasuredCost> cost = MeasuredCost{};
  if (auto before = KeptCost(kept, kind.name, figures, *kernel)) {
    cost = std::move(before->cost);
    age = before->age;
  } else {
    cost = Calibrate(*kernel, measure);
    if (!cost) return Fail(std::move(cost.error()));
    Keep(kept, kind.name, *cost, figures, *kernel);
  }
  scan.cost = PricesOf(*cost);
  scan.clear_loss = cost->clear_loss;
  std::unique_ptr<Engine> engine;
  if (make_engine) {
    auto made = make_engine(*kernel, scan);
    if (!made) return Fail(std::move(made.error()));
    engine = *std::move(made);
  }
  auto scanner = std::make_unique<AbitScanner>(std::move(kernel), scan, kind, std::move(engine));
  scanner->calibration_age_ = age;
  scanner->calibration_is_settled_ = !cost->unsettled.any();
  scanner->calibration_.ns_per_set = cost->ns_per_set;
  scanner->calibration_.ns_per_look = cost->ns_per_look;
  scanner->calibration_.ns_per_point = cost->ns_per_point;
  if (points && !cost->ns_per_point)
    scanner->calibration_.assumed_ns_per_point = kAssumedNsPerPoint;
  const bool tries_again = cost->unsettled.any() && make_kernel;
  if (!cost->doubt.empty()) {
    const char* const hope = tries_again ? "; this is measured again while recording" : "";
    scanner->warnings_.push_back(cost->doubt + hope);
  }
  if (tries_again) {
    // The scanner's thread has its kernel to itself. Each repeat makes its own, as a clock that
    // stays would cost every context switch of the machine. Its BPF programs take long to load if
    // the machine is busy, and an end of the recording waits for that.
    const auto again = [make_kernel, kept, figures, name = kind.name](
                           const MeasuredCost& before,
                           const std::stop_token& stop) -> Result<MeasuredCost> {
      auto another = make_kernel();
      if (!another) return Fail(std::move(another.error()));
      auto better = CalibrateAgain(**another, before, stop);
      if (better) Keep(kept, name, *better, figures, **another);
      return better;
    };
    scanner->Follow(std::make_unique<Recalibration>(*cost, again));
  }
  if (auto other = OtherAccessedBitClearer(); other && !other->is_harmless)
    scanner->warnings_.push_back(std::move(other->text));
  return scanner;
}

// The scanner's thread has the kernel of its own to itself.
void AbitScanner::TryFlushesAgain(const WholeFlushTrial& before, std::optional<KernelWay> way,
                                  const std::optional<KeptFigures>& kept) {
  const auto try_again = [way, kept](const WholeFlushTrial& trial, const std::stop_token& stop) {
    auto reader = way ? PageTableReader::Open(*way) : PageTableReader::Open();
    if (!reader) return trial;
    const auto kernel = MakeLinuxAbitKernel(*std::move(reader), nullptr);
    const WholeFlushTrial more = TryWholeFlush(*kernel, trial, stop);
    Keep(kept, more, *kernel);
    return more;
  };
  retrial_ = std::make_unique<WholeFlushRetrial>(before, try_again, kFirstRetrial);
}

void AbitScanner::Follow(std::unique_ptr<Recalibration> recalibration) {
  recalibration_ = std::move(recalibration);
}

void AbitScanner::UseNewPrices() {
  if (!recalibration_) return;
  const bool over = recalibration_->over();  // before the last figures are taken
  if (const auto cost = recalibration_->Take()) {
    worker_->With([&](Engine& engine) { engine.Reprice(PricesOf(*cost), cost->clear_loss); });
    repriced_ = ToldAgain(*cost);
  }
  if (over) recalibration_.reset();
}

Status AbitScanner::SetTargets(const std::vector<TrackedProcess>& targets) {
  worker_->targets.clear();
  for (const TrackedProcess& target : targets) worker_->targets.insert(target.pid);
  if (auto failure = worker_->SetTargets(targets)) return Fail(*std::move(failure));
  return {};
}

void AbitScanner::SetActive(bool active) { worker_->SetActive(active); }

std::vector<ReferenceRecord> ReferencesOf(Harvest& harvest, const NodeMap& nodes) {
  // In the order that the profile wants: blocks are few, their records many.
  std::ranges::sort(harvest.evidence, {},
                    [](const BlockEvidence& block) { return PageKey{block.target, block.start}; });
  std::vector<ReferenceRecord> records;
  std::size_t most = harvest.regions.size();
  for (const BlockEvidence& block : harvest.evidence) most += block.units.size();
  records.reserve(most);
  for (const BlockEvidence& block : harvest.evidence) Deliver(block, nodes, records);
  for (const RegionEvidence& region : harvest.regions) {
    records.push_back({.key = {region.target, region.start},
                       .span = region.span,
                       .looks = region.looks,
                       .references = region.references,
                       .first_accesses = region.first_accesses,
                       .time_at_risk = region.time_at_risk,
                       .seen = region.seen,
                       .node = NodeOfAll(region.frames, nodes),
                       .region = true});
  }
  return records;
}

SourceEpoch AbitScanner::TakeEpoch() {
  if (retrial_ && retrial_->over()) {
    if (retrial_->passed()) worker_->With([](Engine& engine) { engine.TrustFlushes(); });
    retrial_.reset();
  }
  UseNewPrices();
  Harvest harvest = worker_->TakeEpoch();
  SourceEpoch epoch;
  epoch.references = ReferencesOf(harvest, worker_->nodes);
  for (const HugeSpan& huge : harvest.huge) epoch.huge_spans.push_back(HugeRecord(huge));
  epoch.tells_new_visits = !harvest.by_regions;
  epoch.rungs = std::move(harvest.rungs);

  SourceStatus& status = epoch.status;
  status.name = name();
  status.label = fmt::format("{} ({}{})", kind_.label, harvest.by_regions ? "regions, " : "",
                             Name(harvest.mode.value_or(options_.mode)));
  status.role = role();
  status.state = harvest.active.count() > 0 ? SourceState::kActive : SourceState::kGated;
  if (harvest.length.count() > 0) {
    status.duty_cycle = std::min(1.0, static_cast<double>(harvest.active.count()) /
                                          static_cast<double>(harvest.length.count()));
  }
  const ScanCounts& counts = harvest.counts;
  status.observations = counts.observations;
  status.lost = counts.lost;
  status.details = {{"clears", counts.clears},
                    {"sets_charged", counts.sets_charged},
                    {"cost_charged_ns", counts.cost_ns},
                    {"looks", counts.looks},
                    {"rotations", counts.rotations},
                    {"unclearable_pages", harvest.unclearable},
                    {"shared_pages", counts.shared},
                    {"unsettled_pages", counts.unsettled},
                    {"late", counts.late},
                    {"blurred", counts.blurred},
                    {"retries_busy", counts.retries_busy},
                    {"torn_tables", counts.torn},
                    {"refused_reads", counts.refused_reads}};
  status.details.insert(status.details.end(), harvest.details.begin(), harvest.details.end());
  const MonotonicTime now = SystemClock().Now();
  if (now >= worker_->look_for_others) {
    worker_->LookForOthers();
    const MonotonicTime looked = SystemClock().Now();
    worker_->look_for_others =
        looked + std::max(kLookForOthers, (looked - now) * kLookForOthersRest);
  }
  status.note = harvest.note;
  status.refusal = harvest.refusal;
  if (!repriced_.empty()) {
    if (!status.note.empty()) status.note += "; ";
    status.note += std::exchange(repriced_, {});
  }
  for (const std::string& other : worker_->others) {
    if (!status.note.empty()) status.note += "; ";
    status.note += other;
  }
  return epoch;
}

void AbitScanner::SeeSamples(const std::vector<SampleRecord>& samples) {
  worker_->With([&](Engine& engine) { engine.SeeSamples(samples); });
}

Probe ProbeAbit() {
  auto reader = PageTableReader::Open();
  if (!reader) return Unusable(kAbitBpfSource, reader.error());
  if (const auto clearing = TryClearing(); !clearing)
    return Unusable(kAbitBpfSource, clearing.error());
  Probe probe = Usable(kAbitBpfSource, fmt::format("page tables are read through a BPF {} and "
                                                   "bits cleared with process_madvise",
                                                   Name((*reader)->way())));
  if (!(*reader)->fallback_reason().empty())
    probe.detail += fmt::format(", because: {}", (*reader)->fallback_reason());
  if (const auto clock = SwitchClock::Open(); !clock) {
    probe.detail += fmt::format("; {}: {}", kWithoutClock, clock.error().Message());
  } else {
    probe.detail += "; a BPF program on context switches tells when programs run";
  }
  if (const auto doubt = DoubtOf(TryWholeFlush(*MakeLinuxAbitKernel(*std::move(reader), nullptr))))
    probe.detail += "; " + WithoutFlush(*doubt);
  const auto ageing = OpenMemcgAgeing();
  probe.detail += "; ageing by the multi-generational LRU is ";
  probe.detail += ageing ? "available" : "not available: " + ageing.error().Message();
  if (const auto other = OtherAccessedBitClearer()) {
    probe.detail += fmt::format("; {}", other->text);
    if (other->is_harmless) {
      probe.detail += ", which is harmless";
    } else {
      probe.fix =
          other->how_to_stop.empty() ? "stop it" : fmt::format("stop it ({})", other->how_to_stop);
      probe.fix += ", or take references as a lower bound";
    }
  }
  const std::string missing =
      MissingCapabilities(kAccessedBitCapabilities, EffectiveCapabilities());
  if (!missing.empty()) {
    if (!probe.fix.empty()) probe.fix += "; ";
    probe.fix += CapabilityAdvice(kAccessedBitCapabilities);
  }
  return probe;
}

}  // namespace tmprof::abit
