// SPDX-License-Identifier: Apache-2.0
// The base pages that a trace saw accessed, numbered densely.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "base/page_key.h"
#include "base/result.h"
#include "base/shared_pages.h"
#include "base/units.h"
#include "rank/known_evidence.h"
#include "rank/memory_traffic.h"

namespace tmprof {

// Distinct base pages with a reference or a sample, kept as runs of neighbours. A page's index is
// its place in ascending order of names (SharedPages::LastingName). Pages of shared files count
// once and come last. Pages that processes share after fork(2) count once, too, and have the place
// of the address that is their name.
class Footprint {
  struct Run {
    TargetId target;
    std::uint64_t start = 0;  // virtual page numbers, half-open
    std::uint64_t end = 0;
    std::uint64_t first_index = 0;
  };

 public:
  // Takes time linear in the runs and the records, and little once the profile has nothing new.
  // Records are sorted if pages are shared.
  void Add(const PageColumns& pages, const SharedPages& shared = {});

  PageCount size() const { return size_; }

  // Does what Walk::IndexOf() does, for keys in any order.
  std::optional<std::uint64_t> IndexOf(PageKey key, std::uint64_t span_pages) const;

  // Answers questions in ascending order of keys, each from where the last one ended.
  class Walk {
   public:
    explicit Walk(const Footprint& footprint)
        : next_(footprint.runs_.data()), end_(next_ + footprint.runs_.size()) {}
    // Returns the index of the span's first page; nullopt unless the footprint holds all of the
    // span.
    std::optional<std::uint64_t> IndexOf(PageKey key, std::uint64_t span_pages);

   private:
    Run run_{};  // the last one looked at
    const Run* next_;
    const Run* end_;
  };

 private:
  // No two runs touch.
  std::vector<Run> runs_;
  PageCount size_;
};

inline std::optional<std::uint64_t> Footprint::Walk::IndexOf(PageKey key,
                                                             std::uint64_t span_pages) {
  const std::uint64_t start = key.vpn.value();
  while (run_.target != key.target || run_.end <= start) {
    if (run_.target > key.target || next_ == end_) return std::nullopt;
    run_ = *next_++;
  }
  if (start < run_.start || run_.end - start < span_pages) return std::nullopt;
  return run_.first_index + (start - run_.start);
}

// The result of a first pass over a trace. `end` reports damage; the other fields then stand for
// the epochs before it.
struct FootprintScan {
  Footprint footprint;
  KnownEvidence known;
  MemoryTraffic traffic;
  std::uint64_t epochs = 0;
  // The most memory that the targets had at the end of an epoch. A page that several of them map
  // counts for each. nullopt: no epoch has the memory of all targets that had not exited.
  std::optional<PageCount> resident;
  std::uint64_t references = 0;  // accessed bits found set
  std::uint64_t samples = 0;
  StreamEnd end;
};
// `models_cache` is that of KnownEvidence.
FootprintScan ScanFootprint(EpochStream& trace, bool models_cache = false);

}  // namespace tmprof
