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
#include "base/units.h"

namespace tmprof {

// Distinct base pages with a reference or a sample, kept as runs of neighbours. A page's index is
// its place in ascending order of keys.
class Footprint {
  struct Run {
    TargetId target;
    std::uint64_t start;  // virtual page numbers, half-open
    std::uint64_t end;
    std::uint64_t first_index;
  };

 public:
  // Linear in the runs and the records; cheap once the profile brings nothing new.
  void Add(const PageColumns& pages);

  PageCount size() const { return size_; }

  // Answers questions in ascending order of keys, each from where the last one ended.
  class Walk {
   public:
    explicit Walk(const Footprint& footprint) : runs_(footprint.runs_) {}
    // The index of the span's first page, or nullopt unless the footprint holds all of the span.
    std::optional<std::uint64_t> IndexOf(PageKey key, std::uint64_t span_pages);

   private:
    const std::vector<Run>& runs_;
    std::size_t run_ = 0;
  };

 private:
  // No two runs touch.
  std::vector<Run> runs_;
  PageCount size_;
};

inline std::optional<std::uint64_t> Footprint::Walk::IndexOf(PageKey key,
                                                             std::uint64_t span_pages) {
  while (run_ < runs_.size() &&
         (runs_[run_].target < key.target ||
          (runs_[run_].target == key.target && runs_[run_].end <= key.vpn.value()))) {
    ++run_;
  }
  if (run_ == runs_.size()) return std::nullopt;
  const Run& run = runs_[run_];
  const std::uint64_t start = key.vpn.value();
  if (run.target != key.target || start < run.start || run.end - start < span_pages) {
    return std::nullopt;
  }
  return run.first_index + (start - run.start);
}

// What a first pass over a trace finds. `damage`: the stream's error, if it ended in one; the rest
// then stands for the epochs before it.
struct FootprintScan {
  Footprint footprint;
  std::uint64_t epochs = 0;
  std::optional<Error> damage;
};
FootprintScan ScanFootprint(EpochStream& trace);

}  // namespace tmprof
