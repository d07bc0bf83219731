// SPDX-License-Identifier: Apache-2.0

#include "profiler/frame_comparison.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace tmprof {
namespace {

constexpr int kRest = 500;  // times what the last comparison took

// The records of a target.
struct Records {
  const Target* target;
  std::size_t next;
  std::size_t end;
};

// Sets of processes that are connected by parents. PID 1 adopts strangers.
class Families {
 public:
  void Join(Pid process, std::optional<Pid> parent) {
    const Pid root = RootOf(process);
    if (parent && *parent > Pid(1)) root_[RootOf(*parent)] = root;
  }
  Pid RootOf(Pid process) {
    while (true) {
      Pid& above = root_.try_emplace(process, process).first->second;
      if (above == process) return process;
      above = root_.at(above);  // shortens the way
      process = above;
    }
  }

 private:
  std::map<Pid, Pid> root_;  // or a process on the way to it
};

bool IsPrivate(const Target& target, VpnRange pages) {
  const Mapping* mapping = FindMapping(target, pages.start);
  return mapping != nullptr && mapping->kind != MappingKind::kShared &&
         mapping->kind != MappingKind::kSpecial && pages.end <= mapping->range.end;
}

// Returns the records of targets with relatives, by family.
std::vector<std::vector<Records>> RecordsByFamily(const EpochProfile& profile,
                                                  const FrameComparison::ParentOf& parent_of) {
  Families families;
  for (const Target& target : profile.targets) families.Join(target.pid, parent_of(target.id));
  std::map<Pid, std::vector<Records>> by_family;
  const PageColumns& pages = profile.pages;
  for (const Target& target : profile.targets) {
    const auto records = std::ranges::equal_range(pages.target, target.id);
    if (records.empty() || target.mappings.empty()) continue;
    const auto first = static_cast<std::size_t>(records.begin() - pages.target.begin());
    by_family[families.RootOf(target.pid)].push_back(
        {.target = &target, .next = first, .end = first + records.size()});
  }
  std::vector<std::vector<Records>> with_relatives;
  for (auto& [root, records] : by_family) {
    if (records.size() > 1) with_relatives.push_back(std::move(records));
  }
  return with_relatives;
}

// Joins the records of a family at each address.
void JoinEqual(const PageColumns& pages, std::span<const std::optional<SeenFrame>> frames,
               std::vector<Records> family, std::vector<std::uint32_t>& same_as) {
  struct AtAddress {
    std::uint64_t frame;
    std::uint32_t span_pages;
    std::uint32_t record;
    const Target* target;
    auto Key() const { return std::tuple(frame, span_pages, record); }
  };
  std::vector<AtAddress> alike;
  const auto is_later = [&](std::size_t a, std::size_t b) {
    return pages.vpn[family[a].next] > pages.vpn[family[b].next];
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> queue(is_later);
  for (std::size_t i = 0; i < family.size(); ++i) queue.push(i);
  while (!queue.empty()) {
    const Vpn at = pages.vpn[family[queue.top()].next];
    alike.clear();
    while (!queue.empty() && pages.vpn[family[queue.top()].next] == at) {
      const std::size_t i = queue.top();
      queue.pop();
      Records& records = family[i];
      const auto record = static_cast<std::uint32_t>(records.next++);
      if (frames[record] && frames[record]->is_shareable) {
        alike.push_back({frames[record]->number, pages.span_pages[record], record, records.target});
      }
      if (records.next < records.end) queue.push(i);
    }
    if (alike.size() < 2) continue;
    std::ranges::sort(alike, {}, &AtAddress::Key);
    for (std::size_t first = 0; first < alike.size();) {
      const auto& [frame, span_pages, record, target] = alike[first];
      std::size_t end = first + 1;
      while (end < alike.size() && alike[end].frame == frame && alike[end].span_pages == span_pages)
        ++end;
      const VpnRange range{at, at + PageCount(span_pages)};
      if (end > first + 1 && IsPrivate(*target, range)) {
        for (std::size_t other = first + 1; other < end; ++other) {
          if (IsPrivate(*alike[other].target, range)) same_as[alike[other].record] = record;
        }
      }
      first = end;
    }
  }
}

}  // namespace

void FrameComparison::Compare(EpochProfile& profile,
                              std::span<const std::optional<SeenFrame>> frames,
                              const ParentOf& parent_of, const Clock& clock) {
  const MonotonicTime start = clock.Now();
  const PageColumns& pages = profile.pages;
  if (start < next_ || pages.empty() || pages.target.front() == pages.target.back()) return;
  const std::vector<std::vector<Records>> families = RecordsByFamily(profile, parent_of);
  bool any_frame = false;
  for (const std::vector<Records>& family : families) {
    for (const Records& records : family) {
      for (std::size_t i = records.next; i < records.end; ++i) {
        // Regions have looks, but no frame of their own: nothing shows these pages apart.
        if (pages.looks[i] > 0 && !frames[i]) return;
        any_frame |= frames[i].has_value();
      }
    }
  }
  if (!any_frame) return;
  std::vector<std::uint32_t> same_as(pages.size());
  for (std::uint32_t i = 0; i < same_as.size(); ++i) same_as[i] = i;
  for (const std::vector<Records>& family : families) JoinEqual(pages, frames, family, same_as);
  profile.pages.same_as = std::move(same_as);
  const MonotonicTime end = clock.Now();
  next_ = end + kRest * (end - start);
}

}  // namespace tmprof
