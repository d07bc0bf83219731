// SPDX-License-Identifier: Apache-2.0

#include "profiler/page_set.h"

#include <algorithm>
#include <bit>

namespace tmprof {

void PageSet::Add(PageKey first, PageCount pages) {
  std::uint64_t at = first.vpn.value();
  const std::uint64_t end = at + pages.value();
  while (at < end) {
    const BlockKey key{first.target, at / kBlockPages};
    if (last_ == blocks_.end() || last_->first != key) last_ = blocks_.try_emplace(key).first;
    Block& block = last_->second;
    const std::uint64_t block_end = std::min(end, (at / kBlockPages + 1) * kBlockPages);
    while (at < block_end) {
      const std::uint64_t bit = at % 64;
      const std::uint64_t bits = std::min(64 - bit, block_end - at);
      const std::uint64_t ones = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      block[at % kBlockPages / 64] |= ones << bit;
      at += bits;
    }
  }
}

PageCount PageSet::size() const {
  PageCount pages;
  for (const auto& [target, its] : SizeByTarget()) pages += its;
  return pages;
}

std::map<TargetId, PageCount> PageSet::SizeByTarget() const {
  std::map<TargetId, PageCount> sizes;
  for (const auto& [start, block] : blocks_) {
    PageCount& pages = sizes[start.first];
    for (const std::uint64_t word : block)
      pages += PageCount(static_cast<std::uint64_t>(std::popcount(word)));
  }
  return sizes;
}

void JoinedSpans::Add(PageKey first, PageCount pages) {
  if (pages_.value() > 0 && first_.target == first.target && first_.vpn + pages_ == first.vpn) {
    pages_ += pages;
    return;
  }
  Flush();
  first_ = first;
  pages_ = pages;
}

void JoinedSpans::Flush() {
  if (pages_.value() > 0) into_.Add(first_, pages_);
}

bool AnySourceSaw(const PageColumns& pages, std::size_t i) {
  return pages.references[i] > 0 || pages.load_samples[i] > 0 || pages.store_samples[i] > 0 ||
         (pages.accesses && (pages.accesses->loads[i] > 0 || pages.accesses->stores[i] > 0));
}

}  // namespace tmprof
