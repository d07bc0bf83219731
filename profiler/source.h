// SPDX-License-Identifier: Apache-2.0
// The interface of every source of access information to the recorder and the daemon.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/result.h"
#include "base/tracked_process.h"
#include "base/units.h"

namespace tmprof {

// The physical pages of a span when its entry was last read.
struct SeenFrame {
  std::uint64_t number = 0;   // of the first page
  bool is_shareable = false;  // false: its process alone may have them, since it may write to them
  friend bool operator==(const SeenFrame&, const SeenFrame&) = default;
};

// Accessed-bit evidence about one span within one epoch.
struct ReferenceRecord {
  PageKey key;
  PageCount span{1};
  std::uint32_t looks = 0;
  std::uint32_t references = 0;
  std::uint32_t first_accesses = 0;
  std::chrono::nanoseconds time_at_risk{0};  // target CPU time; so are the other times
  std::uint32_t first_read_finds = 0;        // PageColumns::FindingReads
  std::chrono::nanoseconds first_read_time{0};
  std::chrono::nanoseconds later_read_time{0};
  bool seen = false;  // its bit was set and could not be cleared: it was accessed at some time
  std::optional<NodeId> node;
  std::optional<SeenFrame> frame;  // nullopt: unknown, or it has several
  std::uint32_t fast_looks = 0;    // PageColumns::FastTries
  std::uint32_t fast_found = 0;
  std::chrono::nanoseconds fast_time{0};
  std::uint32_t fast_earlier = 0;
  std::chrono::nanoseconds fast_earlier_time{0};
  std::uint32_t new_first_accesses = 0;  // PageColumns::NewVisits
  std::chrono::nanoseconds new_time_at_risk{0};
  std::chrono::nanoseconds new_later_read_time{0};
  bool region = false;  // looked at one page at a time (PageColumns): samples inside part it
};

// Address samples of one base page within one epoch.
struct SampleRecord {
  PageKey key;
  std::uint32_t loads = 0;
  std::uint32_t stores = 0;
};

// Exact accesses to a span within one epoch.
struct AccessRecord {
  PageKey key;
  AccessCounts counts;
  std::optional<NodeId> node;
};

// One source's delivery for one epoch. Records in any order; a key may repeat (counts add up).
struct SourceEpoch {
  SourceStatus status;
  std::vector<ReferenceRecord> references;
  std::vector<SampleRecord> samples;
  std::vector<AccessRecord> accesses;
  // Spans known to be mapped by one entry, so that samples inside them join their record and get
  // their node. They are no evidence themselves.
  std::vector<ReferenceRecord> huge_spans;
  bool tells_new_visits = false;  // its references have PageColumns::NewVisits
  std::vector<RungCounts> rungs;  // blocks in order
};

// The cost a source may cause the targets, as a share of their CPU time: 0.01 is 1 %.
using OverheadShare = double;

// All calls come from one thread, the recorder's. A source may run threads of its own; it owns
// them, and its destructor joins them. A target that vanishes at any moment is not an error.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::string_view name() const = 0;
  virtual SourceRole role() const = 0;  // kReferences or kSamples: what the gate switches together

  // The whole set, each time it changes and at each refresh of mappings. A process that is no
  // longer in it is dropped; its evidence so far is still delivered by the next TakeEpoch(). Fails
  // only when the source as a whole can no longer work.
  virtual Status SetTargets(const std::vector<TrackedProcess>& targets) = 0;

  // The gate's decision; a source starts active. While inactive it costs the targets nothing.
  virtual void SetActive(bool active) = 0;

  // File descriptors to poll for input; Service() is called when one is readable. May be empty.
  virtual std::vector<int> PollFds() const { return {}; }
  // Takes what input there is; true: there was some. It is called at least every 50 ms while some
  // source has input, and else at growing intervals of at most 200 ms.
  virtual bool Service() { return false; }

  // Everything since the last call; status counts are for that time only.
  virtual SourceEpoch TakeEpoch() = 0;

  // Shows the source the samples of other sources in the epoch that ends. A source may look closer
  // at memory that is known to be accessed.
  virtual void SeeSamples(const std::vector<SampleRecord>& samples) { (void)samples; }

  // A share in [0, 1] of recent target CPU time that went into memory stalls, if the source can
  // measure it; feeds the gate on machines without counters.
  virtual std::optional<double> MemoryStallShare() const { return std::nullopt; }
};

}  // namespace tmprof
