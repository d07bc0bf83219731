// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/status_reporter.h"

#include <fmt/format.h>

#include <algorithm>

#include "rank/rank_weight.h"

namespace tmprof {
namespace {

// "12 (active 50 %)", of the source that has accessed bits; "unknown" without one.
std::string ReferencesOf(const EpochProfile& epoch) {
  for (const SourceStatus& source : epoch.sources) {
    if (source.role != SourceRole::kReferences) continue;
    return fmt::format(
        "{} (active {})", source.observations ? fmt::format("{}", *source.observations) : "unknown",
        source.duty_cycle ? fmt::format("{:.0f} %", 100 * *source.duty_cycle) : "unknown");
  }
  return "unknown";
}

}  // namespace

StatusReporter::StatusReporter(Tiers tiers, Mode mode, std::function<bool()> paused, const Log& log,
                               DaemonStatus& status, StatusBoard& board)
    : tiers_(std::move(tiers)),
      paused_(std::move(paused)),
      log_(log),
      status_(status),
      board_(board),
      mode_(mode) {}

void StatusReporter::Begin(const LatencyGaps& gaps, std::vector<std::string> warnings) {
  status_.gaps = gaps;
  status_.warnings = std::move(warnings);
}

void StatusReporter::Configure(Mode mode, const LatencyGaps& gaps,
                               std::vector<std::string> warnings) {
  Begin(gaps, std::move(warnings));
  const std::scoped_lock lock(publishing_);
  mode_ = mode;
  board_.Amend([this](DaemonStatus& status) {
    status.state = StateNow();
    status.warnings = status_.warnings;
  });
}

DaemonState StatusReporter::StateNow() const {
  if (mode_.track_only) return DaemonState::kTrackOnly;
  if (paused_()) return DaemonState::kPaused;
  return mode_.dry_run ? DaemonState::kDryRun : DaemonState::kRunning;
}

void StatusReporter::PublishState() {
  const std::scoped_lock lock(publishing_);
  board_.Amend([state = StateNow()](DaemonStatus& status) { status.state = state; });
}

void StatusReporter::CountMoves(std::span<const MoveOutcome> outcomes, std::uint64_t undone) {
  for (const MoveOutcome& outcome : outcomes) status_.totals.Add(outcome, tiers_);
  status_.totals.ping_pong += undone;
}

void StatusReporter::LogDecision(const EpochReport& report) const {
  const DecisionStatus& decision = report.decision;
  const PageCount capacity = report.capacities.front().value_or(PageCount(0));
  const std::string text = fmt::format(
      "epoch {}: {}, {} wanted of {}, {} decided, for {:.3f} of the {}, "
      "{} over, predicted to save {} s of memory time a second; {:.2f} of the pages were "
      "looked "
      "at lately, references {}",
      report.epoch.index, CountText(report.targets.size(), "target"), CountText(decision.wanted),
      Grouped(capacity.value()), CountText(decision.moves, "move"), report.gain.value_or(0),
      AccessesOf(report.rank), report.moves_over,
      decision.saved_per_second ? fmt::format("{:.3g}", *decision.saved_per_second) : "unknown",
      report.looked_at, ReferencesOf(report.epoch));
  log_({.level = LogLevel::kDebug,
        .text = text,
        .figures = {{"epoch", report.epoch.index},
                    {"targets", report.targets.size()},
                    {"wanted_pages", decision.wanted.value()},
                    {"capacity_pages", capacity.value()},
                    {"moves", decision.moves},
                    {"gain", OrNull(report.gain)},
                    {"ranked_by", Name(report.rank)},
                    {"rank_weight", Name(WeightOf(report.rank))},
                    {"predicted_saved_s_per_s", OrNull(decision.saved_per_second)},
                    {"promotions_checked", report.savings.promotions},
                    {"predicted_saved_s", report.savings.predicted_seconds},
                    {"realised_saved_s", report.savings.realised_seconds},
                    {"moves_over", report.moves_over},
                    {"looked_at", report.looked_at}}});
}

std::vector<TargetStatus> StatusReporter::TargetsOf(const EpochReport& report) const {
  std::vector<TargetStatus> targets;
  for (const auto& [id, pid] : report.targets) {
    TargetStatus& added = targets.emplace_back(id, pid);
    PageCount placed;
    for (const auto& [start, run] : report.map.RunsOf(id)) placed += run.pages.size();
    added.tracked = placed;
    added.in_tier1 = report.map.PagesIn(id, tiers_, kTier1);
    const auto known = std::ranges::find(report.epoch.targets, id, &Target::id);
    if (known == report.epoch.targets.end()) continue;
    added.name = known->name;
    added.cpu_time = known->cpu_time;
  }
  return targets;
}

std::vector<TierStatus> StatusReporter::TiersOf(const EpochReport& report) const {
  std::vector<TierStatus> tiers;
  for (std::size_t number = 1; number <= tiers_.size(); ++number) {
    TierStatus& tier = tiers.emplace_back(Tier(static_cast<Tier::rep>(number)));
    const std::span<const NodeId> nodes = tiers_.NodesOf(tier.tier);
    tier.nodes.assign(nodes.begin(), nodes.end());
    if (number <= report.capacities.size()) tier.capacity = report.capacities[number - 1];
    PageCount used;
    for (const auto& [id, pid] : report.targets) used += report.map.PagesIn(id, tiers_, tier.tier);
    tier.used = used;
    for (const NodeMemory& node : report.memory) {
      if (tiers_.TierOf(node.id) != tier.tier) continue;
      tier.free = tier.free.value_or(PageCount(0)) + node.free;
    }
  }
  return tiers;
}

std::vector<ObservingSource> StatusReporter::SourcesOf(const EpochProfile& epoch) const {
  std::vector<ObservingSource> sources;
  for (const SourceStatus& source : epoch.sources) {
    const auto before = std::ranges::find_if(status_.sources, [&](const ObservingSource& known) {
      return known.last_epoch.name == source.name && known.last_epoch.role == source.role;
    });
    std::optional<std::uint64_t> lost =
        before == status_.sources.end() ? std::optional<std::uint64_t>(0) : before->lost_total;
    lost = lost && source.lost ? std::optional(*lost + *source.lost) : std::nullopt;
    sources.push_back({source, lost});
  }
  return sources;
}

void StatusReporter::Publish(const EpochReport& report) {
  status_.epoch = EpochStatus{.index = report.epoch.index, .length = report.epoch.length()};
  ++status_.epochs_total;
  status_.targets = TargetsOf(report);
  status_.tiers = TiersOf(report);
  status_.sources = SourcesOf(report.epoch);
  status_.decision = report.decision;
  status_.savings = report.savings;
  status_.warnings = report.warnings;
  status_.pending_moves = report.pending_moves;
  status_.own_cpu_time = report.own_cpu_time;
  status_.tier1_hit_ratio = report.hit_ratio;
  if (status_.ranked_by && *status_.ranked_by != report.rank) {
    log_(LogLevel::kInfo, fmt::format("pages are ranked by {} from now on: {}",
                                      AccessesOf(report.rank), Name(report.rank)));
  }
  status_.ranked_by = report.rank;
  const std::scoped_lock lock(publishing_);
  status_.state = StateNow();
  board_.Publish(status_);
}

}  // namespace tmprof
