// SPDX-License-Identifier: Apache-2.0
// Tells how evenly the lines of pages are used: how often the first two samples of a page are of one
// of its lines (base/sample_pairs.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "base/units.h"

namespace tmprof {

class LinePairs {
 public:
  // When there are more, or after so many epochs, all pages are forgotten. A page takes some 50
  // bytes.
  static constexpr std::size_t kMostPages = std::size_t{1} << 16;
  static constexpr std::uint32_t kMostEpochs = 600;

  void Add(Pid process, std::uint64_t address) {
    if (pages_.size() >= kMostPages) pages_.clear();
    const Place place{process, VpnOfAddress(address)};
    const auto line = static_cast<std::uint8_t>(address >> kLineShift & kLineMask);
    const auto [found, is_new] = pages_.try_emplace(place, Page{.line = line});
    Page& page = found->second;
    if (is_new || page.is_counted) return;
    page.is_counted = true;
    ++counts_.pairs;
    counts_.of_one_line += page.line == line;
  }

  struct Counts {
    std::uint64_t pairs = 0;
    std::uint64_t of_one_line = 0;
  };
  // Returns those of the epoch that ends.
  Counts Take() {
    if (++epochs_ % kMostEpochs == 0) pages_.clear();
    return std::exchange(counts_, {});
  }

 private:
  static constexpr int kLineShift = 6;
  static constexpr std::uint64_t kLineMask = 63;

  using Place = std::pair<Pid, Vpn>;
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      // Pages of a process lie side by side; its number moves them apart from those of others.
      return std::hash<Vpn>()(place.second) ^ std::hash<Pid>()(place.first) << 40;
    }
  };
  struct Page {
    std::uint8_t line = 0;  // of the first sample
    bool is_counted = false;
  };

  std::unordered_map<Place, Page, PlaceHash> pages_;
  Counts counts_;
  std::uint32_t epochs_ = 0;
};

}  // namespace tmprof
