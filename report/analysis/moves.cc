// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/moves.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/log_duration.h"
#include "base/move_history.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "rank/rank_model.h"

namespace tmprof {
namespace {

// Returns the memory time that an access costs.
double SecondsOf(const LatencyGap& gap) { return gap.ns * 1e-9; }

enum class Direction : std::uint8_t { kUp, kDown, kOther };

Direction DirectionOf(std::optional<Tier> from, std::optional<Tier> to) {
  if (!from || !to || *from == *to) return Direction::kOther;
  return *to < *from ? Direction::kUp : Direction::kDown;
}

void Count(const Move& move, MoveTally& tally) {
  ++tally.moves;
  tally.pages += move.span;
}

// Counts durations by their logarithm. It holds one number per step of an octave, however many
// moves.
class LatencyTally {
 public:
  void Add(std::chrono::nanoseconds latency) {
    ++count_;
    sum_ns_ += static_cast<double>(latency.count());
    max_ = std::max(max_, latency);
    ++by_code_[LogDuration::FromNanoseconds(latency).code()];
  }

  std::optional<MoveLatency> Take() const {
    if (count_ == 0) return std::nullopt;
    const auto rank =
        static_cast<std::uint64_t>(std::ceil(kQuantile * static_cast<double>(count_)));
    std::uint64_t below = 0;
    auto code = by_code_.begin();
    while ((below += code->second) < rank) ++code;
    const double quantile_ns = LogDuration::FromCode(code->first).seconds() * 1e9;
    return MoveLatency{
        .mean = Nanoseconds(sum_ns_ / static_cast<double>(count_)),
        .p99 = quantile_ns < static_cast<double>(max_.count()) ? Nanoseconds(quantile_ns) : max_,
        .max = max_};
  }

 private:
  static constexpr double kQuantile = 0.99;

  static std::chrono::nanoseconds Nanoseconds(double ns) {
    return std::chrono::nanoseconds(std::llround(ns));
  }

  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
  std::chrono::nanoseconds max_{0};
  std::map<std::uint16_t, std::uint64_t> by_code_;
};

class Summing {
 public:
  Summing(MovesSummary& summary, const MovesOptions& options)
      : summary_(&summary),
        options_(options),
        history_(1 + std::min(options.ping_pong_epochs,
                              std::numeric_limits<std::uint64_t>::max() - 1)) {}

  void Add(const LedgerEpoch& epoch) {
    for (const LedgerTarget& target : epoch.targets) rows_[target.id].target = target;
    history_.ForgetOld(epoch.index);
    const bool chosen = options_.epochs.Contains(epoch.index);
    if (chosen) AddTimes(epoch);
    for (const MoveOutcome& outcome : epoch.moves) AddMove(outcome, epoch, chosen);
    for (const SettledMove& settled : epoch.settled) {
      if (options_.epochs.Contains(settled.moved_in)) AddSettled(settled, epoch);
    }
    before_ = {.index = epoch.index, .length = epoch.end - epoch.start};
  }

  void Finish() {
    summary_->latency = latency_.Take();
    for (auto& [id, row] : rows_) {
      if (row.promotions.moves + row.demotions.moves + row.failed > 0) {
        summary_->targets.push_back(std::move(row));
      }
    }
  }

 private:
  void AddTimes(const LedgerEpoch& epoch) {
    MovesSummary& s = *summary_;
    if (s.epochs == 0) {
      s.start = epoch.start;
    } else {
      s.lost_epochs += epoch.index - next_index_;
    }
    next_index_ = epoch.index + 1;
    s.stop = epoch.end;
    ++s.epochs;
    for (const auto& [name, count] : kReasonsNotMoved) s.not_moved.*count += epoch.not_moved.*count;
    s.replaced += epoch.replaced;
    if (!epoch.ranked_by.empty() && std::ranges::count(s.ranked_by, epoch.ranked_by) == 0)
      s.ranked_by.push_back(epoch.ranked_by);
  }

  void AddMove(const MoveOutcome& outcome, const LedgerEpoch& epoch, bool chosen) {
    const Move& move = outcome.move;
    const bool moved = outcome.error == 0 || (summary_->info.dry_run && outcome.error == ECANCELED);
    const std::optional<Tier> from = summary_->info.tiers.TierOf(move.from);
    const std::optional<Tier> to = summary_->info.tiers.TierOf(move.to);
    const bool undoes = moved && from && to && history_.Note(move.key, *from, *to, epoch.index);
    if (!chosen) return;
    MovesSummary& s = *summary_;
    if (outcome.attempts > 0) {
      s.retries += outcome.attempts - 1;
      latency_.Add(outcome.latency);
      s.moving += outcome.latency;
    }
    MovesSummary::Row& row = rows_[move.key.target];
    if (!moved) {
      ++s.failures[outcome.error];
      ++row.failed;
      return;
    }
    if (undoes) ++s.ping_pongs;
    switch (DirectionOf(from, to)) {
      case Direction::kUp:
        Count(move, s.promotions);
        Count(move, row.promotions);
        if (outcome.error == 0) Watch(move, *from, epoch);
        break;
      case Direction::kDown:
        Count(move, s.demotions);
        Count(move, row.demotions);
        break;
      case Direction::kOther:
        Count(move, s.others);
        break;
    }
  }

  // Moves that end in an epoch were decided at its beginning, by scores of the epoch before.
  void Watch(const Move& move, Tier from, const LedgerEpoch& epoch) {
    const bool has_before = before_ && before_->index + 1 == epoch.index;
    const double decided_over = Seconds(has_before ? before_->length : epoch.end - epoch.start);
    if (decided_over <= 0) return;
    watched_[move.key] = {
        .moved_in = epoch.index,
        .end = epoch.end,
        .predicted_per_second = move.score * SecondsOf(summary_->gaps.Of(from)) / decided_over,
        .gap_seconds = SecondsOf(summary_->gaps.Of(from))};
  }

  void AddSaved(const SettledMove& settled, const LedgerEpoch& epoch) {
    const auto found = watched_.find(settled.key);
    if (found == watched_.end() || found->second.moved_in != settled.moved_in) return;
    const Watched move = found->second;
    watched_.erase(found);
    if (settled.epochs_known == 0 || epoch.index <= move.moved_in) return;
    // The ledger does not say which of the epochs were known. They are taken to have the mean
    // length.
    const double seconds = static_cast<double>(settled.epochs_known) *
                           Seconds(epoch.end - move.end) /
                           static_cast<double>(epoch.index - move.moved_in);
    SavedTime& saved = summary_->saved;
    saved.predicted_s += move.predicted_per_second * seconds;
    saved.realised_s += settled.weight * move.gap_seconds;
    saved.page_seconds += static_cast<double>(settled.span.value()) * seconds;
  }

  void AddSettled(const SettledMove& settled, const LedgerEpoch& epoch) {
    const Tiers& tiers = summary_->info.tiers;
    const Direction direction = DirectionOf(tiers.TierOf(settled.from), tiers.TierOf(settled.to));
    if (direction == Direction::kOther) return;
    if (direction == Direction::kUp) AddSaved(settled, epoch);
    PaybackTally& tally = direction == Direction::kUp ? summary_->promoted : summary_->demoted;
    ++tally.settled;
    if (settled.epochs_known == 0) return;
    ++tally.known;
    if (settled.seen == 0) ++tally.unseen;
    tally.seen += settled.seen;
    tally.weight += settled.weight;
    tally.page_epochs +=
        static_cast<double>(settled.span.value()) * static_cast<double>(settled.epochs_known);
  }

  MovesSummary* summary_;
  MovesOptions options_;
  MoveHistory history_;
  LatencyTally latency_;
  std::uint64_t next_index_ = 0;
  std::map<TargetId, MovesSummary::Row> rows_;
  struct EpochBefore {
    std::uint64_t index;
    std::chrono::nanoseconds length;
  };
  std::optional<EpochBefore> before_;
  struct Watched {
    std::uint64_t moved_in;
    MonotonicTime end;            // end of the epoch in which it moved
    double predicted_per_second;  // seconds of memory time
    double gap_seconds;
  };
  std::map<PageKey, Watched> watched_;  // promotions that are not settled
};

// Returns the promotions without a record of their outcome, because the ledger ended before.
std::uint64_t Unsettled(const MoveTally& moves, const PaybackTally& payback) {
  return moves.moves - std::min(moves.moves, payback.settled);
}

std::optional<double> WeightPerPageEpoch(const PaybackTally& payback) {
  if (payback.page_epochs == 0) return std::nullopt;
  return payback.weight / payback.page_epochs;
}

std::uint64_t Bytes(PageCount pages) { return pages.value() * kBasePageBytes; }

std::string Finished(const MovesSummary& summary) {
  if (summary.end.damage) return "damaged";
  if (summary.end.finished == true) return "complete";
  return "without an end: the daemon runs, or was stopped";
}

std::string TiersText(const Tiers& tiers) {
  std::string text;
  for (std::size_t tier = 1; tier <= tiers.size(); ++tier) {
    const auto nodes = tiers.NodesOf(Tier(static_cast<std::uint8_t>(tier)));
    text += fmt::format("{}{}: node{}", tier == 1 ? "" : "; ", tier, nodes.size() == 1 ? "" : "s");
    for (const NodeId node : nodes) text += fmt::format(" {}", node.value());
  }
  return text;
}

std::string TallyText(const MoveTally& tally) {
  return fmt::format("{}, {} ({})", CountText(tally.moves, "move"), CountText(tally.pages),
                     HumanSize(tally.pages));
}

std::string Microseconds(std::chrono::nanoseconds duration) {
  return Significant(Seconds(duration) * 1e6) + " us";
}

std::string LatencyText(const MovesSummary& summary) {
  return OrUnknown(summary.latency, [](const MoveLatency& latency) {
    return fmt::format("mean {}, p99 {}, max {} a move, of the calls that tried it",
                       Microseconds(latency.mean), Microseconds(latency.p99),
                       Microseconds(latency.max));
  });
}

std::string FailuresText(const MovesSummary& summary) {
  std::string text = fmt::format("{} of {}", Grouped(summary.failed()),
                                 CountText(summary.failed() + summary.moved(), "move"));
  std::string_view separator = ": ";
  for (const auto& [error, count] : summary.failures) {
    text +=
        fmt::format("{}{} {}", std::exchange(separator, ", "), ErrnoName(error), Grouped(count));
  }
  return text;
}

std::string WastedText(const MovesSummary& summary) {
  const PaybackTally& promoted = summary.promoted;
  return fmt::format("{}: {} of {} saw no access; unknown of {}, not settled {}",
                     OrUnknown(summary.Wasted(), Percent), Grouped(promoted.unseen),
                     CountText(promoted.known, "promotion"),
                     Grouped(promoted.settled - promoted.known),
                     Grouped(Unsettled(summary.promotions, promoted)));
}

std::string PaybackText(const PaybackTally& payback) {
  return fmt::format("references and samples seen: {}; weight {}, {} a page and epoch",
                     payback.known == 0 ? "unknown" : Significant(payback.seen),
                     payback.known == 0 ? "unknown" : Significant(payback.weight),
                     OrUnknown(WeightPerPageEpoch(payback), Significant));
}

// Returns ns of memory time that a promoted page saves in a second.
std::optional<double> PerPageSecond(const MovesSummary& summary, double SavedTime::* time) {
  return summary.Saved().transform(
      [time](const SavedTime& saved) { return 1e9 * (saved.*time) / saved.page_seconds; });
}

std::optional<double> RealisedSeconds(const MovesSummary& summary) {
  return summary.Saved().transform([](const SavedTime& saved) { return saved.realised_s; });
}

std::optional<double> MovingSeconds(const MovesSummary& summary) {
  return summary.Moving().transform([](std::chrono::nanoseconds time) { return Seconds(time); });
}

// Compares the memory time that promotions were predicted to save with that of later epochs.
std::string SavedText(const MovesSummary& summary) {
  const auto seconds = [](double time) { return Significant(time) + " s"; };
  const std::string moving = OrUnknown(MovingSeconds(summary), seconds);
  if (!summary.ScoresTellTime())
    return "unknown: the scores of this ledger are no accesses, or of two units; moving took " +
           moving;
  const auto ns = [](double time) { return Significant(time) + " ns"; };
  const LatencyGap gap = summary.gaps.Of(Tier(2));
  return fmt::format(
      "a settled promotion saves {} of memory time a page and second as predicted, {} by later "
      "evidence (an access: {} ns, {}); {} in all so far, and moving took {}",
      OrUnknown(PerPageSecond(summary, &SavedTime::predicted_s), ns),
      OrUnknown(PerPageSecond(summary, &SavedTime::realised_s), ns), Significant(gap.ns),
      Name(gap.basis), OrUnknown(RealisedSeconds(summary), seconds), moving);
}

std::string TargetsText(const MovesSummary& summary, TextWidth width) {
  using enum TextTable::Align;
  using enum TextTable::Importance;
  TextTable table({{"pid", kRight, kKey},
                   {"target", kLeft, kKey},
                   {"promotions"},
                   {"demotions"},
                   {"moved"},
                   {"failed"},
                   {"command", kLeft, kThird}});
  for (const MovesSummary::Row& row : summary.targets) {
    table.AddRow({fmt::format("{}", row.target.pid.value()), Printable(row.target.name),
                  Grouped(row.promotions.moves), Grouped(row.demotions.moves),
                  HumanSize(row.promotions.pages + row.demotions.pages), Grouped(row.failed),
                  Printable(row.target.command)});
  }
  return table.Text(width);
}

Json TallyJson(const MoveTally& tally) {
  return {{"moves", tally.moves}, {"pages", tally.pages.value()}, {"bytes", Bytes(tally.pages)}};
}

Json PaybackJson(const MoveTally& moves, const PaybackTally& payback) {
  const bool known = payback.known > 0;
  return {{"settled", payback.settled},
          {"unsettled", Unsettled(moves, payback)},
          {"known", payback.known},
          {"unknown", payback.settled - payback.known},
          {"unseen", payback.unseen},
          {"seen", known ? Json(payback.seen) : Json(nullptr)},
          {"weight", known ? Json(payback.weight) : Json(nullptr)},
          {"weight_per_page_epoch", OrNull(WeightPerPageEpoch(payback))}};
}

// ", ranked by memory"; empty: the ledger does not say it.
std::string RankedByText(const std::vector<std::string>& ranked_by) {
  std::string text;
  for (const std::string& name : ranked_by)
    text += (text.empty() ? ", ranked by " : " and ") + Printable(name);
  return text;
}

}  // namespace

std::uint64_t MovesSummary::failed() const {
  std::uint64_t all = 0;
  for (const auto& [error, count] : failures) all += count;
  return all;
}

std::optional<double> MovesSummary::PingPong() const {
  if (moved() == 0) return std::nullopt;
  return static_cast<double>(ping_pongs) / static_cast<double>(moved());
}

std::optional<double> MovesSummary::Wasted() const {
  if (promoted.known == 0) return std::nullopt;
  return static_cast<double>(promoted.unseen) / static_cast<double>(promoted.known);
}

bool MovesSummary::ScoresTellTime() const {
  return info.rank_model == Name(RankModel::kRate) && ranked_by.size() <= 1 &&
         std::ranges::count(ranked_by, Name(RankSource::kSamples)) == 0;
}

std::optional<SavedTime> MovesSummary::Saved() const {
  if (!ScoresTellTime() || saved.page_seconds <= 0) return std::nullopt;
  return saved;
}

std::optional<std::chrono::nanoseconds> MovesSummary::Moving() const {
  return info.dry_run ? std::nullopt : std::optional(moving);
}

MovesSummary SummarizeMoves(LedgerReader& ledger, const MovesOptions& options) {
  MovesSummary summary{.ledger = ledger.path().filename().string(),
                       .info = ledger.info(),
                       .ping_pong_epochs = options.ping_pong_epochs,
                       .gaps = GapsOf(ledger.info().settings)};
  Summing summing(summary, options);
  LedgerEpoch epoch;
  while (true) {
    Result<bool> more = ledger.Next(epoch);
    if (!more) summary.end.damage = std::move(more.error());
    if (more && !*more) summary.end = ledger.End();
    if (!more || !*more) break;
    summing.Add(epoch);
  }
  summing.Finish();
  return summary;
}

std::string MovesText(const MovesSummary& summary, TextWidth width) {
  const LedgerInfo& info = summary.info;
  std::string text;
  text +=
      TitledLine("ledger", fmt::format("{} ({})", Printable(summary.ledger), Finished(summary)));
  text += TitledLine("written",
                     fmt::format("{} by {} on Linux {}", WallTime(info.wall_start),
                                 Printable(info.tool_version), Printable(info.kernel_release)));
  if (info.dry_run) {
    text +=
        TitledLine("dry run", "nothing was moved: these are the moves that would have been tried");
  }
  text += TitledLine(
      "placed by", fmt::format("policy {}, rank model {}{}, in epochs of {}",
                               Printable(info.policy), Printable(info.rank_model),
                               RankedByText(summary.ranked_by), FormatDuration(info.epoch_length)));
  text += TitledLine("tiers", TiersText(info.tiers));
  text +=
      TitledLine("epochs", fmt::format("{} in {:.3f} s, {} lost", Grouped(summary.epochs),
                                       Seconds(summary.duration()), Grouped(summary.lost_epochs)));
  text += TitledLine("promotions", TallyText(summary.promotions));
  text += TitledLine("demotions", TallyText(summary.demotions));
  if (summary.others.moves > 0) {
    text +=
        TitledLine("others", TallyText(summary.others) + ", between nodes of no different tier");
  }
  text += TitledLine("failed", FailuresText(summary));
  text += TitledLine("retries", Grouped(summary.retries));
  text += TitledLine("latency", LatencyText(summary));
  text += TitledLine("ping-pong", fmt::format("{}: {} undid one of at most {} before",
                                              OrUnknown(summary.PingPong(), Percent),
                                              CountText(summary.ping_pongs, "move"),
                                              CountText(summary.ping_pong_epochs, "epoch")));
  text += TitledLine("wasted", WastedText(summary));
  text += TitledLine("payback", "of promotions: " + PaybackText(summary.promoted));
  text += TitledLine("", "of demotions: " + PaybackText(summary.demoted));
  text += TitledLine("saved", SavedText(summary));
  std::string stayed;
  for (const auto& [name, count] : kReasonsNotMoved) {
    std::string words(name);
    std::ranges::replace(words, '_', ' ');
    stayed += fmt::format("{} {}, ", words, Grouped(summary.not_moved.*count));
  }
  text += TitledLine("not moved", fmt::format("{}dropped for newer decisions {}", stayed,
                                              Grouped(summary.replaced)));
  for (const std::string& warning : info.warnings)
    text += TitledLine("warning", Printable(warning));
  if (!summary.targets.empty()) text += "\n" + TargetsText(summary, width);
  if (!info.settings.empty()) text += "\n" + SettingsText(info.settings, width);
  return text;
}

std::string MovesJson(const MovesSummary& summary) {
  const LedgerInfo& info = summary.info;
  Json tiers = Json::array();
  for (std::size_t tier = 1; tier <= info.tiers.size(); ++tier) {
    Json nodes = Json::array();
    for (const NodeId node : info.tiers.NodesOf(Tier(static_cast<std::uint8_t>(tier)))) {
      nodes.push_back(node.value());
    }
    tiers.push_back(std::move(nodes));
  }
  Json failures = Json::object();
  for (const auto& [error, count] : summary.failures) failures[ErrnoName(error)] = count;
  Json not_moved = Json::object();
  for (const auto& [name, count] : kReasonsNotMoved)
    not_moved[std::string(name)] = summary.not_moved.*count;
  not_moved["replaced"] = summary.replaced;
  Json latency(nullptr);
  if (summary.latency) {
    latency = {{"mean", Seconds(summary.latency->mean)},
               {"p99", Seconds(summary.latency->p99)},
               {"max", Seconds(summary.latency->max)}};
  }
  Json targets = Json::array();
  for (const MovesSummary::Row& row : summary.targets) {
    targets.push_back({{"target", row.target.id.value()},
                       {"pid", row.target.pid.value()},
                       {"name", row.target.name},
                       {"command", row.target.command},
                       {"promotions", TallyJson(row.promotions)},
                       {"demotions", TallyJson(row.demotions)},
                       {"failed", row.failed}});
  }
  Json settings = Json::object();
  for (const Setting& setting : info.settings) settings[setting.name] = setting.value;
  return JsonText(
      {{"view", "moves"},
       {"ledger", summary.ledger},
       {"finished", OrNull(summary.end.finished)},
       {"damage", DamageJson(summary.end)},
       {"dry_run", info.dry_run},
       {"epochs", summary.epochs},
       {"lost_epochs", summary.lost_epochs},
       {"duration_s", Seconds(summary.duration())},
       {"epoch_length_s", Seconds(info.epoch_length)},
       {"policy", info.policy},
       {"rank_model", info.rank_model},
       {"ranked_by", summary.ranked_by},
       {"tiers", std::move(tiers)},
       {"promotions", TallyJson(summary.promotions)},
       {"demotions", TallyJson(summary.demotions)},
       {"others", TallyJson(summary.others)},
       {"bytes_moved", Bytes(summary.pages())},
       {"failed", summary.failed()},
       {"failures", std::move(failures)},
       {"retries", summary.retries},
       {"latency_s", std::move(latency)},
       {"ping_pong",
        {{"within_epochs", summary.ping_pong_epochs},
         {"moves", summary.ping_pongs},
         {"ratio", OrNull(summary.PingPong())}}},
       {"wasted_ratio", OrNull(summary.Wasted())},
       {"memory_time",
        {{"latency_gap_ns", summary.gaps.Of(Tier(2)).ns},
         {"latency_gap_basis", Name(summary.gaps.Of(Tier(2)).basis)},
         {"predicted_ns_per_page_second", OrNull(PerPageSecond(summary, &SavedTime::predicted_s))},
         {"realised_ns_per_page_second", OrNull(PerPageSecond(summary, &SavedTime::realised_s))},
         {"realised_s", OrNull(RealisedSeconds(summary))},
         {"moving_s", OrNull(MovingSeconds(summary))}}},
       {"payback",
        {{"promotions", PaybackJson(summary.promotions, summary.promoted)},
         {"demotions", PaybackJson(summary.demotions, summary.demoted)}}},
       {"not_moved", std::move(not_moved)},
       {"targets", std::move(targets)},
       {"host",
        {{"tool_version", info.tool_version},
         {"kernel_release", info.kernel_release},
         {"wall_start", WallTime(info.wall_start)}}},
       {"settings", std::move(settings)},
       {"warnings", info.warnings}});
}

std::string MovesCsv(const MovesSummary& summary) {
  std::string csv = CsvLine({"key", "value"});
  const auto add = [&csv](std::string key, std::string value) {
    csv += CsvLine({std::move(key), std::move(value)});
  };
  const auto add_tally = [&add](const std::string& prefix, const MoveTally& tally) {
    add(prefix + ".moves", kPlain(tally.moves));
    add(prefix + ".pages", kPlain(tally.pages.value()));
    add(prefix + ".bytes", kPlain(Bytes(tally.pages)));
  };
  const auto add_payback = [&add](const std::string& prefix, const MoveTally& moves,
                                  const PaybackTally& payback) {
    add(prefix + ".settled", kPlain(payback.settled));
    add(prefix + ".unsettled", kPlain(Unsettled(moves, payback)));
    add(prefix + ".known", kPlain(payback.known));
    add(prefix + ".unknown", kPlain(payback.settled - payback.known));
    add(prefix + ".unseen", kPlain(payback.unseen));
    add(prefix + ".seen", payback.known > 0 ? Exact(payback.seen) : "");
    add(prefix + ".weight", payback.known > 0 ? Exact(payback.weight) : "");
    add(prefix + ".weight_per_page_epoch", OrEmpty(WeightPerPageEpoch(payback), Exact));
  };
  add("ledger", summary.ledger);
  add("finished", OrEmpty(summary.end.finished, kPlain));
  add("dry_run", kPlain(summary.info.dry_run));
  add("epochs", kPlain(summary.epochs));
  add("lost_epochs", kPlain(summary.lost_epochs));
  add("duration_s", Exact(Seconds(summary.duration())));
  add("policy", summary.info.policy);
  add("rank_model", summary.info.rank_model);
  add_tally("promotions", summary.promotions);
  add_tally("demotions", summary.demotions);
  add_tally("others", summary.others);
  add("bytes_moved", kPlain(Bytes(summary.pages())));
  add("failed", kPlain(summary.failed()));
  for (const auto& [error, count] : summary.failures) {
    add("failures." + ErrnoName(error), kPlain(count));
  }
  add("retries", kPlain(summary.retries));
  const auto add_latency = [&](const std::string& key, std::chrono::nanoseconds MoveLatency::* of) {
    add("latency_s." + key, summary.latency ? Exact(Seconds((*summary.latency).*of)) : "");
  };
  add_latency("mean", &MoveLatency::mean);
  add_latency("p99", &MoveLatency::p99);
  add_latency("max", &MoveLatency::max);
  add("ping_pong.within_epochs", kPlain(summary.ping_pong_epochs));
  add("ping_pong.moves", kPlain(summary.ping_pongs));
  add("ping_pong.ratio", OrEmpty(summary.PingPong(), Exact));
  add("wasted_ratio", OrEmpty(summary.Wasted(), Exact));
  add("memory_time.latency_gap_ns", Exact(summary.gaps.Of(Tier(2)).ns));
  add("memory_time.latency_gap_basis", std::string(Name(summary.gaps.Of(Tier(2)).basis)));
  add("memory_time.predicted_ns_per_page_second",
      OrEmpty(PerPageSecond(summary, &SavedTime::predicted_s), Exact));
  add("memory_time.realised_ns_per_page_second",
      OrEmpty(PerPageSecond(summary, &SavedTime::realised_s), Exact));
  add("memory_time.realised_s", OrEmpty(RealisedSeconds(summary), Exact));
  add("memory_time.moving_s", OrEmpty(MovingSeconds(summary), Exact));
  add_payback("payback.promotions", summary.promotions, summary.promoted);
  add_payback("payback.demotions", summary.demotions, summary.demoted);
  for (const auto& [name, count] : kReasonsNotMoved) {
    add("not_moved." + std::string(name), kPlain(summary.not_moved.*count));
  }
  add("not_moved.replaced", kPlain(summary.replaced));
  return csv;
}

}  // namespace tmprof
