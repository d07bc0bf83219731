// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/candidates.h"

#include <algorithm>

namespace tmprof {
namespace {

constexpr std::uint64_t kLargestPiece = 512;

// Of the leaf or piece of such a size, at a multiple of it, that `vpn` lies in.
Vpn EndOfPiece(Vpn vpn, std::uint64_t pages) { return Vpn((vpn.value() / pages + 1) * pages); }

std::size_t FirstRow(const EvidenceTable& table, TargetId target) {
  return static_cast<std::size_t>(std::ranges::lower_bound(table.key, PageKey{target, Vpn(0)}) -
                                  table.key.begin());
}

// The scored rows of one target, handed out piece by piece.
class ScoredRows {
 public:
  ScoredRows(const EvidenceTable& table, const Scores& scores, TargetId target)
      : table_(&table), scores_(&scores), target_(target) {
    row_ = FirstRow(table, target);
    Settle();
  }

  bool AtEnd() const { return row_ == table_->size() || table_->key[row_].target != target_; }
  Vpn start() const { return start_; }
  Vpn end() const { return table_->key[row_].vpn + PageCount(table_->span_pages[row_]); }

  // The score of what lies before `until`, which is then over.
  double TakeUntil(Vpn until) {
    double score = 0;
    while (!AtEnd() && start_ < until) {
      const Vpn upto = std::min(until, end());
      score += (*scores_)[row_] * static_cast<double>((upto - start_).value()) /
               static_cast<double>(table_->span_pages[row_]);
      start_ = upto;
      if (start_ == end()) {
        ++row_;
        Settle();
      }
    }
    return score;
  }

 private:
  void Settle() {
    while (!AtEnd() && !((*scores_)[row_] > 0)) ++row_;
    if (!AtEnd()) start_ = table_->key[row_].vpn;
  }

  const EvidenceTable* table_;
  const Scores* scores_;
  TargetId target_;
  std::size_t row_ = 0;
  Vpn start_;
};

// Which pages of one target have a row at all, scored or not; asked about in ascending order.
class KnownPages {
 public:
  KnownPages(const EvidenceTable& table, TargetId target)
      : table_(&table), target_(target), row_(FirstRow(table, target)) {}

  struct Stretch {
    bool known;
    Vpn end;
  };
  // From `vpn` on, all alike.
  Stretch At(Vpn vpn) {
    while (IsOfTarget() && End() <= vpn) ++row_;
    if (!IsOfTarget()) return {false, Vpn(UINT64_MAX)};
    const Vpn start = table_->key[row_].vpn;
    return start <= vpn ? Stretch{true, End()} : Stretch{false, start};
  }

 private:
  bool IsOfTarget() const { return row_ < table_->size() && table_->key[row_].target == target_; }
  Vpn End() const { return table_->key[row_].vpn + PageCount(table_->span_pages[row_]); }

  const EvidenceTable* table_;
  TargetId target_;
  std::size_t row_;
};

// Of a page that nobody has looked at: by those that were looked at and not sampled either, if
// there are any. 0 where nobody looks at pages: then it is just one that was not sampled.
double SupposedScore(const EvidenceTable& table, const Scores& scores, TargetId target) {
  struct Sum {
    double score = 0;
    double pages = 0;
    double mean() const { return pages > 0 ? score / pages : 0; }
  };
  Sum looked_at;
  Sum unsampled;
  for (std::size_t row = FirstRow(table, target);
       row < table.size() && table.key[row].target == target; ++row) {
    const Evidence& evidence = table.evidence[row];
    if (!(evidence.looks > 0)) continue;
    for (Sum* sum : {&looked_at, &unsampled}) {
      if (sum == &unsampled && evidence.samples() > 0) continue;
      sum->score += scores[row];
      sum->pages += table.span_pages[row];
    }
  }
  return unsampled.pages > 0 ? unsampled.mean() : looked_at.mean();
}

class Finder {
 public:
  Finder(TargetId target, const EvidenceTable& table, const Scores& scores, const Tiers& tiers,
         Candidates& found)
      : target_(target),
        rows_(table, scores, target),
        known_(table, target),
        supposed_score_(SupposedScore(table, scores, target)),
        tiers_(&tiers),
        found_(&found) {}

  void Find(const PlacementMap::Runs& runs) {
    for (const auto& [start, run] : runs) {
      TakeUnplaced(run.pages.start);
      if (run.leaf == PageCount(1)) {
        TakeBasePages(run);
      } else {
        TakeHugePages(run);
      }
    }
    TakeUnplaced(std::nullopt);
  }

 private:
  void Add(VpnRange pages, double score, std::optional<NodeId> node, PageCount leaf) {
    found_->key.push_back({target_, pages.start});
    found_->span_pages.push_back(static_cast<std::uint32_t>(pages.size().value()));
    found_->score.push_back(score);
    found_->node.push_back(node);
    found_->leaf.push_back(leaf);
    found_->supposed.push_back(0);
  }

  void AddUnknown(VpnRange pages, NodeId node, PageCount leaf) {
    Add(pages, supposed_score_ * static_cast<double>(pages.size().value()), node, leaf);
    found_->supposed.back() = supposed_score_ > 0 ? 1 : 0;
  }

  void TakeUnplaced(std::optional<Vpn> until) {
    while (!rows_.AtEnd() && (!until || rows_.start() < *until)) {
      const Vpn start = rows_.start();
      const Vpn end = until ? std::min(*until, rows_.end()) : rows_.end();
      Add({start, end}, rows_.TakeUntil(end), std::nullopt, end - start);
    }
  }

  void TakeBasePages(const PlacedRun& run) {
    Vpn done = run.pages.start;
    while (done < run.pages.end) {
      if (rows_.AtEnd() || rows_.start() >= run.pages.end) {
        AddUnscoredPieces({done, run.pages.end}, run.node);
        return;
      }
      const Vpn start = rows_.start();
      const Vpn end = std::min(rows_.end(), run.pages.end);
      AddUnscoredPieces({done, start}, run.node);
      Add({start, end}, rows_.TakeUntil(end), run.node, run.leaf);
      done = end;
    }
  }

  void TakeHugePages(const PlacedRun& run) {
    for (Vpn leaf = run.pages.start; leaf < run.pages.end;) {
      const Vpn next =
          std::min(EndOfPiece(leaf, run.leaf.value()), run.pages.end);  // cut where unmapped
      const double score = rows_.TakeUntil(next);
      if (score > 0) {
        Add({leaf, next}, score, run.node, next - leaf);
      } else {
        AddUnscored({leaf, next}, run.node, next - leaf);
      }
      leaf = next;
    }
  }

  void AddUnscored(VpnRange pages, NodeId node, PageCount leaf) {
    if (tiers_->TierOf(node) != kTier1) return;
    if (known_.At(pages.start).known) {
      Add(pages, 0, node, leaf);
    } else {
      AddUnknown(pages, node, leaf);
    }
  }

  // Pieces end at multiples of their size, so that they stay the same as their neighbours change.
  void AddUnscoredPieces(VpnRange pages, NodeId node) {
    if (tiers_->TierOf(node) != kTier1) return;
    for (Vpn start = pages.start; start < pages.end;) {
      const Vpn end = std::min({EndOfPiece(start, kLargestPiece), pages.end, known_.At(start).end});
      AddUnscored({start, end}, node, PageCount(1));
      start = end;
    }
  }

  TargetId target_;
  ScoredRows rows_;
  KnownPages known_;
  double supposed_score_;
  const Tiers* tiers_;
  Candidates* found_;
};

}  // namespace

void FindCandidates(const EvidenceTable& table, const Scores& scores, const PlacementMap& map,
                    std::span<const TargetId> targets, const Tiers& tiers, Candidates& found) {
  found.key.clear();
  found.span_pages.clear();
  found.score.clear();
  found.node.clear();
  found.leaf.clear();
  found.supposed.clear();
  for (const TargetId target : targets) {
    Finder(target, table, scores, tiers, found).Find(map.RunsOf(target));
  }
}

}  // namespace tmprof
