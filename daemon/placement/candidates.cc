// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/candidates.h"

#include <algorithm>
#include <limits>

namespace tmprof {
namespace {

constexpr std::uint64_t kLargestPiece = 512;

// Returns the end of the leaf or piece that holds `vpn`. Pieces of `pages` pages begin at multiples
// of it.
Vpn EndOfPiece(Vpn vpn, std::uint64_t pages) { return Vpn((vpn.value() / pages + 1) * pages); }

// The scored rows of one target, handed out piece by piece.
class ScoredRows {
 public:
  explicit ScoredRows(RankedRows::Cursor row) : row_(row) { Settle(); }

  bool AtEnd() const { return row_.AtEnd(); }
  Vpn start() const { return start_; }
  Vpn end() const { return row_->pages.end; }

  // The score of what lies before `until`, which is then over.
  double TakeUntil(Vpn until) {
    double score = 0;
    while (!AtEnd() && start_ < until) {
      const Vpn upto = std::min(until, end());
      score += row_->score * static_cast<double>((upto - start_).value()) /
               static_cast<double>(row_->pages.size().value());
      start_ = upto;
      if (start_ == end()) {
        row_.Next();
        Settle();
      }
    }
    return score;
  }

 private:
  void Settle() {
    while (!AtEnd() && !(row_->score > 0)) row_.Next();
    if (!AtEnd()) start_ = row_->pages.start;
  }

  RankedRows::Cursor row_;
  Vpn start_;
};

// Which pages of one target were looked at, as far as that is remembered; asked about in ascending
// order.
class LookedAt {
 public:
  explicit LookedAt(RankedRows::Cursor row) : row_(row) { FindRun(); }

  struct Stretch {
    bool looked_at;
    Vpn end;
  };
  // Returns the uniform stretch that begins at `vpn`.
  Stretch At(Vpn vpn) {
    while (run_ && run_->end <= vpn) FindRun();
    if (!run_) return {false, Vpn(std::numeric_limits<Vpn::rep>::max())};
    return run_->start <= vpn ? Stretch{true, run_->end} : Stretch{false, run_->start};
  }

 private:
  void FindRun() {
    while (!row_.AtEnd() && !row_->looked_at) row_.Next();
    if (row_.AtEnd()) {
      run_.reset();
      return;
    }
    run_ = row_->pages;
    for (row_.Next(); !row_.AtEnd() && row_->looked_at && row_->pages.start == run_->end;
         row_.Next()) {
      run_->end = row_->pages.end;
    }
  }

  RankedRows::Cursor row_;
  std::optional<VpnRange> run_;
};

// Finds the starts of memory policies that differ from the one before. Queries must ascend.
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

// The score that is assumed of a page that was not looked at. It is the mean of pages that were
// looked at and hardly sampled, like that page; if all were sampled, the mean of all that were
// looked at.
class AssumedScore {
 public:
  void Add(RankedRows::Cursor row) {
    for (; !row.AtEnd(); row.Next()) {
      if (!row->looked_at) continue;
      looked_at_.Add(*row);
      if (row->samples < kHardlyAnySample) unsampled_.Add(*row);
    }
  }

  // nullopt: no page was looked at.
  std::optional<double> OfAPage() const {
    if (unsampled_.pages > 0) return unsampled_.score / unsampled_.pages;
    if (looked_at_.pages > 0) return looked_at_.score / looked_at_.pages;
    return std::nullopt;
  }

 private:
  // Half of what one sample is worth when it is new.
  static constexpr double kHardlyAnySample = 0.5;

  struct Sum {
    double score = 0;
    double pages = 0;
    void Add(const RankedRow& row) {
      score += row.score;
      pages += static_cast<double>(row.pages.size().value());
    }
  };
  Sum looked_at_;
  Sum unsampled_;
};

class Finder {
 public:
  // `assumed_score`: of a page that nobody has looked at; nothing: nobody looks.
  Finder(const PlacedTarget& target, const RankedRows& rows, std::optional<double> assumed_score,
         const Tiers& tiers, const TierSet& limited, Candidates& found)
      : target_(target.id),
        rows_(rows.Of(target.id)),
        looked_at_(rows.Of(target.id)),
        policy_bounds_(target.binding),
        assumed_score_(assumed_score),
        tiers_(&tiers),
        limited_(&limited),
        found_(&found) {}

  void Find(const PlacementMap::Runs& runs) {
    for (const auto& [start, run] : runs) {
      TakeUnplaced(run.pages.start);
      joint_ = run.joint;
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
    found_->assumed.push_back(0);
    found_->joint.push_back(node && joint_ ? 1 : 0);
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
    if (!assumed_score_ || looked_at_.At(pages.start).looked_at) {
      Add(pages, 0, node, leaf);
      return;
    }
    const double of_a_page = tiers_->TierOf(node) == kTier1 ? *assumed_score_ : 0;
    Add(pages, of_a_page * static_cast<double>(pages.size().value()), node, leaf);
    found_->assumed.back() = 1;
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
  bool joint_ = false;  // the run whose pages are taken
  ScoredRows rows_;
  LookedAt looked_at_;
  PolicyBounds policy_bounds_;
  std::optional<double> assumed_score_;
  const Tiers* tiers_;
  const TierSet* limited_;
  Candidates* found_;
};

}  // namespace

void FindCandidates(const RankedRows& rows, const PlacementMap& map,
                    std::span<const PlacedTarget> targets, const Tiers& tiers,
                    const TierSet& limited, Candidates& found) {
  found.key.clear();
  found.span_pages.clear();
  found.score.clear();
  found.node.clear();
  found.leaf.clear();
  found.assumed.clear();
  found.joint.clear();
  AssumedScore of_all;
  for (const PlacedTarget& target : targets) of_all.Add(rows.Of(target.id));
  for (const PlacedTarget& target : targets) {
    AssumedScore of_target;
    of_target.Add(rows.Of(target.id));
    const std::optional<double> assumed =
        of_target.OfAPage() ? of_target.OfAPage() : of_all.OfAPage();
    Finder(target, rows, assumed, tiers, limited, found).Find(map.RunsOf(target.id));
  }
}

}  // namespace tmprof
