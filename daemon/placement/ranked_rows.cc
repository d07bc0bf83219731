// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/ranked_rows.h"

#include <functional>
#include <optional>

#include "base/merge_runs.h"

namespace tmprof {

RankedRows::Part RankedRows::Part::Of(PageKey first, PageCount some) const {
  const double share = static_cast<double>(some.value()) / static_cast<double>(pages.value());
  return {first, some, score * share, samples * share, looked_at};
}

void RankedRows::Take(const EvidenceTable& table, const Scores& scores, const PageOwners& owners,
                      std::span<const RowlessScore> rowless) {
  table_ = &table;
  scores_ = &scores;
  replaced_.clear();
  parts_.clear();
  merged_.clear();
  if (!owners.SharesAny() && rowless.empty()) return;
  replaced_.resize(table.size());
  std::optional<TargetId> target;
  bool maps_joint = false;
  for (std::size_t row = 0; row < table.size(); ++row) {
    const PageKey key = table.key[row];
    if (target != key.target) maps_joint = owners.MapsJoint(*(target = key.target));
    if (!maps_joint) continue;
    const Part whole{.key = key,
                     .pages = PageCount(table.span_pages[row]),
                     .score = scores[row],
                     .samples = table.evidence[row].samples(),
                     .looked_at = table.evidence[row].looks > 0};
    owners.ForEachName({key, whole.pages}, [&](PageKey name, PageKey, PageCount pages) {
      replaced_[row] = name != key || pages != whole.pages;
      if (replaced_[row]) parts_.push_back(whole.Of(name, pages));
    });
  }
  for (const RowlessScore& more : rowless) {
    const Part whole{
        .key = more.key, .pages = more.pages, .score = more.score, .samples = 0, .looked_at = true};
    owners.ForEachName({more.key, more.pages}, [&](PageKey name, PageKey, PageCount pages) {
      parts_.push_back(whole.Of(name, pages));
    });
  }
  MergeRuns(parts_, {}, &Part::key);
  ForEachStretch(std::span<const Part>(parts_),
                 [&](PageKey first, PageCount pages, std::span<const Part> open) {
                   Part sum{first, pages, 0, 0, false};
                   for (const Part& part : open) {
                     const Part share = part.Of(first, pages);
                     sum.score += share.score;
                     sum.samples += share.samples;
                     sum.looked_at |= share.looked_at;
                   }
                   owners.ForEachAddress({first, pages}, [&](PageKey address, PageCount owned) {
                     merged_.push_back(sum.Of(address, owned));
                   });
                 });
  MergeRuns(merged_, {}, &Part::key);
}

RankedRows::Cursor::Cursor(const RankedRows& rows, TargetId target)
    : rows_(&rows), target_(target) {
  const PageKey first{target, Vpn(0)};
  const auto place_in = [&first](const auto& sorted, auto key) {
    return static_cast<std::size_t>(std::ranges::lower_bound(sorted, first, {}, key) -
                                    sorted.begin());
  };
  in_table_ = rows.table_ == nullptr ? 0 : place_in(rows.table_->key, std::identity());
  in_merged_ = place_in(rows.merged_, &Part::key);
  Settle();
}

void RankedRows::Cursor::Next() {
  ++(is_in_table_ ? in_table_ : in_merged_);
  Settle();
}

void RankedRows::Cursor::Settle() {
  const EvidenceTable* table = rows_->table_;
  const std::vector<Part>& merged = rows_->merged_;
  if (!rows_->replaced_.empty()) {
    while (in_table_ < table->size() && rows_->replaced_[in_table_] &&
           table->key[in_table_].target == target_) {
      ++in_table_;
    }
  }
  is_in_table_ =
      table != nullptr && in_table_ < table->size() && table->key[in_table_].target == target_;
  is_in_merged_ = in_merged_ < merged.size() && merged[in_merged_].key.target == target_;
  if (is_in_table_ && is_in_merged_) {
    is_in_table_ = table->key[in_table_] < merged[in_merged_].key;
    is_in_merged_ = !is_in_table_;
  }
  if (is_in_table_) {
    const Vpn first = table->key[in_table_].vpn;
    const Evidence& evidence = table->evidence[in_table_];
    row_ = {.pages = {first, first + PageCount(table->span_pages[in_table_])},
            .score = (*rows_->scores_)[in_table_],
            .samples = evidence.samples(),
            .looked_at = evidence.looks > 0};
  } else if (is_in_merged_) {
    const Part& part = merged[in_merged_];
    row_ = {.pages = {part.key.vpn, part.key.vpn + part.pages},
            .score = part.score,
            .samples = part.samples,
            .looked_at = part.looked_at};
  }
}

}  // namespace tmprof
