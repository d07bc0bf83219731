// SPDX-License-Identifier: Apache-2.0

#include "proto/ledger_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "proto/column_codec.h"
#include "proto/epoch_codec.h"
#include "proto/wire_enum.h"

namespace tmprof {
namespace {

constexpr std::pair<MoveReason, wire::MoveReason> kReasons[] = {
    {MoveReason::kWanted, wire::MOVE_REASON_WANTED},
    {MoveReason::kRoom, wire::MOVE_REASON_ROOM},
    {MoveReason::kOverCapacity, wire::MOVE_REASON_OVER_CAPACITY},
};
constexpr std::pair<SettledCause, wire::SettledCause> kCauses[] = {
    {SettledCause::kMoved, wire::SETTLED_CAUSE_MOVED},
    {SettledCause::kGone, wire::SETTLED_CAUSE_GONE},
    {SettledCause::kEnd, wire::SETTLED_CAUSE_END},
    {SettledCause::kForgotten, wire::SETTLED_CAUSE_FORGOTTEN},
};

constexpr std::uint64_t kMaxNode = std::numeric_limits<NodeId::rep>::max();
constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxInt = std::numeric_limits<int>::max();
constexpr std::uint64_t kMaxNanoseconds = std::numeric_limits<std::int64_t>::max();

// Returns the span of a record of either kind.
template <typename Record>
auto& SpanOf(Record& record) {
  if constexpr (requires { record.move; }) {
    return record.move;
  } else {
    return record;
  }
}

bool IsInMemory(Vpn vpn, PageCount span) {
  return span.value() > 0 && vpn.value() < kVpnEnd && span.value() <= kVpnEnd - vpn.value();
}

// Returns the code of a step. Upward steps are even and downward ones odd, so that small steps are
// small numbers.
std::uint64_t StepCode(Vpn from, Vpn to) {
  return from <= to ? 2 * (to - from).value() : 2 * (from - to).value() - 1;
}
// Returns a page past the end of memory if the code leads out of memory.
Vpn StepFrom(Vpn from, std::uint64_t code) {
  const std::uint64_t pages = code / 2 + code % 2;
  if (code % 2 == 0)
    return pages > kVpnEnd - from.value() ? Vpn(kVpnEnd) : Vpn(from.value() + pages);
  return pages > from.value() ? Vpn(kVpnEnd) : Vpn(from.value() - pages);
}

// Encodes records, one column after the other.
template <typename Record>
class Columns {
 public:
  Columns(const std::vector<Record>& records, const KnownTargets& known)
      : records_(&records), values_(records.size()) {
    for (const Record& record : records) {
      const auto& span = SpanOf(record);
      TMPROF_CHECK(IsInMemory(span.key.vpn, span.span) && known.contains(span.key.target));
    }
  }

  template <typename ValueOf>
  void Encode(wire::Column* column, ValueOf value_of) {
    std::ranges::transform(*records_, values_.begin(), value_of);
    EncodeColumn(values_, ColumnChoice::kSmallest, *column);
  }

  // Encodes the columns that both kinds of records have.
  template <typename Message>
  void EncodeSpans(Message& message) {
    Encode(message.mutable_target(),
           [](const Record& r) { return std::uint64_t{SpanOf(r).key.target.value()}; });
    Vpn end;
    Encode(message.mutable_step(), [&end](const Record& r) {
      const auto& span = SpanOf(r);
      const std::uint64_t code = StepCode(end, span.key.vpn);
      end = span.key.vpn + span.span;
      return code;
    });
    Encode(message.mutable_span_pages(), [](const Record& r) { return SpanOf(r).span.value(); });
    Encode(message.mutable_from(),
           [](const Record& r) { return std::uint64_t{SpanOf(r).from.value()}; });
    Encode(message.mutable_to(),
           [](const Record& r) { return std::uint64_t{SpanOf(r).to.value()}; });
  }

 private:
  const std::vector<Record>* records_;
  std::vector<std::uint64_t> values_;
};

// Decodes records, one column after the other, up to the first fault.
template <typename Record>
class Rows {
 public:
  Rows(std::string_view what, std::vector<Record>& records)
      : what_(what), records_(&records), values_(records.size()) {}

  // Calls `take(value, record)` for values up to `max` only.
  template <typename Take>
  void Decode(std::string_view name, bool present, const wire::Column& column, std::uint64_t max,
              Take take) {
    if (!verdict_) return;
    if (!present) return Refuse(name, "is missing");
    if (Verdict verdict = DecodeColumn(column, std::span(values_)); !verdict) {
      return Refuse(name, verdict.error());
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] > max) {
        return Refuse(name, fmt::format("has the value {}, above {}", values_[i], max));
      }
      take(values_[i], (*records_)[i]);
    }
  }

  template <typename Ours, typename Wire, std::size_t n, typename MemberOf>
  void DecodeEnum(std::string_view name, bool present, const wire::Column& column,
                  const std::pair<Ours, Wire> (&table)[n], MemberOf member_of) {
    bool known = true;
    Decode(name, present, column, kMaxInt, [&](std::uint64_t value, Record& record) {
      known &= FromWire(table, static_cast<Wire>(value), member_of(record));
    });
    if (verdict_ && !known) Refuse(name, "has an unknown value");
  }

  template <typename Message>
  void DecodeSpans(const Message& message, const KnownTargets& known) {
    Decode("target", message.has_target(), message.target(), kMax32,
           [](std::uint64_t value, Record& r) {
             SpanOf(r).key.target = TargetId(static_cast<std::uint32_t>(value));
           });
    Decode("span_pages", message.has_span_pages(), message.span_pages(), kVpnEnd,
           [](std::uint64_t value, Record& r) { SpanOf(r).span = PageCount(value); });
    Vpn end;
    bool in_memory = true;
    Decode("step", message.has_step(), message.step(), kMax64, [&](std::uint64_t value, Record& r) {
      auto& span = SpanOf(r);
      span.key.vpn = StepFrom(end, value);
      in_memory = in_memory && IsInMemory(span.key.vpn, span.span);
      if (in_memory) end = span.key.vpn + span.span;
    });
    if (verdict_ && !in_memory) verdict_ = Wrong(fmt::format("{} of no pages of memory", what_));
    Decode("from", message.has_from(), message.from(), kMaxNode,
           [](std::uint64_t value, Record& r) {
             SpanOf(r).from = NodeId(static_cast<NodeId::rep>(value));
           });
    Decode("to", message.has_to(), message.to(), kMaxNode, [](std::uint64_t value, Record& r) {
      SpanOf(r).to = NodeId(static_cast<NodeId::rep>(value));
    });
    for (const Record& record : *records_) {
      if (!verdict_) return;
      const TargetId target = SpanOf(record).key.target;
      if (!known.contains(target)) {
        verdict_ =
            Wrong(fmt::format("{} of target {}, which no frame tells of", what_, target.value()));
      }
    }
  }

  const Verdict& verdict() const { return verdict_; }

 private:
  void Refuse(std::string_view column, std::string_view fault) {
    verdict_ = Wrong(fmt::format("column '{}' of {} {}", column, what_, fault));
  }

  std::string_view what_;
  std::vector<Record>* records_;
  std::vector<std::uint64_t> values_;
  Verdict verdict_;
};

void EncodeMoves(const std::vector<MoveOutcome>& moves, const KnownTargets& known,
                 wire::MoveColumns& message) {
  Columns columns(moves, known);
  columns.EncodeSpans(message);
  for (const MoveOutcome& outcome : moves) {
    TMPROF_CHECK(std::isfinite(outcome.move.score) && outcome.error >= 0 &&
                 outcome.latency.count() >= 0);
    message.add_score(outcome.move.score);
  }
  columns.Encode(message.mutable_reason(), [](const MoveOutcome& outcome) {
    return static_cast<std::uint64_t>(WireOf(kReasons, outcome.move.reason));
  });
  columns.Encode(message.mutable_error(), [](const MoveOutcome& outcome) {
    return static_cast<std::uint64_t>(outcome.error);
  });
  columns.Encode(message.mutable_attempts(),
                 [](const MoveOutcome& outcome) { return std::uint64_t{outcome.attempts}; });
  columns.Encode(message.mutable_latency_ns(), [](const MoveOutcome& outcome) {
    return static_cast<std::uint64_t>(outcome.latency.count());
  });
}

Verdict DecodeMoves(const wire::MoveColumns& message, const KnownTargets& known,
                    std::vector<MoveOutcome>& moves) {
  moves.resize(static_cast<std::size_t>(message.score_size()));
  Rows rows("moves", moves);
  rows.DecodeSpans(message, known);
  rows.DecodeEnum("reason", message.has_reason(), message.reason(), kReasons,
                  [](MoveOutcome& outcome) -> MoveReason& { return outcome.move.reason; });
  rows.Decode(
      "error", message.has_error(), message.error(), kMaxInt,
      [](std::uint64_t value, MoveOutcome& outcome) { outcome.error = static_cast<int>(value); });
  rows.Decode("attempts", message.has_attempts(), message.attempts(), kMax32,
              [](std::uint64_t value, MoveOutcome& outcome) {
                outcome.attempts = static_cast<std::uint32_t>(value);
              });
  rows.Decode("latency_ns", message.has_latency_ns(), message.latency_ns(), kMaxNanoseconds,
              [](std::uint64_t value, MoveOutcome& outcome) {
                outcome.latency = std::chrono::nanoseconds(value);
              });
  if (!rows.verdict()) return rows.verdict();
  for (std::size_t i = 0; i < moves.size(); ++i) {
    moves[i].move.score = message.score(static_cast<int>(i));
    if (!std::isfinite(moves[i].move.score)) return Wrong(fmt::format("move {} has no score", i));
  }
  return {};
}

bool IsSum(double value) { return std::isfinite(value) && value >= 0; }

bool IsSound(const SettledMove& settled) {
  return IsSum(settled.seen) && IsSum(settled.weight) && settled.epochs_known <= settled.epochs &&
         (settled.epochs_known > 0 || (settled.seen == 0 && settled.weight == 0));
}

void EncodeSettled(const LedgerEpoch& epoch, const KnownTargets& known,
                   wire::SettledColumns& message) {
  Columns columns(epoch.settled, known);
  columns.EncodeSpans(message);
  for (const SettledMove& settled : epoch.settled) {
    TMPROF_CHECK(IsSound(settled) && settled.moved_in <= epoch.index);
    message.add_seen(settled.seen);
    message.add_weight(settled.weight);
  }
  columns.Encode(message.mutable_age(),
                 [&epoch](const SettledMove& settled) { return epoch.index - settled.moved_in; });
  columns.Encode(message.mutable_cause(), [](const SettledMove& settled) {
    return static_cast<std::uint64_t>(WireOf(kCauses, settled.cause));
  });
  columns.Encode(message.mutable_epochs(),
                 [](const SettledMove& settled) { return settled.epochs; });
  columns.Encode(message.mutable_epochs_known(),
                 [](const SettledMove& settled) { return settled.epochs_known; });
}

Verdict DecodeSettled(const wire::SettledColumns& message, std::uint64_t index,
                      const KnownTargets& known, std::vector<SettledMove>& settled) {
  if (message.seen_size() != message.weight_size()) {
    return Wrong(fmt::format("settled moves have {} sums of what was seen and {} weights",
                             message.seen_size(), message.weight_size()));
  }
  settled.resize(static_cast<std::size_t>(message.weight_size()));
  Rows rows("settled moves", settled);
  rows.DecodeSpans(message, known);
  rows.Decode("age", message.has_age(), message.age(), index,
              [index](std::uint64_t value, SettledMove& move) { move.moved_in = index - value; });
  rows.DecodeEnum("cause", message.has_cause(), message.cause(), kCauses,
                  [](SettledMove& move) -> SettledCause& { return move.cause; });
  rows.Decode("epochs", message.has_epochs(), message.epochs(), kMax64,
              [](std::uint64_t value, SettledMove& move) { move.epochs = value; });
  rows.Decode("epochs_known", message.has_epochs_known(), message.epochs_known(), kMax64,
              [](std::uint64_t value, SettledMove& move) { move.epochs_known = value; });
  if (!rows.verdict()) return rows.verdict();
  for (std::size_t i = 0; i < settled.size(); ++i) {
    settled[i].seen = message.seen(static_cast<int>(i));
    settled[i].weight = message.weight(static_cast<int>(i));
    if (!IsSound(settled[i])) {
      return Wrong(fmt::format(
          "settled move {} was seen {} times and weighs {} in {} known of {} "
          "epochs",
          i, settled[i].seen, settled[i].weight, settled[i].epochs_known, settled[i].epochs));
    }
  }
  return {};
}

void EncodeTargets(const std::vector<LedgerTarget>& targets, wire::LedgerEpoch& message) {
  TMPROF_CHECK(std::ranges::adjacent_find(targets, std::ranges::greater_equal(),
                                          &LedgerTarget::id) == targets.end());
  for (const LedgerTarget& target : targets) {
    wire::LedgerTarget& wired = *message.add_targets();
    wired.set_id(target.id.value());
    wired.set_pid(target.pid.value());
    wired.set_start_time_ticks(target.start_time_ticks);
    wired.set_name(target.name);
    wired.set_command(target.command);
  }
}

Verdict DecodeTargets(const wire::LedgerEpoch& message, std::vector<LedgerTarget>& targets) {
  targets.clear();
  for (const wire::LedgerTarget& wired : message.targets()) {
    if (!targets.empty() && wired.id() <= targets.back().id.value()) {
      return Wrong(fmt::format("target {} is not in ascending order", wired.id()));
    }
    targets.push_back({.id = TargetId(wired.id()),
                       .pid = Pid(wired.pid()),
                       .start_time_ticks = wired.start_time_ticks(),
                       .name = wired.name(),
                       .command = wired.command()});
  }
  return {};
}

void Remember(const std::vector<LedgerTarget>& targets, KnownTargets& known) {
  for (const LedgerTarget& target : targets) known.insert(target.id);
}

}  // namespace

void EncodeLedgerInfo(const LedgerInfo& info, wire::LedgerHeader& message) {
  message.Clear();
  message.set_tool_version(info.tool_version);
  message.set_kernel_release(info.kernel_release);
  message.set_wall_start_ns(std::chrono::nanoseconds(info.wall_start.time_since_epoch()).count());
  message.set_start_ns(info.start.time_since_epoch().count());
  message.set_epoch_length_ns(info.epoch_length.count());
  for (std::size_t tier = 1; tier <= info.tiers.size(); ++tier) {
    EncodeTier(info.tiers.NodesOf(Tier(static_cast<std::uint8_t>(tier))), *message.mutable_tiers());
  }
  message.set_rank_model(info.rank_model);
  message.set_policy(info.policy);
  message.set_dry_run(info.dry_run);
  EncodeSettings(info.settings, *message.mutable_settings());
  for (const std::string& warning : info.warnings) message.add_warnings(warning);
}

std::expected<LedgerInfo, std::string> DecodeLedgerInfo(const wire::LedgerHeader& message) {
  if (message.start_ns() < 0) return Wrong("the ledger starts before the machine did");
  auto nodes = DecodeTiers(message.tiers());
  if (!nodes) return Wrong(std::move(nodes.error()));
  Result<Tiers> tiers = Tiers::Make(*std::move(nodes));
  if (!tiers) return Wrong(tiers.error().Message());
  return LedgerInfo{.tool_version = message.tool_version(),
                    .kernel_release = message.kernel_release(),
                    .wall_start = std::chrono::system_clock::time_point(
                        std::chrono::nanoseconds(message.wall_start_ns())),
                    .start = MonotonicTime(std::chrono::nanoseconds(message.start_ns())),
                    .epoch_length = std::chrono::nanoseconds(message.epoch_length_ns()),
                    .tiers = std::move(*tiers),
                    .rank_model = message.rank_model(),
                    .policy = message.policy(),
                    .dry_run = message.dry_run(),
                    .settings = DecodeSettings(message.settings()),
                    .warnings = {message.warnings().begin(), message.warnings().end()}};
}

void EncodeLedgerEpoch(const LedgerEpoch& epoch, KnownTargets& known, wire::LedgerEpoch& message) {
  TMPROF_CHECK(MonotonicTime() <= epoch.start && epoch.start <= epoch.end);
  message.Clear();
  message.set_index(epoch.index);
  message.set_start_ns(epoch.start.time_since_epoch().count());
  message.set_length_ns(static_cast<std::uint64_t>((epoch.end - epoch.start).count()));
  EncodeTargets(epoch.targets, message);
  Remember(epoch.targets, known);
  message.set_bound(epoch.not_moved.bound);
  message.set_binding_unknown(epoch.not_moved.binding_unknown);
  message.set_shared(epoch.not_moved.shared);
  message.set_mapped_elsewhere(epoch.not_moved.mapped_elsewhere);
  message.set_backoff(epoch.not_moved.backoff);
  message.set_cooling(epoch.not_moved.cooling);
  message.set_without_gain(epoch.not_moved.without_gain);
  message.set_without_room(epoch.not_moved.without_room);
  message.set_over_quota(epoch.not_moved.over_quota);
  message.set_unplaced(epoch.not_moved.unplaced);
  message.set_replaced(epoch.replaced);
  if (!epoch.ranked_by.empty()) message.set_ranked_by(epoch.ranked_by);
  if (!epoch.moves.empty()) EncodeMoves(epoch.moves, known, *message.mutable_moves());
  if (!epoch.settled.empty()) EncodeSettled(epoch, known, *message.mutable_settled());
}

Verdict DecodeLedgerEpoch(const wire::LedgerEpoch& message, KnownTargets& known,
                          LedgerEpoch& epoch) {
  epoch.index = message.index();
  if (Verdict verdict =
          DecodeTimes(message.start_ns(), message.length_ns(), epoch.start, epoch.end);
      !verdict) {
    return verdict;
  }
  if (Verdict verdict = DecodeTargets(message, epoch.targets); !verdict) return verdict;
  Remember(epoch.targets, known);
  epoch.not_moved = {.bound = message.bound(),
                     .binding_unknown = message.binding_unknown(),
                     .shared = message.shared(),
                     .mapped_elsewhere = message.mapped_elsewhere(),
                     .backoff = message.backoff(),
                     .cooling = message.cooling(),
                     .without_gain = message.without_gain(),
                     .without_room = message.without_room(),
                     .over_quota = message.over_quota(),
                     .unplaced = message.unplaced()};
  epoch.replaced = message.replaced();
  epoch.ranked_by = message.ranked_by();
  epoch.moves.clear();
  epoch.settled.clear();
  if (message.has_moves()) {
    if (Verdict verdict = DecodeMoves(message.moves(), known, epoch.moves); !verdict) {
      return verdict;
    }
  }
  if (!message.has_settled()) return {};
  return DecodeSettled(message.settled(), epoch.index, known, epoch.settled);
}

}  // namespace tmprof
