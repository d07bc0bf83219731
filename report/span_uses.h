// SPDX-License-Identifier: Apache-2.0
// What spans of pages held over the epochs of a trace, and which of its accesses are theirs: the
// one definition by which views of objects and advice on them share out accesses.
//
// Accesses are estimated over the whole trace (rank/total_ranker.h). An epoch has the part of a
// span's that its evidence in that epoch is of all its evidence; who held the span then has its
// share of that.

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

// Of a page record, in what part its epoch is one of those in which its pages were accessed. Above
// 0: epochs in which nothing was seen count where there are no others.
double EvidenceOf(const PageColumns& pages, std::size_t record);

struct SiteShare {
  std::uint32_t site = 0;      // of the trace; then its place in the advice
  double recorded = 0;         // of the objects that were recorded
  double with_unrecorded = 0;  // and those that they stand for, which lie elsewhere
};

void AddTo(std::vector<SiteShare>& shares, const SiteShare& added);

// What a span of pages held, on average over the epochs, each by its evidence.
struct SpanUse {
  TargetId target;
  VpnRange pages;
  double weight = 0;
  std::vector<SiteShare> shares;  // ascending by site; sums, to be divided by the weight

  double page_count() const { return static_cast<double>(pages.size().value()); }
};

class SpanUses {
 public:
  // Adds the evidence of all of the epoch's records.
  void See(const EpochProfile& epoch);

  // Of the record's span.
  SpanUse& Of(const PageColumns& pages, std::size_t record);

  // Ascending and disjoint: where spans' bounds changed, each part has what is its own of every
  // span that held it. To be called once.
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

// Of each span, what rows of the table have there. Precondition: spans are as SpanUses::Take()
// gives them.
std::vector<double> SpanAccesses(const std::vector<SpanUse>& spans, const EvidenceTable& table,
                                 const Scores& scores);

// What each epoch has of the accesses, record by record.
class EpochAccesses {
 public:
  EpochAccesses() = default;  // of no page
  // Of all epochs that `spans` saw.
  EpochAccesses(SpanUses& spans, const EvidenceTable& table, const Scores& scores);

  // Of one of the records that were seen.
  double Of(const PageColumns& pages, std::size_t record) const;

 private:
  std::vector<PageKey> parts_;  // where each begins; ascending and disjoint
  // By node of a tree over the parts: accesses for a unit of evidence of each of its pages, added
  // up over its pages.
  std::vector<double> of_evidence_;
};

}  // namespace tmprof
