// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/candidates.h"

#include <algorithm>
#include <limits>

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

// Which pages of one target were looked at, as far as that is remembered; asked about in ascending
// order.
class LookedAt {
 public:
  LookedAt(const EvidenceTable& table, TargetId target)
      : table_(&table), target_(target), row_(FirstRow(table, target)) {
    FindRun();
  }

  struct Stretch {
    bool looked_at;
    Vpn end;
  };
  // From `vpn` on, as far as it is alike.
  Stretch At(Vpn vpn) {
    while (run_ && run_->end <= vpn) FindRun();
    if (!run_) return {false, Vpn(std::numeric_limits<Vpn::rep>::max())};
    return run_->start <= vpn ? Stretch{true, run_->end} : Stretch{false, run_->start};
  }

 private:
  bool IsOfTarget() const { return row_ < table_->size() && table_->key[row_].target == target_; }
  bool HasLooks() const { return table_->evidence[row_].looks > 0; }
  Vpn Start() const { return table_->key[row_].vpn; }
  Vpn End() const { return Start() + PageCount(table_->span_pages[row_]); }

  void FindRun() {
    while (IsOfTarget() && !HasLooks()) ++row_;
    if (!IsOfTarget()) {
      run_.reset();
      return;
    }
    run_ = {Start(), End()};
    for (++row_; IsOfTarget() && HasLooks() && Start() == run_->end; ++row_) run_->end = End();
  }

  const EvidenceTable* table_;
  TargetId target_;
  std::size_t row_;
  std::optional<VpnRange> run_;
};

// Where another memory policy begins than the one before; asked about in ascending order.
class PolicyBounds {
 public:
  explicit PolicyBounds(const MemoryBinding* binding) {
    if (binding == nullptr) return;
    for (const MemoryBinding::Range& range : binding->exceptions()) {
      bounds_.push_back(range.pages.start);
      bounds_.push_back(range.pages.end);
    }
  }

  // The first one behind `vpn`.
  Vpn After(Vpn vpn) {
    while (next_ < bounds_.size() && bounds_[next_] <= vpn) ++next_;
    return next_ < bounds_.size() ? bounds_[next_] : Vpn(std::numeric_limits<Vpn::rep>::max());
  }

 private:
  std::vector<Vpn> bounds_;  // ascending
  std::size_t next_ = 0;
};

// What is supposed of a page that nobody has looked at: the mean of those that were looked at and
// hardly sampled, as it was not; or, where all were, of all that were looked at.
class SupposedScore {
 public:
  void Add(const EvidenceTable& table, const Scores& scores, TargetId target) {
    for (std::size_t row = FirstRow(table, target);
         row < table.size() && table.key[row].target == target; ++row) {
      const Evidence& evidence = table.evidence[row];
      if (!(evidence.looks > 0)) continue;
      looked_at_.Add(scores[row], table.span_pages[row]);
      if (evidence.samples() < kHardlyAnySample) unsampled_.Add(scores[row], table.span_pages[row]);
    }
  }

  // Nothing: nobody looks.
  std::optional<double> OfAPage() const {
    if (unsampled_.pages > 0) return unsampled_.score / unsampled_.pages;
    if (looked_at_.pages > 0) return looked_at_.score / looked_at_.pages;
    return std::nullopt;
  }

 private:
  // What is remembered of one sample after a half-life.
  static constexpr double kHardlyAnySample = 0.5;

  struct Sum {
    double score = 0;
    double pages = 0;
    void Add(double of_span, double span_pages) {
      score += of_span;
      pages += span_pages;
    }
  };
  Sum looked_at_;
  Sum unsampled_;
};

class Finder {
 public:
  // `supposed_score`: of a page that nobody has looked at; nothing: nobody looks.
  Finder(const PlacedTarget& target, const EvidenceTable& table, const Scores& scores,
         std::optional<double> supposed_score, const Tiers& tiers, const TierSet& limited,
         Candidates& found)
      : target_(target.id),
        rows_(table, scores, target.id),
        looked_at_(table, target.id),
        policy_bounds_(target.binding),
        supposed_score_(supposed_score),
        tiers_(&tiers),
        limited_(&limited),
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
      AddUnscoredPieces({done, start}, run.node);
      const Vpn end = std::min({rows_.end(), run.pages.end, policy_bounds_.After(start),
                                EndOfPiece(start, kLargestPiece)});
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

  bool IsLimited(NodeId node) const {
    const std::optional<Tier> tier = tiers_->TierOf(node);
    return tier && limited_->test(tier->value());
  }

  void AddUnscored(VpnRange pages, NodeId node, PageCount leaf) {
    if (!IsLimited(node)) return;
    if (!supposed_score_ || looked_at_.At(pages.start).looked_at) {
      Add(pages, 0, node, leaf);
      return;
    }
    const double of_a_page = tiers_->TierOf(node) == kTier1 ? *supposed_score_ : 0;
    Add(pages, of_a_page * static_cast<double>(pages.size().value()), node, leaf);
    found_->supposed.back() = 1;
  }

  // Pieces end at multiples of their size, so that they stay the same as their neighbours change.
  void AddUnscoredPieces(VpnRange pages, NodeId node) {
    if (!IsLimited(node)) return;
    for (Vpn start = pages.start; start < pages.end;) {
      const Vpn end = std::min({EndOfPiece(start, kLargestPiece), pages.end,
                                looked_at_.At(start).end, policy_bounds_.After(start)});
      AddUnscored({start, end}, node, PageCount(1));
      start = end;
    }
  }

  TargetId target_;
  ScoredRows rows_;
  LookedAt looked_at_;
  PolicyBounds policy_bounds_;
  std::optional<double> supposed_score_;
  const Tiers* tiers_;
  const TierSet* limited_;
  Candidates* found_;
};

}  // namespace

void FindCandidates(const EvidenceTable& table, const Scores& scores, const PlacementMap& map,
                    std::span<const PlacedTarget> targets, const Tiers& tiers,
                    const TierSet& limited, Candidates& found) {
  found.key.clear();
  found.span_pages.clear();
  found.score.clear();
  found.node.clear();
  found.leaf.clear();
  found.supposed.clear();
  SupposedScore of_all;
  for (const PlacedTarget& target : targets) of_all.Add(table, scores, target.id);
  for (const PlacedTarget& target : targets) {
    SupposedScore of_target;
    of_target.Add(table, scores, target.id);
    const std::optional<double> supposed =
        of_target.OfAPage() ? of_target.OfAPage() : of_all.OfAPage();
    Finder(target, table, scores, supposed, tiers, limited, found).Find(map.RunsOf(target.id));
  }
}

}  // namespace tmprof
