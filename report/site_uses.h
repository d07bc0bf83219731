// SPDX-License-Identifier: Apache-2.0
// What each allocation site had and where, from the epochs of a trace: what report/object_advice.h
// goes by.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/allocations.h"
#include "base/epoch_profile.h"
#include "base/units.h"
#include "report/object_map.h"

namespace tmprof {

struct SiteUse {
  double objects = 0;
  double live_objects = 0;
  double live_bytes = 0;
  double peak_bytes = 0;
  double objects_at_peak = 0;
};

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

// Follows what malloc(3) and its like gave out: what was mapped has pages of its own.
class SiteUses : private ObjectMap::Visitor {
 public:
  // Epochs are to be seen from the first on.
  void See(const EpochProfile& epoch);

  // Ascending and disjoint: where spans' bounds changed, each part has what is its own of every
  // span that held it. To be called once.
  std::vector<SpanUse> TakeSpans();

  const std::map<std::uint32_t, SiteUse>& sites() const { return sites_; }
  const std::map<std::uint32_t, std::vector<SourceFrame>>& frames() const { return frames_; }
  bool tracked() const { return tracked_; }
  // Whether what is not known to be allocated was not.
  bool all_are_recorded() const { return all_are_recorded_; }
  std::uint64_t lost() const { return lost_; }

 private:
  bool Follows(const Target& /*target*/) override { return true; }
  void Begin(const Target& target, TracedObject& object) override;
  void End(const TracedObject& object, MonotonicTime end) override;
  void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
             double share) override;

  struct SpanKey {
    PageKey first;
    std::uint32_t pages;
    bool operator==(const SpanKey&) const = default;
  };
  struct Hash {
    std::size_t operator()(const SpanKey& key) const {
      return std::hash<std::uint64_t>{}(
          (key.first.vpn.value() * 64 + key.first.target.value()) * 31 + key.pages);
    }
  };
  SpanUse& SpanOf(const PageColumns& pages, std::size_t record);

  std::unordered_map<SpanKey, SpanUse, Hash> spans_;
  std::map<std::uint32_t, SiteUse> sites_;
  std::map<std::uint32_t, std::vector<SourceFrame>> frames_;
  bool tracked_ = false;
  bool all_are_recorded_ = true;
  std::uint64_t lost_ = 0;
  ObjectMap map_{*this};
};

}  // namespace tmprof
