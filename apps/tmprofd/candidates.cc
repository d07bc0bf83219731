// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/candidates.h"

#include <algorithm>

namespace tmprof {
namespace {

constexpr std::uint64_t kLargestPiece = 512;

// Of the leaf or piece of such a size, at a multiple of it, that `vpn` lies in.
Vpn EndOfPiece(Vpn vpn, std::uint64_t pages) { return Vpn((vpn.value() / pages + 1) * pages); }

// The scored rows of one target, handed out piece by piece.
class ScoredRows {
 public:
  ScoredRows(const EvidenceTable& table, const Scores& scores, TargetId target)
      : table_(&table), scores_(&scores), target_(target) {
    row_ = static_cast<std::size_t>(std::ranges::lower_bound(table.key, PageKey{target, Vpn(0)}) -
                                    table.key.begin());
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

class Finder {
 public:
  Finder(TargetId target, ScoredRows rows, const Tiers& tiers, Candidates& found)
      : target_(target), rows_(rows), tiers_(&tiers), found_(&found) {}

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
        AddUnscored({done, run.pages.end}, run.node);
        return;
      }
      const Vpn start = rows_.start();
      const Vpn end = std::min(rows_.end(), run.pages.end);
      AddUnscored({done, start}, run.node);
      Add({start, end}, rows_.TakeUntil(end), run.node, run.leaf);
      done = end;
    }
  }

  void TakeHugePages(const PlacedRun& run) {
    for (Vpn leaf = run.pages.start; leaf < run.pages.end;) {
      const Vpn next =
          std::min(EndOfPiece(leaf, run.leaf.value()), run.pages.end);  // cut where unmapped
      const double score = rows_.TakeUntil(next);
      if (score > 0 || tiers_->TierOf(run.node) == kTier1)
        Add({leaf, next}, score, run.node, next - leaf);
      leaf = next;
    }
  }

  // Pieces end at multiples of their size, so that they stay the same as their neighbours change.
  void AddUnscored(VpnRange pages, NodeId node) {
    if (tiers_->TierOf(node) != kTier1) return;
    for (Vpn start = pages.start; start < pages.end;) {
      const Vpn end = std::min(EndOfPiece(start, kLargestPiece), pages.end);
      Add({start, end}, 0, node, PageCount(1));
      start = end;
    }
  }

  TargetId target_;
  ScoredRows rows_;
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
  for (const TargetId target : targets) {
    Finder(target, ScoredRows(table, scores, target), tiers, found).Find(map.RunsOf(target));
  }
}

}  // namespace tmprof
