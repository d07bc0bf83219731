// SPDX-License-Identifier: Apache-2.0
// The accessed-bit scanner against a program whose accesses are known:
//   build/release/abit_scan recall [--plain] [--thp] [--footprint-mib 512] [--share 0.006]
//   build/release/abit_scan slowdown [--pairs 7] [--footprint-mib 1024]
//   build/release/abit_scan mmap [--pairs 7]
// recall: of the hottest 1/16 of the pages, how many the estimated rate puts there. slowdown: work
// per CPU second of the program, with and without the scanner in turn. mmap: the same of a loop of
// mmap, touch and munmap, which wants the lock that clears take.

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "base/host/procfs.h"
#include "profiler/sources/abit/abit_scanner.h"

namespace tmprof {
namespace {

using abit::AbitScanner;
using abit::ScanOptions;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::size_t kHugeBytes = std::size_t{2} << 20;
constexpr double kHotShare = 0.9;
constexpr std::uint64_t kHotPart = 16;
constexpr double kPrior = 0.3;  // first accesses

enum class Work { kHotset, kGups, kMmapLoop };

struct Settings {
  std::size_t footprint_mib = 512;
  double share = 0.006;
  bool plain = false;
  bool thp = false;
  bool json = false;
  int pairs = 7;
  double seconds = 8;
  double window_seconds = 2;
};

struct Shared {
  std::atomic<bool> ready{false};
  std::atomic<std::uint64_t> work_done{0};
};

std::uint64_t NextRandom(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x9e3779b97f4a7c15;
}

// A child process at work on memory that it inherits.
class Program {
 public:
  Program(Work work, const Settings& settings)
      : bytes_(settings.footprint_mib << 20), unit_(settings.thp ? kHugeBytes : kBasePageBytes) {
    shared_ = new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
    void* raw = ::mmap(nullptr, bytes_ + kHugeBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TMPROF_CHECK(raw != MAP_FAILED);
    const auto address = reinterpret_cast<std::uint64_t>(raw);
    start_ = (address + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
    ::madvise(raw, bytes_ + kHugeBytes, settings.thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    order_.resize(bytes_ / unit_);
    std::iota(order_.begin(), order_.end(), 0);
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(7));
    pid_ = ::fork();
    TMPROF_CHECK(pid_ >= 0);
    if (pid_ == 0) Run(work);
    while (!shared_->ready) std::this_thread::sleep_for(milliseconds(1));
  }
  ~Program() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::munmap(shared_, sizeof(Shared));
  }

  TrackedProcess Tracked() const {
    const ProcFs procfs;
    TrackedProcess process{
        .id = TargetId(0), .pid = Pid(pid_), .start_time_ticks = 0, .mappings = {}};
    process.start_time_ticks = procfs.Stat(process.pid).value().start_time_ticks;
    process.mappings = procfs.Mappings(process.pid).value();
    return process;
  }
  double CpuSeconds() const {
    return 1e-9 * static_cast<double>(ProcessCpuTime(Pid(pid_))->count());
  }
  std::uint64_t WorkDone() const { return shared_->work_done; }
  std::size_t units() const { return order_.size(); }
  std::size_t hot_units() const { return units() / kHotPart; }
  // The index of a unit in memory order; of none of ours: units().
  std::size_t UnitAt(Vpn vpn) const {
    const std::uint64_t address = AddressOf(vpn);
    if (address < start_ || address >= start_ + bytes_) return units();
    return (address - start_) / unit_;
  }
  std::vector<bool> Hot() const {
    std::vector<bool> hot(units(), false);
    for (std::size_t i = 0; i < hot_units(); ++i) hot[order_[i]] = true;
    return hot;
  }

 private:
  [[noreturn]] void Run(Work work) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto* memory = reinterpret_cast<volatile char*>(start_);
    if (work != Work::kMmapLoop)
      for (std::size_t i = 0; i < bytes_; i += kBasePageBytes) memory[i] = 1;
    shared_->ready = true;
    std::uint64_t state = 88172645463325252;
    const std::size_t cold = units() - hot_units();
    while (true) {
      constexpr int kBatch = 1024;
      for (int i = 0; i < kBatch; ++i) {
        const std::uint64_t random = NextRandom(state);
        if (work == Work::kGups) {
          memory[random % bytes_] = static_cast<char>(random);
        } else if (work == Work::kHotset) {
          const bool hot = (random >> 40) % 1000 < static_cast<std::uint64_t>(kHotShare * 1000);
          const std::uint64_t pick = (random & 0xffffffff);
          const std::size_t index =
              hot ? pick * hot_units() >> 32 : hot_units() + (pick * cold >> 32);
          auto& cell = memory[order_[index] * unit_ + ((state >> 33) & (unit_ - 1) & ~63ull)];
          cell = static_cast<char>(random);
        } else if (i % 64 == 0) {
          void* page =
              ::mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          *static_cast<volatile char*>(page) = 1;
          ::munmap(page, 65536);
          shared_->work_done.fetch_add(1, std::memory_order_relaxed);
          // Some memory to be scanned.
          memory[random % bytes_ / 4096 * 4096] = 1;
        }
      }
      if (work != Work::kMmapLoop) shared_->work_done.fetch_add(kBatch, std::memory_order_relaxed);
    }
  }

  std::size_t bytes_;
  std::size_t unit_;
  std::uint64_t start_ = 0;
  Shared* shared_;
  std::vector<std::uint32_t> order_;
  pid_t pid_ = -1;
};

std::unique_ptr<AbitScanner> OpenScanner(const Settings& settings) {
  AbitScanner::Options options;
  options.scan.overhead_share = settings.share;
  if (settings.plain) options.scan.mode = ScanOptions::Mode::kPlain;
  auto scanner = AbitScanner::Open(options);
  if (!scanner) {
    fmt::print(stderr, "{}\n", scanner.error().Message());
    std::exit(1);
  }
  return std::move(*scanner);
}

double OwnCpuSeconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Evidence {
  double looks = 0;
  double references = 0;
  double firsts = 0;
  double seconds = 0;
};

double RecallAt(std::vector<double> scores, const std::vector<bool>& hot) {
  std::vector<std::uint32_t> ranked(scores.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::shuffle(ranked.begin(), ranked.end(), std::mt19937_64(99));
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](auto a, auto b) { return scores[a] > scores[b]; });
  const std::size_t k = scores.size() / kHotPart;
  const auto found = std::count_if(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(k),
                                   [&](auto unit) { return hot[unit]; });
  return static_cast<double>(found) / static_cast<double>(k);
}

void Report(const SourceEpoch& epoch) {
  std::string line;
  for (const NamedCount& count : epoch.status.details)
    line += fmt::format(" {} {}", count.name, count.count);
  fmt::print("  observations {} lost {}{}{}\n", epoch.status.observations.value_or(0),
             epoch.status.lost.value_or(0), line,
             epoch.status.note.empty() ? "" : "; " + epoch.status.note);
}

int Recall(const Settings& settings) {
  const Program program(Work::kHotset, settings);
  const auto scanner = OpenScanner(settings);
  const std::vector<bool> hot = program.Hot();
  std::vector<Evidence> evidence(program.units());
  const double own_before = OwnCpuSeconds();
  const double cpu_before = program.CpuSeconds();
  const std::uint64_t work_before = program.WorkDone();
  double own_scoring = 0;
  fmt::print("calibrated: {:.0f} ns per set, {:.0f} ns per look; share {:.2f} %\n",
             scanner->calibration().ns_per_set.value_or(0),
             scanner->calibration().ns_per_look.value_or(0), 100 * settings.share);
  for (double second = 1; second <= settings.seconds; ++second) {
    (void)scanner->SetTargets({program.Tracked()});
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const SourceEpoch epoch = scanner->TakeEpoch();
    const double scoring = OwnCpuSeconds();
    for (const ReferenceRecord& record : epoch.references) {
      const std::size_t unit = program.UnitAt(record.key.vpn);
      if (unit == program.units()) continue;
      evidence[unit].looks += record.looks;
      evidence[unit].references += record.references;
      evidence[unit].firsts += record.first_accesses;
      evidence[unit].seconds += 1e-9 * static_cast<double>(record.time_at_risk.count());
    }
    Evidence sum;
    std::size_t visited = 0;
    for (const Evidence& unit : evidence) {
      sum.firsts += unit.firsts;
      sum.seconds += unit.seconds;
      visited += unit.looks > 0;
    }
    const double mean_rate = sum.firsts / std::max(sum.seconds, 1e-9);
    std::vector<double> rate;
    std::vector<double> share;
    for (const Evidence& unit : evidence) {
      rate.push_back((unit.firsts + kPrior) / (unit.seconds + kPrior / mean_rate));
      share.push_back((unit.references + kPrior) / (unit.looks + 2 * kPrior));
    }
    fmt::print("{:2.0f} s: visited {:.3f} recall@1/16 by rate {:.3f} by references {:.3f}\n",
               second, static_cast<double>(visited) / static_cast<double>(evidence.size()),
               RecallAt(rate, hot), RecallAt(share, hot));
    Report(epoch);
    own_scoring += OwnCpuSeconds() - scoring;
  }
  const double cpu = program.CpuSeconds() - cpu_before;
  fmt::print(
      "own CPU {:.2f} % of a core; program {:.1f} s on a CPU, {:.1f} M accesses per CPU second\n",
      100 * (OwnCpuSeconds() - own_before - own_scoring) / settings.seconds, cpu,
      1e-6 * static_cast<double>(program.WorkDone() - work_before) / cpu);
  return 0;
}

// Work per CPU second with and without the scanner, in turn.
int Pairs(const Settings& settings, Work work) {
  const Program program(work, settings);
  const auto scanner = OpenScanner(settings);
  fmt::print("calibrated: {:.0f} ns per set, {:.0f} ns per look; share {:.2f} %\n",
             scanner->calibration().ns_per_set.value_or(0),
             scanner->calibration().ns_per_look.value_or(0), 100 * settings.share);
  const auto window = [&](bool on) {
    (void)scanner->SetTargets({program.Tracked()});
    scanner->SetActive(on);
    const double cpu = program.CpuSeconds();
    const std::uint64_t done = program.WorkDone();
    std::this_thread::sleep_for(
        nanoseconds(static_cast<std::int64_t>(settings.window_seconds * 1e9)));
    return static_cast<double>(program.WorkDone() - done) / (program.CpuSeconds() - cpu);
  };
  window(true);
  (void)scanner->TakeEpoch();
  std::vector<double> losses;
  double own = 0;
  double charged = 0;
  double off = window(false);
  for (int pair = 0; pair < settings.pairs; ++pair) {
    const double own_before = OwnCpuSeconds();
    const double cpu = program.CpuSeconds();
    (void)scanner->TakeEpoch();
    const double on = window(true);
    const SourceEpoch epoch = scanner->TakeEpoch();
    own += OwnCpuSeconds() - own_before;
    for (const NamedCount& count : epoch.status.details)
      if (count.name == "cost_charged_ns")
        charged += 1e-9 * static_cast<double>(count.count) / (program.CpuSeconds() - cpu);
    const double off_after = window(false);
    const double around = (off + off_after) / 2;
    losses.push_back(100 * (1 - on / around));
    fmt::print("off {:.3f} on {:.3f} M per CPU second: loss {:+.2f} %\n", around * 1e-6, on * 1e-6,
               losses.back());
    if (pair == 0) Report(epoch);
    off = off_after;
  }
  std::sort(losses.begin(), losses.end());
  fmt::print(
      "median loss {:+.2f} % (quartiles {:+.2f} {:+.2f}); charged {:.2f} %; own CPU {:.2f} %\n",
      losses[losses.size() / 2], losses[losses.size() / 4], losses[losses.size() * 3 / 4],
      100 * charged / settings.pairs, 100 * own / settings.pairs / settings.window_seconds);
  return 0;
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) {
  tmprof::Settings settings;
  CLI::App app("The accessed-bit scanner against a program whose accesses are known");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--footprint-mib", settings.footprint_mib, "Memory of the program");
  app.add_option("--share", settings.share, "Overhead allowed, as a share of its CPU time");
  app.add_flag("--plain", settings.plain, "One bit per scan interval");
  app.add_flag("--thp", settings.thp, "Huge pages");
  app.add_option("--pairs", settings.pairs, "Of windows without and with");
  app.add_option("--seconds", settings.seconds, "Length of recall");
  app.add_option("--window", settings.window_seconds, "Length of one window");
  const auto* recall = app.add_subcommand("recall");
  const auto* slowdown = app.add_subcommand("slowdown");
  app.add_subcommand("mmap");
  CLI11_PARSE(app, argc, argv);
  if (*recall) return tmprof::Recall(settings);
  return tmprof::Pairs(settings, *slowdown ? tmprof::Work::kGups : tmprof::Work::kMmapLoop);
}
