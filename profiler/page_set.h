// SPDX-License-Identifier: Apache-2.0
// Sets of the pages that a recording saw accessed or looked at.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/epoch_profile.h"

namespace tmprof {

// A set of base pages: 64 bytes for each 2 MiB that has one.
class PageSet {
 public:
  PageSet() = default;
  PageSet(const PageSet&) = delete;
  PageSet& operator=(const PageSet&) = delete;

  void Add(PageKey first, PageCount pages);
  PageCount size() const;
  std::map<TargetId, PageCount> SizeByTarget() const;

 private:
  static constexpr std::uint64_t kBlockPages = 512;
  using Block = std::array<std::uint64_t, kBlockPages / 64>;
  using BlockKey = std::pair<TargetId, std::uint64_t>;  // and first page / kBlockPages

  std::map<BlockKey, Block> blocks_;
  std::map<BlockKey, Block>::iterator last_ = blocks_.end();  // used: pages come in order
};

// Adds spans to a set. Spans that adjoin become one: most of an epoch's records do. The last one is
// added with the end of this object.
class JoinedSpans {
 public:
  explicit JoinedSpans(PageSet& into) : into_(into) {}
  JoinedSpans(const JoinedSpans&) = delete;
  JoinedSpans& operator=(const JoinedSpans&) = delete;
  ~JoinedSpans() { Flush(); }

  void Add(PageKey first, PageCount pages);

 private:
  void Flush();

  PageSet& into_;
  PageKey first_{};
  PageCount pages_{0};
};

// True: some source saw an access to the pages of record `i`.
bool AnySourceSaw(const PageColumns& pages, std::size_t i);

}  // namespace tmprof
