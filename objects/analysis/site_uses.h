// SPDX-License-Identifier: Apache-2.0
// Sums up what each allocation site had and where, from the epochs of a trace (for
// objects/analysis/object_advice.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "objects/analysis/object_map.h"
#include "objects/format/allocations.h"
#include "report/analysis/span_uses.h"

namespace tmprof {

struct SiteUse {
  double objects = 0;
  double live_objects = 0;
  double live_bytes = 0;
  double peak_bytes = 0;
  double objects_at_peak = 0;
};

// Follows objects of malloc(3) and its like. Memory from mmap(2) has pages of its own and is not
// followed.
class SiteUses : private ObjectMap::Visitor {
 public:
  // Precondition: it sees all epochs from the first on.
  void See(const EpochProfile& epoch);

  // Has the preconditions of SpanUses::Take().
  std::vector<SpanUse> TakeSpans() { return spans_.Take(); }

  const std::map<std::uint32_t, SiteUse>& sites() const { return sites_; }
  const std::map<std::uint32_t, std::vector<SourceFrame>>& frames() const { return frames_; }
  // Build IDs by path.
  const std::map<std::string, std::string>& build_ids() const { return build_ids_; }
  bool tracked() const { return tracked_; }
  // True: memory without a known object is not allocated.
  bool all_are_recorded() const { return all_are_recorded_; }
  std::uint64_t lost() const { return lost_; }

 private:
  bool Follows(const Target& /*target*/) override { return true; }
  void Begin(const Target& target, TracedObject& object) override;
  void End(const TracedObject& object, MonotonicTime end) override;
  void Share(const PageColumns& pages, std::size_t record, const TracedObject& object,
             double share) override;

  SpanUses spans_;
  std::map<std::uint32_t, SiteUse> sites_;
  std::map<std::uint32_t, std::vector<SourceFrame>> frames_;
  std::map<std::string, std::string> build_ids_;
  bool tracked_ = false;
  bool all_are_recorded_ = true;
  std::uint64_t lost_ = 0;
  ObjectMap map_{*this};
};

}  // namespace tmprof
