// SPDX-License-Identifier: Apache-2.0
// The interface of an engine of the accessed-bit scanner: its options, its evidence and its counts.
// An engine chooses what is cleared and read when, one step at a time and without a thread.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/units.h"
#include "driver/core/ladder.h"
#include "driver/core/regions.h"
#include "profiler/source.h"
#include "profiler/sources/abit/clear_loss.h"

namespace tmprof::abit {

class AbitKernel;
class MemcgAgeing;

// The cost of accessed bits to a target, in its CPU time.
struct CostModel {
  double ns_per_set = 0;    // the hardware sets a cleared bit again
  double ns_per_look = 0;   // another CPU reads the table of one 2 MiB block
  double ns_per_point = 0;  // the bit of one page is cleared by itself, and its translation flushed
};

enum class Looked : std::uint8_t {
  kFull,     // at every page, as often as the budget allows
  kRegions,  // at one page of each region: a bounded number, whatever the footprint (Daptrace)
  kAuto,     // at every page, while the budget lets each have its turn soon enough
};

// Says whose memory cgroups may be aged to clear accessed bits. Ageing changes what reclaim takes
// first.
enum class AgeingUse : std::uint8_t {
  kOff,
  kOwn,  // those that hold hardly any memory of processes that are no targets
};
inline constexpr std::array kAgeingUses{AgeingUse::kOff, AgeingUse::kOwn};

constexpr std::string_view Name(AgeingUse use) {
  switch (use) {
    case AgeingUse::kOff:
      return "off";
    case AgeingUse::kOwn:
      return "own";
  }
  return "";
}

struct ScanOptions {
  enum class Mode : std::uint8_t {
    kLadder,  // one clear, several reads at growing delays
    kPlain,   // one clear, one read a scan interval later (TMP)
  };
  Mode mode = Mode::kLadder;
  Looked looked = Looked::kFull;
  // Bounds, not settings: what is affordable decides between them. Of kPlain, `monitoring_ns` is
  // the time from a clear to its read.
  tmprof_region_params regions = tmprof_region_params_default();
  std::chrono::nanoseconds plain_interval = std::chrono::seconds(1);
  OverheadShare overhead_share = 0.01;  // share of each target's CPU time
  CostModel cost;
  // Share of one CPU for the scanner itself: it binds if targets are busier than the scan is cheap.
  // The recorder's other thread takes 0.8 % with records of 250 000 pages an epoch, and both
  // together are to stay under 3 % (bench/overhead). First visits take up to a tenth of a CPU until
  // they have used what 10 s earn, which is saved afterwards. Until then the excess is beyond these
  // 3 %.
  OverheadShare own_share = 0.02;
  // Between two clears, so that writers of the target's mmap_lock get their turn: back-to-back
  // clears let a loop of mmap and munmap run at a fortieth of its speed. The shorter one holds
  // while the budget would otherwise be left unused.
  std::chrono::nanoseconds clear_gap = std::chrono::milliseconds(10);
  std::chrono::nanoseconds least_clear_gap = std::chrono::milliseconds(1);
  bool clear_under_pressure = false;
  // A trial has shown that AbitProcess::Flush() works here.
  bool can_flush = false;
  AgeingUse ageing_use = AgeingUse::kOff;
  std::shared_ptr<MemcgAgeing> ageing;  // null: the kernel does not offer it, or it is off
  ClearLoss clear_loss;                 // the loss of fast tries
  std::uint64_t seed = 1;
};

// Evidence of one epoch about the units of one block.
struct UnitRecord {
  tmprof_tally tally{};
  // The part of the tally that is of visits whose first read was in an epoch before.
  struct {
    std::uint32_t first_accesses = 0;
    std::uint64_t at_risk_ns = 0;
    std::uint64_t later_read_ns = 0;
  } older;
  // Its bit was set, and could not be cleared: it was accessed at some time.
  bool seen = false;
  bool writable = false;    // its entry allowed writes then
  std::uint64_t frame = 0;  // its frame when it was last looked at or seen; 0: unknown
  // Fast tries (PageColumns::FastTries).
  std::uint16_t fast_looks = 0;
  std::uint16_t fast_found = 0;
  std::uint16_t fast_earlier = 0;
  std::uint32_t fast_ns = 0;
  std::uint32_t fast_earlier_ns = 0;
};
struct BlockEvidence {
  TargetId target;
  Vpn start;
  PageCount unit{1};
  std::vector<UnitRecord> units;  // those without looks or fast tries, and not seen, are unknown
};

struct HugeSpan {
  TargetId target;
  Vpn start;
  PageCount span;
};

// Evidence about a span that was looked at one page at a time.
struct RegionEvidence {
  TargetId target;
  Vpn start;
  PageCount span;
  // Looks at single pages, whichever page each was at.
  std::uint32_t looks = 0;
  std::uint32_t references = 0;
  // Estimated for all pages of the span.
  std::uint32_t first_accesses = 0;
  std::chrono::nanoseconds time_at_risk{0};  // over the pages of the span
  bool seen = false;  // a bit was set, and could not be cleared: it was accessed at some time
  std::vector<std::uint64_t> frames;  // frames of some of the pages that were looked at
};

// Counts are of base pages unless they say otherwise.
struct ScanCounts {
  std::uint64_t clears = 0;
  std::uint64_t sets_charged = 0;  // page-table entries
  std::uint64_t looks = 0;         // reads of one block
  std::uint64_t observations = 0;  // looks x pages, delivered
  // Looks x pages that another program in the same process voided, and one for each page of an
  // exposure that ended unread or cannot be trusted.
  std::uint64_t lost = 0;
  std::uint64_t shared = 0;
  std::uint64_t unsettled = 0;
  std::uint64_t late = 0;          // reads after more than twice their delay
  std::uint64_t blurred = 0;       // ... so late that the block had its turn again at once
  std::uint64_t retries_busy = 0;  // reads
  std::uint64_t torn = 0;          // tables
  std::uint64_t refused_reads = 0;
  std::uint64_t rotations = 0;  // times that all blocks of a target had their turn
  std::uint64_t cost_ns = 0;    // charged to the targets
};

struct Harvest {
  bool by_regions = false;                // true: regions were looked at; false: every page
  std::optional<ScanOptions::Mode> mode;  // how; unset: as the options say
  std::vector<BlockEvidence> evidence;
  std::vector<HugeSpan> huge;
  std::vector<RegionEvidence> regions;
  std::vector<RungCounts> rungs;  // blocks in order
  ScanCounts counts;
  std::vector<NamedCount> details;  // that only one of the engines has
  std::uint64_t unclearable = 0;    // base pages known at the end of the epoch
  std::chrono::nanoseconds length{0};
  std::chrono::nanoseconds active{0};
  std::string note;
  std::string refusal;  // why some memory could not be cleared; part of the note
};

// Not thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual void SetTargets(const std::vector<TrackedProcess>& processes) = 0;
  virtual void SetActive(bool active) = 0;
  virtual std::optional<Error> Failure() const = 0;

  static constexpr MonotonicTime kNever = MonotonicTime::max();
  // Does the most urgent piece of work, if any is due. Returns when to call again.
  virtual MonotonicTime Step() = 0;

  // Takes address samples. They are of no use to an engine that looks at every page.
  virtual void SeeSamples(const std::vector<SampleRecord>& samples) { (void)samples; }

  // AbitProcess::Flush() has turned out to work here (ScanOptions::can_flush).
  virtual void TrustFlushes() {}

  // Charges these prices from now on (ScanOptions::cost, ScanOptions::clear_loss).
  virtual void Reprice(const CostModel& cost, const ClearLoss& clear_loss) {
    (void)cost;
    (void)clear_loss;
  }

  virtual Harvest TakeEpoch() = 0;
};

// An engine of the caller's over that kernel.
using EngineMaker =
    std::function<Result<std::unique_ptr<Engine>>(AbitKernel& kernel, const ScanOptions& scan)>;

}  // namespace tmprof::abit
