// SPDX-License-Identifier: Apache-2.0
// The place of each setting in DaemonConfig.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/config/daemon_config.h"

namespace tmprof {
namespace {

using Rows = RowsOf<DaemonConfig>;
using Row = SettingRow<DaemonConfig>;

constexpr std::array kLogLevels{LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo,
                                LogLevel::kDebug};
constexpr std::array kLogFormats{LogFormat::kText, LogFormat::kJson};
constexpr std::array kWeights{RankWeight::kMemory, RankWeight::kAccesses, RankWeight::kReferences};
constexpr std::array kRanks{RankSource::kMemory, RankSource::kCombined, RankSource::kReferences,
                            RankSource::kSamples};

std::string FaultOfPath(const std::string& path) {
  if (path.starts_with('/') && !path.ends_with('/')) return {};
  return fmt::format("'{}' is no absolute path of a file; begin it with '/'", path);
}

// --- Settings that are more than a member

void SetHalfLife(const std::vector<Scalar>& given, DaemonConfig& config, const RefuseValue&) {
  const auto ms = std::get<std::uint64_t>(given.front());
  Ranker::Options& ranker = config.placement.ranker;
  ranker.memory = ms == 0 ? Ranker::Memory::kThisEpoch : Ranker::Memory::kHalfLife;
  ranker.half_life = std::chrono::milliseconds(ms);
}

std::vector<Scalar> GetHalfLife(const DaemonConfig& config) {
  switch (config.placement.ranker.memory) {
    case Ranker::Memory::kThisEpoch:
      return {std::uint64_t{0}};
    case Ranker::Memory::kHalfLife:
      return {Milliseconds::Give(config.placement.ranker.half_life)};
    case Ranker::Memory::kLearned:  // as where the field is left out
      break;
  }
  return {};
}

// One kind of evidence takes the place of the weight. It has a value only if it is given.
Row RankRow(std::string_view path) {
  Row row = Rows::One(path, [](auto& c) -> auto& { return c.placement.rank; }, OneOfThese{kRanks});
  row.get = [path, get = std::move(row.get)](const DaemonConfig& config) -> std::vector<Scalar> {
    if (!config.given.Has(path)) return {};
    return get(config);
  };
  return row;
}

Row WeightRow(std::string_view path) {
  Row row =
      Rows::One(path, [](auto& c) -> auto& { return c.placement.weight; }, OneOfThese{kWeights});
  row.set = [set = std::move(row.set)](const std::vector<Scalar>& given, DaemonConfig& config,
                                       const RefuseValue& refuse) {
    if (std::get<std::string>(given.front()) == Name(RankWeight::kStall)) {
      refuse(0, fmt::format("'stall': {}; use 'memory'", kWhyNoStall));
    } else if (!config.given.Has("placement.rank")) {  // else it is refused for that
      set(given, config, refuse);
    }
  };
  row.get = [get = std::move(row.get)](const DaemonConfig& config) -> std::vector<Scalar> {
    if (config.given.Has("placement.rank")) return {};
    return get(config);
  };
  return row;
}

// A policy that places, not one that only replays.
struct OnlinePolicy {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    const auto& name = std::get<std::string>(value);
    const auto policy = FindPolicy(name);
    if (policy && !(*policy)->replay_only) return *policy;
    std::vector<std::string_view> names;
    for (const PolicyEntry& entry : Policies()) {
      if (!entry.replay_only) names.push_back(entry.name);
    }
    return std::unexpected(
        fmt::format("'{}': {}; use one of {}", name,
                    policy ? "it goes by the coming epoch, which only a replay knows (tmprof eval)"
                           : policy.error().reason,
                    fmt::join(names, ", ")));
  }
  static Scalar Give(const PolicyEntry* member) { return std::string(member->name); }
};

struct LoopbackAddress {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    return ParseLoopbackAddress(std::get<std::string>(value));
  }
  static Scalar Give(const ListenAddress& address) { return ToString(address); }
};

// The rank model brings its own memory of evidence.
Row ModelRow(std::string_view path) {
  const Parsed codec{ParseRankModel, [](RankModel model) { return Name(model); }};
  return {.path = path,
          .set =
              [codec](const std::vector<Scalar>& given, DaemonConfig& config,
                      const RefuseValue& refuse) {
                if (auto model = codec.Take<RankModel>(given.front())) {
                  config.placement.ranker = Ranker::DefaultOptions(*model);
                } else {
                  refuse(0, std::move(model.error()));
                }
              },
          .get = [codec](const DaemonConfig& config) -> std::vector<Scalar> {
            return {codec.Give(config.placement.ranker.model)};
          }};
}

// A capacity of tier 1 in the form that `Value` and `Codec` are for.
template <typename Value, typename Codec>
Row CapacityRow(std::string_view path, Codec codec) {
  return {.path = path,
          .set =
              [codec](const std::vector<Scalar>& given, DaemonConfig& config,
                      const RefuseValue& refuse) {
                if (auto taken = codec.template Take<Value>(given.front())) {
                  config.tiers.capacity = *std::move(taken);
                } else {
                  refuse(0, std::move(taken.error()));
                }
              },
          .get = [codec](const DaemonConfig& config) -> std::vector<Scalar> {
            const auto* value = std::get_if<Value>(&config.tiers.capacity);
            if (value == nullptr) return {};
            return {codec.Give(*value)};
          }};
}

std::vector<Row> MakeRows() {
  return {
      CapacityRow<PageCount>("tiers.capacity_mib", Times<kPagesPerMib>{}),
      CapacityRow<Ratio>("tiers.footprint_ratio",
                         Parsed{ParseRatio, [](const Ratio& ratio) { return ToString(ratio); }}),
      Rows::One(
          "tiers.reserve_mib", [](auto& c) -> auto& { return c.tiers.reserve; },
          Times<kPagesPerMib>{}),

      ModelRow("placement.rank_model"),
      {.path = "placement.half_life_ms", .set = SetHalfLife, .get = GetHalfLife},
      RankRow("placement.rank"),
      Rows::One(
          "placement.policy", [](auto& c) -> auto& { return c.placement.policy; }, OnlinePolicy{}),
      Rows::One("placement.track_only", [](auto& c) -> auto& { return c.placement.track_only; }),
      Rows::One("placement.dry_run", [](auto& c) -> auto& { return c.mover.limits.dry_run; }),
      Rows::One(
          "placement.llc_kib", [](auto& c) -> auto& { return c.placement.ranker.llc_bytes; },
          Times<kBytesPerKib>{}),
      WeightRow("placement.rank_weight"),

      Rows::One("mover.most_pages_per_epoch",
                [](auto& c) -> auto& { return c.mover.most_pages_per_epoch; }),
      Rows::One(
          "mover.call_latency_us", [](auto& c) -> auto& { return c.mover.limits.call_latency; },
          Microseconds{}),
      Rows::One(
          "mover.bandwidth_mib_per_s",
          [](auto& c) -> auto& { return c.mover.limits.bytes_per_second; }, Times<kBytesPerMib>{}),
      Rows::One(
          "mover.cpu_share", [](auto& c) -> auto& { return c.mover.limits.cpu_ns_per_second; },
          ShareOfCpu{}),
      Rows::One("mover.attempts", [](auto& c) -> auto& { return c.mover.limits.attempts; }),
      Rows::One("mover.cost_of_move", [](auto& c) -> auto& { return c.mover.cost_of_move; }),
      Rows::One("mover.hysteresis", [](auto& c) -> auto& { return c.mover.hysteresis; }),
      Rows::One("mover.cool_down_epochs",
                [](auto& c) -> auto& { return c.mover.cool_down_epochs; }),
      Rows::One("mover.latency_gap_ns", [](auto& c) -> auto& { return c.mover.latency_gap_ns; }),

      Rows::One(
          "ledger.file", [](auto& c) -> auto& { return c.ledger.file; }, Checked{FaultOfPath}),
      Rows::One(
          "ledger.most_mib", [](auto& c) -> auto& { return c.ledger.most_bytes; },
          Times<kBytesPerMib>{}),
      Rows::One("ledger.kept", [](auto& c) -> auto& { return c.ledger.kept; }),

      Rows::One(
          "control.socket", [](auto& c) -> auto& { return c.control_socket; },
          Checked{FaultOfPath}),
      Rows::One(
          "metrics.listen", [](auto& c) -> auto& { return c.metrics; }, LoopbackAddress{}),
      Rows::One(
          "log.level", [](auto& c) -> auto& { return c.log.level; }, OneOfThese{kLogLevels}),
      Rows::One(
          "log.format", [](auto& c) -> auto& { return c.log.format; }, OneOfThese{kLogFormats}),
  };
}

}  // namespace

std::span<const SettingRow<DaemonConfig>> DaemonSettingRows() {
  static const std::vector<Row> rows = MakeRows();
  return rows;
}

}  // namespace tmprof
