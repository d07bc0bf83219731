// SPDX-License-Identifier: Apache-2.0
// Evidence of spans, and apart from it that of single pages within the regions among them: a
// region's accessed bits are of all of it, a sample is of its page, whichever regions come and go
// around that. docs/design/regions.md derives how both make a score.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/epoch_profile.h"
#include "rank/evidence.h"

namespace tmprof {

class PartedEvidence {
 public:
  // Both overwrite what there was, in its own memory, and leave the parts to Part().
  void Take(const EpochProfile& profile, Visits visits = Visits::kAll);
  // Becomes the sum of both, neither of which is this object. Pages that are now in a huge page or
  // have a record of their own are no longer told apart. If their samples have faded to next to
  // nothing, these become the region's.
  void Join(const PartedEvidence& older, const Keeps& keeps, const PartedEvidence& newer);
  // Adds `newer` and returns true if no page is told apart and `newer` has no other spans; else
  // changes nothing. The result is that of Join() without fading.
  bool AddAlike(const PartedEvidence& newer);
  // Once spans() are as they shall be.
  void Part();

  // Returns the spans in the form of the records, without the evidence in pages().
  const EvidenceTable& spans() const { return spans_; }
  EvidenceTable& spans() { return spans_; }
  // Returns single pages, each within a region of spans(): their samples and exact counts, but no
  // bits.
  const EvidenceTable& pages() const { return pages_; }
  // Spans, but for regions with pages told apart: those pages and what lies between them, each with
  // its share of the region's bits.
  const EvidenceTable& table() const { return is_parted() ? parted_ : spans_; }
  bool is_parted() const { return pages_.size() > 0; }

  // Returns spans() with the evidence in pages() added to them.
  EvidenceTable WholeSpans() const;

  enum class By : std::uint8_t { kPages, kPagesAndSamples };
  // Shares out the scores of whole spans, and their deviations unless null, to the rows of table().
  // Precondition: is_parted().
  void ShareOut(By by, std::vector<double>& scores, std::vector<double>* relative_sd) const;

 private:
  // Compares the samples of one epoch with those before it.
  struct Repeats {
    double seen = 0;        // pages sampled that were told apart already
    double by_chance = 0;   // the number expected if a region's pages were all alike
    double per_spread = 0;  // how many more there are for each unit of Spread()
  };

  void JoinPages(const PartedEvidence& older, const Keeps& keeps, const PartedEvidence& newer);
  double Spread() const;

  EvidenceTable spans_;
  EvidenceTable pages_;
  EvidenceTable parted_;
  std::vector<std::uint32_t> span_of_;  // one per row of parted_
  EvidenceTable apart_;                 // pages that regions of the last Join() have come to cover
  Repeats repeats_;                     // over all evidence that was joined, faded
};

}  // namespace tmprof
