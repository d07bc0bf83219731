// SPDX-License-Identifier: Apache-2.0
// Tells which objects spans of pages held over the epochs of a trace, and which of the accesses are
// theirs. Views of objects and advice on them share out accesses by this definition alone.
//
// Accesses are estimated over the whole trace (rank/total_ranker.h). An epoch gets a part of a
// span's accesses: the span's evidence in that epoch / its evidence in all epochs. The objects that
// held the span then get their shares of this part.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/evidence.h"
#include "rank/rank_model.h"

namespace tmprof {

// Returns the evidence of a page record, by which a span's accesses are shared out among epochs. It
// is above 0: epochs without any evidence count if there are no others.
double EvidenceOf(const PageColumns& pages, std::size_t record);

struct SiteShare {
  std::uint32_t site = 0;      // its number in the trace; later its index in the advice
  double recorded = 0;         // share of the recorded objects
  double with_unrecorded = 0;  // and of the objects that they stand for, which lie elsewhere
};

void AddTo(std::vector<SiteShare>& shares, const SiteShare& added);

// The mean of what a span of pages held over the epochs, weighted by their evidence.
struct SpanUse {
  TargetId target;
  VpnRange pages;
  double weight = 0;
  std::vector<SiteShare> shares;  // ascending by site; sums, which have to be divided by `weight`

  double page_count() const { return static_cast<double>(pages.size().value()); }
};

class SpanUses {
 public:
  // Adds the evidence of all of the epoch's records.
  void See(const EpochProfile& epoch);

  // Returns the use of the record's span.
  SpanUse& Of(const PageColumns& pages, std::size_t record);

  // Returns ascending, disjoint parts. If the bounds of spans changed, each part has its own share
  // of every span that held it. Precondition: it is called once.
  std::vector<SpanUse> Take();

 private:
  struct Key {
    PageKey first;
    std::uint32_t pages;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>{}(
          (key.first.vpn.value() * 64 + key.first.target.value()) * 31 + key.pages);
    }
  };

  std::unordered_map<Key, SpanUse, Hash> spans_;
};

// Returns the accesses that rows of the table have in each span. Precondition: `spans` came from
// SpanUses::Take().
std::vector<double> SpanAccesses(const std::vector<SpanUse>& spans, const EvidenceTable& table,
                                 const Scores& scores);

// Tells the part of the accesses that each epoch has, record by record.
class EpochAccesses {
 public:
  EpochAccesses() = default;  // has no pages
  // `spans` has seen all epochs, and Take() is called here.
  EpochAccesses(SpanUses& spans, const EvidenceTable& table, const Scores& scores);

  // Precondition: the record was seen.
  double Of(const PageColumns& pages, std::size_t record) const;

 private:
  std::vector<PageKey> parts_;  // start of each part; ascending, disjoint
  // Values by node of a binary tree over the parts: accesses per unit of evidence of each page,
  // summed over the node's pages.
  std::vector<double> of_evidence_;
};

}  // namespace tmprof
