// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/arena_layout.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/units.h"
#include "objects/arena_blocks.h"

namespace tmprof {
namespace {

using Visit = std::function<void(const LiveObject& object)>;

// The order of births within one tick is unknown, so that the sites are mixed by their shares.
void VisitTick(std::vector<const LiveObject*>& born, const Visit& visit) {
  std::map<std::uint32_t, std::size_t> of_site;
  for (const LiveObject* object : born) ++of_site[object->site];
  if (of_site.size() > 1) {
    std::map<std::uint32_t, std::size_t> before;
    std::vector<std::pair<double, const LiveObject*>> order;
    for (const LiveObject* object : born) {
      const auto all = static_cast<double>(of_site[object->site]);
      order.emplace_back((static_cast<double>(before[object->site]++) + 0.5) / all, object);
    }
    std::ranges::stable_sort(order, {}, &std::pair<double, const LiveObject*>::first);
    for (std::size_t i = 0; i < born.size(); ++i) born[i] = order[i].second;
  }
  for (const LiveObject* object : born) visit(*object);
  born.clear();
}

class Parts {
 public:
  explicit Parts(double part_bytes) : part_bytes_(part_bytes) {}

  // Appends memory behind what was added before.
  void Add(double bytes, double accesses) {
    const double density = accesses / bytes;
    while (bytes > 0) {
      if (parts_.empty() || parts_.back().bytes >= part_bytes_) parts_.emplace_back();
      ArenaPart& part = parts_.back();
      const double here = std::min(bytes, part_bytes_ - part.bytes);
      part.bytes = here < bytes ? part_bytes_ : part.bytes + here;
      part.accesses += density * here;
      bytes -= here;
    }
  }

  std::vector<ArenaPart> Take() { return std::move(parts_); }

 private:
  double part_bytes_;
  std::vector<ArenaPart> parts_;
};

}  // namespace

std::vector<ArenaPart> LayOut(
    const std::vector<ObjectProfiles::CountedSites>& profiles,
    const std::function<bool(std::size_t profile, std::uint32_t site)>& is_there, double pages) {
  const auto visit_all = [&](const Visit& visit) {
    for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
      std::vector<const LiveObject*> born;
      for (const LiveObject& object : profiles[profile].live) {
        if (object.bytes > kMostPlacedBytes || !is_there(profile, object.site)) continue;
        if (!born.empty() && born.back()->birth != object.birth) VisitTick(born, visit);
        born.push_back(&object);
      }
      VisitTick(born, visit);
    }
  };
  const auto block_bytes = [](const LiveObject& object) {
    return static_cast<double>(ArenaBlockBytes(object.bytes));
  };
  double bytes = 0;
  visit_all([&](const LiveObject& object) { bytes += block_bytes(object); });
  Parts parts(std::max(static_cast<double>(kBasePageBytes), bytes / pages));
  visit_all([&](const LiveObject& object) {
    parts.Add(block_bytes(object), static_cast<double>(object.accesses));
  });
  return parts.Take();
}

}  // namespace tmprof
