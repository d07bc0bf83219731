// SPDX-License-Identifier: Apache-2.0
// Tells how evenly the lines of pages are used: how often the first two samples of a page are of
// one of its lines (base/sample_pairs.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/units.h"

namespace tmprof {

class LinePairs {
 public:
  // Further pages do not count before processes have ended. A page takes some 50 bytes.
  static constexpr std::size_t kMostPages = std::size_t{1} << 16;

  void Add(Pid process, std::uint64_t address) {
    Pages& pages = pages_[process];
    const Vpn at = VpnOfAddress(address);
    const auto line = static_cast<std::uint8_t>(address >> kLineShift & kLineMask);
    const auto found = pages.find(at);
    if (found == pages.end()) {
      if (page_count_ >= kMostPages) return;
      ++page_count_;
      pages.emplace(at, Page{.line = line});
      return;
    }
    Page& page = found->second;
    if (std::exchange(page.is_counted, true)) return;
    ++counts_.pairs;
    counts_.of_one_line += page.line == line;
  }

  // Pages of a process that has ended are no pages of one that gets its number.
  void Forget(Pid process) {
    const auto found = pages_.find(process);
    if (found == pages_.end()) return;
    page_count_ -= found->second.size();
    pages_.erase(found);
  }

  struct Counts {
    std::uint64_t pairs = 0;
    std::uint64_t of_one_line = 0;
  };
  // Returns the counts of the epoch that ends.
  Counts Take() { return std::exchange(counts_, {}); }

 private:
  static constexpr int kLineShift = 6;
  static constexpr std::uint64_t kLineMask = 63;

  struct Page {
    std::uint8_t line = 0;  // line of the first sample
    bool is_counted = false;
  };
  using Pages = std::unordered_map<Vpn, Page>;

  std::unordered_map<Pid, Pages> pages_;
  std::size_t page_count_ = 0;  // pages of all processes
  Counts counts_;
};

}  // namespace tmprof
