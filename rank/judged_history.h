// SPDX-License-Identifier: Apache-2.0
// The hit rate of pages that were chosen before an epoch, judged by the accessed bits of that epoch
// alone. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "rank/chosen_spans.h"
#include "rank/evidence.h"
#include "rank/hit_rates.h"
#include "rank/rate_fit.h"
#include "rank/rate_model.h"
#include "rank/target_times.h"
#include "rank/unknown_pages.h"

namespace tmprof {

class JudgedHistory {
 public:
  explicit JudgedHistory(std::size_t choices) : choices_(choices) {}

  // `epoch` is the evidence of these visits in an epoch alone, and `times` its CPU times. `chosen`
  // was chosen before the epoch. Of kAll, blocks are left out with pages that an older visit had
  // already found, because such a visit still watches its slow pages alone.
  void Add(const EvidenceTable& epoch, Visits visits, const TargetTimes& times,
           const ChosenSpans& chosen);

  // Returns one rate for each choice; nullopt: no accessed bit was read after a choice. Pages that
  // were not chosen, including those of `unknown`, are assumed to be as hot as those of them that
  // were looked at.
  std::vector<std::optional<HitRate>> Estimate(std::span<const UnknownPages> unknown = {}) const;

 private:
  // Similar pages of one group.
  struct Entry {
    PageKey group;  // its first page
    std::uint32_t kind;
    std::uint8_t choice;
    double pages;     // over all visits
    double weight;    // of all visits
    double weighted;  // pages x weight, over all visits
  };
  struct TargetPages {
    TargetId target;
    double cpu_seconds = 0;
    double pages = 0;                    // the most that were known
    std::vector<double> chosen_seconds;  // pages x CPU time, by choice
  };

  // Visits of a page in one choice, and fast tries after them.
  struct Visited {
    RateEvidence evidence;
    std::uint8_t choice;
    double visits;
    double weight;  // CPU time of the target in each epoch, for each page judged in it
  };

  void Book(PageKey key, const Visited& visited);
  void Compact();
  TargetPages& At(TargetId target);

  std::size_t choices_;
  RateKinds kinds_;
  // Pages with their latest choice, which are not in entries_ yet. One entry of all visits shows a
  // rate better than one of each: few visits are followed by fast tries, which show the rates of
  // pages that each first read finds.
  std::map<PageKey, Visited> latest_;
  std::vector<Entry> entries_;
  std::size_t compact_at_ = std::size_t{1} << 20;
  std::uint64_t group_pages_ = 16;    // until there are many groups
  std::vector<TargetPages> targets_;  // ascending
  double squared_weights_ = 0;        // over all looks in entries_
  double pages_judged_ = 0;
  double pages_begun_before_ = 0;  // pages of probes that began before their epoch
};

}  // namespace tmprof
