// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/daemon_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;
using enum TextTable::Align;
using enum TextTable::Importance;

std::optional<double> SecondsOf(std::optional<nanoseconds> duration) {
  return duration ? std::optional(Seconds(*duration)) : std::nullopt;
}

std::string SecondsText(nanoseconds duration) { return fmt::format("{:.1f} s", Seconds(duration)); }

// "3d 04:05:06"
std::string LongTime(nanoseconds duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  const auto days = seconds / 86400;
  return fmt::format("{}{:02}:{:02}:{:02}", days == 0 ? "" : fmt::format("{}d ", days),
                     seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
}

std::string PagesText(PageCount pages) { return Grouped(pages.value()); }

Json AsJson(const NotMoved& not_moved) {
  Json json;
  for (const auto& [name, count] : kReasonsNotMoved) json[std::string(name)] = not_moved.*count;
  return json;
}

// None for tier 1.
std::optional<LatencyGap> GapOf(const DaemonStatus& status, Tier tier) {
  return tier == kTier1 ? std::nullopt : std::optional(status.gaps.Of(tier));
}

Json AsJson(const TierStatus& tier, const std::optional<LatencyGap>& gap) {
  Json nodes = Json::array();
  for (const NodeId node : tier.nodes) nodes.push_back(node.value());
  return {{"tier", tier.tier.value()},
          {"latency_gap_ns", gap ? Json(gap->ns) : Json(nullptr)},
          {"latency_gap_basis", gap ? Json(Name(gap->basis)) : Json(nullptr)},
          {"nodes", std::move(nodes)},
          {"capacity_pages", OrNull(tier.capacity)},
          {"used_pages", OrNull(tier.used)},
          {"free_pages", OrNull(tier.free)}};
}

Json AsJson(const ObservingSource& source) {
  const SourceStatus& epoch = source.last_epoch;
  return {{"name", epoch.name},
          {"label", epoch.label},
          {"role", Name(epoch.role)},
          {"state", Name(epoch.state)},
          {"samples_of", epoch.samples_of ? Json(Name(*epoch.samples_of)) : Json(nullptr)},
          {"accesses_per_sample", OrNull(epoch.accesses_per_sample)},
          {"duty_cycle", OrNull(epoch.duty_cycle)},
          {"observations", OrNull(epoch.observations)},
          {"lost", OrNull(epoch.lost)},
          {"lost_total", OrNull(source.lost_total)},
          {"note", epoch.note}};
}

// The sums are unknown before anything is known of a promoted page.
Json AsJson(const PromotionSavings& savings) {
  const bool known = savings.promotions > 0;
  return {{"promotions", savings.promotions},
          {"predicted_s", known ? Json(savings.predicted_seconds) : Json(nullptr)},
          {"realised_s", known ? Json(savings.realised_seconds) : Json(nullptr)}};
}

Json AsJson(const MoveTotals& totals) {
  Json moved = Json::array();
  for (const auto& [way, pages] : totals.moved) {
    moved.push_back({{"from_tier", way.from.value()},
                     {"to_tier", way.to.value()},
                     {"reason", Name(way.reason)},
                     {"pages", pages.value()}});
  }
  Json failures = Json::array();
  for (const auto& [error, moves] : totals.failures) {
    failures.push_back({{"errno", ErrnoName(error)}, {"moves", moves}});
  }
  return {{"moved", std::move(moved)},
          {"dry_run_pages", totals.dry_run.value()},
          {"failures", std::move(failures)},
          {"ping_pong_moves", totals.ping_pong}};
}

std::string GapText(const std::optional<LatencyGap>& gap) {
  return gap ? fmt::format("{:.0f} ns ({})", gap->ns, Name(gap->basis)) : "";
}

std::string SavingsAsText(const PromotionSavings& savings) {
  if (savings.promotions == 0) {
    return "saved by promotions: unknown, as none was watched in tier 1 yet\n";
  }
  return fmt::format(
      "saved by {} in their first {} s: {} s of memory time as predicted, {} s by later "
      "evidence\n",
      CountText(savings.promotions, "promotion"), kPaybackTime.count(),
      Significant(savings.predicted_seconds), Significant(savings.realised_seconds));
}

std::string TiersAsText(const DaemonStatus& status, TextWidth width) {
  TextTable table({{"tier", kRight, kKey},
                   {"nodes", kLeft},
                   {"capacity", kRight, kKey},
                   {"of targets"},
                   {"free"},
                   {"an access takes longer by", kLeft, kThird}});
  for (const TierStatus& tier : status.tiers) {
    std::string nodes;
    for (const NodeId node : tier.nodes) {
      nodes += fmt::format("{}{}", nodes.empty() ? "" : ",", node.value());
    }
    table.AddRow({std::to_string(tier.tier.value()), nodes,
                  tier.capacity ? HumanSize(*tier.capacity) : "no limit",
                  OrUnknown(tier.used, HumanSize), OrUnknown(tier.free, HumanSize),
                  GapText(GapOf(status, tier.tier))});
  }
  return table.Text(width);
}

std::string SourcesAsText(const DaemonStatus& status, TextWidth width) {
  TextTable table({{"source", kLeft, kKey},
                   {"state", kLeft, kKey},
                   {"on"},
                   {"observations"},
                   {"lost"},
                   {"lost in all", kRight, kThird},
                   {"note", kLeft}});
  for (const auto& [epoch, lost_total] : status.sources) {
    table.AddRow({Printable(epoch.name), std::string(Name(epoch.state)),
                  OrUnknown(epoch.duty_cycle, Percent), OrUnknown(epoch.observations, Grouped),
                  OrUnknown(epoch.lost, Grouped), OrUnknown(lost_total, Grouped),
                  Printable(epoch.note)});
  }
  return table.Text(width);
}

std::string DecisionAsText(const DecisionStatus& decision) {
  std::string text =
      fmt::format("last decision: {} wanted in tier 1, {}; not moved:", CountText(decision.wanted),
                  CountText(decision.moves, "move"));
  for (const auto& [name, count] : kReasonsNotMoved) {
    std::string words(name);
    std::ranges::replace(words, '_', ' ');
    text += fmt::format(" {} {},", Grouped(decision.not_moved.*count), words);
  }
  text.back() = '\n';
  return text;
}

std::string TotalsAsText(const DaemonStatus& status) {
  const MoveTotals& totals = status.totals;
  std::string text = "pages moved since the start:";
  for (const auto& [way, pages] : totals.moved) {
    text += fmt::format(" {} from tier {} to {} ({}),", PagesText(pages), way.from.value(),
                        way.to.value(), Name(way.reason));
  }
  if (totals.moved.empty()) text += " none,";
  text.back() = '\n';
  if (totals.dry_run.value() != 0) {
    text +=
        fmt::format("would have been moved, but for the dry run: {}\n", CountText(totals.dry_run));
  }
  text += "moves that failed:";
  for (const auto& [error, moves] : totals.failures) {
    text += fmt::format(" {} {},", Grouped(moves), ErrnoName(error));
  }
  if (totals.failures.empty()) text += " none,";
  text.back() = '\n';
  text += SavingsAsText(status.savings);
  return text + fmt::format("moves that undid another: {}; pending: {}\n",
                            Grouped(totals.ping_pong), Grouped(status.pending_moves));
}

}  // namespace

void MoveTotals::Add(const MoveOutcome& outcome, const Tiers& tiers) {
  const Move& move = outcome.move;
  if (outcome.error == 0) {
    const std::optional<Tier> from = tiers.TierOf(move.from);
    const std::optional<Tier> to = tiers.TierOf(move.to);
    TMPROF_CHECK(from && to);
    moved[{*from, *to, move.reason}] += move.span;
  } else if (outcome.error == ECANCELED) {
    dry_run += move.span;
  } else {
    ++failures[outcome.error];
  }
}

StatusBoard::StatusBoard(const Clock& clock, DaemonStatus first)
    : clock_(&clock),
      started_(clock.Now()),
      status_(std::make_shared<const DaemonStatus>(std::move(first))),
      published_(started_) {}

void StatusBoard::Publish(DaemonStatus status) {
  auto next = std::make_shared<const DaemonStatus>(std::move(status));
  const MonotonicTime now = clock_->Now();
  const std::lock_guard lock(mutex_);
  status_.swap(next);  // the old status is freed after the lock
  published_ = now;
}

void StatusBoard::Amend(const std::function<void(DaemonStatus&)>& change) {
  const std::lock_guard lock(mutex_);
  auto next = std::make_shared<DaemonStatus>(*status_);
  change(*next);
  status_ = std::move(next);
}

StatusReading StatusBoard::Read() const {
  const std::lock_guard lock(mutex_);
  const MonotonicTime now = clock_->Now();
  return {.status = status_, .age = now - published_, .uptime = now - started_};
}

std::string_view Name(DaemonState state) {
  switch (state) {
    case DaemonState::kRunning:
      return "running";
    case DaemonState::kPaused:
      return "paused";
    case DaemonState::kTrackOnly:
      return "track-only";
    case DaemonState::kDryRun:
      return "dry-run";
  }
  TMPROF_CHECK(false);
}

Json TargetsAsJson(const DaemonStatus& status) {
  Json rows = Json::array();
  for (const TargetStatus& target : status.targets) {
    rows.push_back({{"id", target.id.value()},
                    {"pid", target.pid.value()},
                    {"name", target.name},
                    {"tracked_pages", OrNull(target.tracked)},
                    {"tier1_pages", OrNull(target.in_tier1)},
                    {"cpu_time_s", OrNull(SecondsOf(target.cpu_time))}});
  }
  return rows;
}

Json AsJson(const StatusReading& reading) {
  const DaemonStatus& status = *reading.status;
  Json epoch;
  if (status.epoch) {
    epoch = {{"index", status.epoch->index}, {"length_s", Seconds(status.epoch->length)}};
  }
  Json decision;
  if (status.decision) {
    decision = {{"wanted_pages", status.decision->wanted.value()},
                {"moves", status.decision->moves},
                {"predicted_saved_s_per_s", OrNull(status.decision->saved_per_second)},
                {"not_moved", AsJson(status.decision->not_moved)}};
  }
  Json tiers = Json::array();
  for (const TierStatus& tier : status.tiers)
    tiers.push_back(AsJson(tier, GapOf(status, tier.tier)));
  Json sources = Json::array();
  for (const ObservingSource& source : status.sources) sources.push_back(AsJson(source));
  return {
      {"version", status.version},
      {"state", Name(status.state)},
      {"uptime_s", Seconds(reading.uptime)},
      {"age_s", Seconds(reading.age)},
      {"config_file", status.config_file.empty() ? Json() : Json(status.config_file)},
      {"epoch", std::move(epoch)},
      {"epochs_total", status.epochs_total},
      {"targets", TargetsAsJson(status)},
      {"tiers", std::move(tiers)},
      {"sources", std::move(sources)},
      {"decision", std::move(decision)},
      {"totals", AsJson(status.totals)},
      {"promotion_savings", AsJson(status.savings)},
      {"pending_moves", status.pending_moves},
      {"own_cpu_time_s", Seconds(status.own_cpu_time)},
      {"tier1_hit_ratio", OrNull(status.tier1_hit_ratio)},
      {"tier1_hit_ratio_of",
       status.ranked_by ? Json(AccessesOf(*status.ranked_by)) : Json(nullptr)},
      {"ranked_by", status.ranked_by ? Json(Name(*status.ranked_by)) : Json(nullptr)},
      {"rank_weight", status.ranked_by ? Json(Name(WeightOf(*status.ranked_by))) : Json(nullptr)},
      {"warnings", status.warnings},
      {"refusal", OrNull(status.refusal)}};
}

std::string TargetsAsText(const DaemonStatus& status, TextWidth width) {
  if (status.targets.empty()) return "no targets\n";
  TextTable table({{"pid", kRight, kKey},
                   {"name", kLeft, kKey},
                   {"tracked"},
                   {"in tier 1"},
                   {"CPU time", kRight, kThird}});
  for (const TargetStatus& target : status.targets) {
    table.AddRow({std::to_string(target.pid.value()), Printable(target.name),
                  OrUnknown(target.tracked, HumanSize), OrUnknown(target.in_tier1, HumanSize),
                  OrUnknown(target.cpu_time, SecondsText)});
  }
  return table.Text(width);
}

std::string Summary(const DaemonStatus& status) {
  PageCount moved;
  for (const auto& [way, pages] : status.totals.moved) moved += pages;
  return fmt::format(
      "{}: {}, {} of the {} hit tier 1 by estimate, {} moved", Name(status.state),
      CountText(status.targets.size(), "target"), OrUnknown(status.tier1_hit_ratio, Percent),
      AccessesOf(status.ranked_by.value_or(RankSource::kCombined)), CountText(moved));
}

std::string AsText(const StatusReading& reading, TextWidth width) {
  const DaemonStatus& status = *reading.status;
  std::string text =
      fmt::format("tmprofd {}: {}, up {}, as of {} ago\n", status.version, Name(status.state),
                  LongTime(reading.uptime), SecondsText(reading.age));
  if (status.refusal) {
    text += fmt::format("what was configured last was refused: {}\n", Printable(*status.refusal));
  }
  for (const std::string& warning : status.warnings) {
    text += fmt::format("warning: {}\n", Printable(warning));
  }
  text += fmt::format("configuration: {}\n",
                      status.config_file.empty() ? "defaults" : Printable(status.config_file));
  text += status.epoch ? fmt::format("epochs: {}; the last: number {}, of {}\n",
                                     Grouped(status.epochs_total), status.epoch->index,
                                     SecondsText(status.epoch->length))
                       : "epochs: none is over yet\n";
  text += fmt::format("own CPU time: {}\n", SecondsText(status.own_cpu_time));
  text += fmt::format("{} that hit tier 1, estimated: {}\n",
                      AccessesOf(status.ranked_by.value_or(RankSource::kCombined)),
                      OrUnknown(status.tier1_hit_ratio, Percent));
  if (status.ranked_by) {
    text +=
        fmt::format("ranked by {}\n",
                    TextOf({.source = *status.ranked_by, .weight = WeightOf(*status.ranked_by)}));
  }
  text += "\n" + TiersAsText(status, width);
  text += "\n" + SourcesAsText(status, width);
  text += "\n" + TargetsAsText(status, width);
  text += "\n" + (status.decision ? DecisionAsText(*status.decision) : "last decision: none yet\n");
  text += TotalsAsText(status);
  return text;
}

}  // namespace tmprof
