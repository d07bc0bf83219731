// SPDX-License-Identifier: Apache-2.0
// The replay's definitions written down a second time, with ordered maps and without regard to
// speed. `sum` model, each epoch by itself. The oracle of the tests and the baseline of
// bench/replay.cc.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/ratio.h"

namespace tmprof {

enum class NaiveCount { kReferences, kSamples, kCombined };

struct NaiveResult {
  double weight_hit = 0;
  double weight_total = 0;
  std::uint64_t capacity_pages = 0;
  std::uint64_t moved_pages = 0;
};

inline NaiveResult NaiveReplay(const std::vector<EpochProfile>& epochs, std::string_view policy,
                               NaiveCount rank, NaiveCount judge, Ratio ratio) {
  const auto count = [](const PageRecord& r, NaiveCount what) {
    const double samples = static_cast<double>(r.load_samples) + r.store_samples;
    return what == NaiveCount::kReferences ? r.references
           : what == NaiveCount::kSamples  ? samples
                                           : r.references + samples;
  };
  const auto pages_of = [](const PageRecord& r) {
    std::vector<PageKey> pages;
    for (std::uint64_t i = 0; i < r.span.value(); ++i) {
      pages.push_back({r.key.target, r.key.vpn + PageCount(i)});
    }
    return pages;
  };

  std::set<PageKey> footprint;
  for (const EpochProfile& epoch : epochs) {
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      const PageRecord r = RecordAt(epoch.pages, i);
      if (count(r, NaiveCount::kCombined) > 0) {
        for (const PageKey page : pages_of(r)) footprint.insert(page);
      }
    }
  }
  NaiveResult result;
  result.capacity_pages =
      std::max<std::uint64_t>(1, footprint.size() * ratio.numerator / ratio.denominator);

  std::map<PageKey, PageRecord> past;
  std::set<PageKey> appeared;
  std::set<PageKey> tier1;
  for (const EpochProfile& epoch : epochs) {
    std::map<PageKey, PageRecord> present;
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      const PageRecord r = RecordAt(epoch.pages, i);
      if (std::ranges::all_of(pages_of(r), [&](PageKey p) { return footprint.contains(p); })) {
        present.emplace(r.key, r);
      }
    }
    const std::map<PageKey, PageRecord> known = policy == "oracle" ? present
                                                : policy == "history"
                                                    ? past
                                                    : std::map<PageKey, PageRecord>();

    // Best first: density, then in tier 1, then key.
    std::vector<std::tuple<double, bool, PageKey>> candidates;
    for (const auto& [key, r] : known) {
      if (count(r, rank) == 0) continue;
      const bool in_tier1 =
          std::ranges::all_of(pages_of(r), [&](PageKey p) { return tier1.contains(p); });
      candidates.emplace_back(-count(r, rank) / static_cast<double>(r.span.value()), !in_tier1,
                              key);
    }
    std::ranges::sort(candidates);
    std::set<PageKey> wanted;
    for (const auto& [density, elsewhere, key] : candidates) {
      const std::vector<PageKey> pages = pages_of(known.at(key));
      if (wanted.size() + pages.size() <= result.capacity_pages) {
        wanted.insert(pages.begin(), pages.end());
      }
    }

    // Victims, worst first: pages nobody knows, then spans by descending place.
    std::vector<std::vector<PageKey>> victims;
    std::set<PageKey> known_pages;
    std::vector<std::tuple<double, PageKey>> ranked;
    for (const auto& [key, r] : known) {
      for (const PageKey page : pages_of(r)) known_pages.insert(page);
      ranked.emplace_back(-count(r, rank) / static_cast<double>(r.span.value()), key);
    }
    for (auto page = tier1.rbegin(); page != tier1.rend(); ++page) {
      if (!known_pages.contains(*page)) victims.push_back({*page});
    }
    std::ranges::sort(ranked, std::greater());
    for (const auto& [density, key] : ranked) victims.push_back(pages_of(known.at(key)));

    std::set<PageKey> coming;
    std::ranges::set_difference(wanted, tier1, std::inserter(coming, coming.end()));
    for (const auto& span : victims) {
      if (tier1.size() + coming.size() <= result.capacity_pages) break;
      for (const PageKey page : span) {
        if (!wanted.contains(page)) result.moved_pages += tier1.erase(page);
      }
    }
    for (const PageKey page : coming) {
      if (appeared.contains(page)) ++result.moved_pages;
      tier1.insert(page);
    }

    for (const auto& [key, r] : present) {
      std::vector<PageKey> fresh;
      for (const PageKey page : pages_of(r)) {
        if (!appeared.contains(page)) fresh.push_back(page);
      }
      const auto missing =
          std::ranges::count_if(fresh, [&](PageKey page) { return !tier1.contains(page); });
      if (tier1.size() + static_cast<std::size_t>(missing) <= result.capacity_pages) {
        tier1.insert(fresh.begin(), fresh.end());
      }
      appeared.insert(fresh.begin(), fresh.end());
    }

    for (const auto& [key, r] : present) {
      result.weight_total += count(r, judge);
      for (const PageKey page : pages_of(r)) {
        if (tier1.contains(page)) {
          result.weight_hit += count(r, judge) / static_cast<double>(r.span.value());
        }
      }
    }
    past = std::move(present);
  }
  return result;
}

}  // namespace tmprof
