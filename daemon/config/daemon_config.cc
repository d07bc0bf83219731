// SPDX-License-Identifier: Apache-2.0

#include "daemon/config/daemon_config.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "base/text/near_names.h"

namespace tmprof {
namespace {

// Tells apart what one setting says from what several say together.
class Settling {
 public:
  Settling(DaemonConfig& config, const RefuseSetting& refuse) : config_(config), refuse_(refuse) {}

  void Run() {
    DeriveTiers();
    if (config_.given.Has("placement.rank")) {
      DeriveFromRank();
    } else {
      DeriveFromWeight();
    }
    CheckCache();
    if (config_.placement.track_only && config_.mover.limits.dry_run) {
      Refuse("placement.dry_run",
             "track_only decides no move that could be made dry; only one of them can be true");
    }
  }

 private:
  void Refuse(std::string_view path, std::string why) { refuse_(path, std::move(why), 0); }

  void DeriveTiers() {
    const std::size_t groups = config_.given.Groups("tiers.tier");
    if (groups == 0) return;
    std::vector<std::vector<NodeId>> nodes;
    for (std::size_t i = 0; i < groups; ++i) {
      nodes.emplace_back();
      for (const Scalar& node : config_.given.Values(fmt::format("tiers.tier[{}].node", i))) {
        nodes.back().emplace_back(static_cast<NodeId::rep>(std::get<std::uint64_t>(node)));
      }
    }
    auto made = Tiers::Make(std::move(nodes));
    if (made) {
      config_.tiers.given = *std::move(made);
    } else {
      Refuse("tiers.tier", fmt::format("{}: {}", made.error().object, made.error().reason));
    }
    for (std::size_t i = 0; i < groups; ++i) DeriveOwnCapacity(i, groups);
  }

  // Reads the capacity of a tier that has one in this field.
  Capacity CapacityIn(const std::string& path) {
    const Scalar value = config_.given.Values(path).front();
    if (const auto* mib = std::get_if<std::uint64_t>(&value)) return PageCount(*mib * kPagesPerMib);
    const auto& text = std::get<std::string>(value);
    const auto ratio = ParseRatio(text);
    if (ratio) return *ratio;
    Refuse(path, FaultText(text, ratio.error()));
    return FreeCapacity{};
  }

  void DeriveOwnCapacity(std::size_t i, std::size_t groups) {
    std::string path;  // of the field that has it
    for (const char* name : {"capacity_mib", "footprint_ratio"}) {
      std::string field = fmt::format("tiers.tier[{}].{}", i, name);
      if (config_.given.Has(field)) path = std::move(field);
    }
    if (path.empty()) {
      if (i > 0) config_.tiers.lower_capacities.emplace_back(FreeCapacity{});
      return;
    }
    const Capacity capacity = CapacityIn(path);
    if (i == 0) {
      if (config_.given.Has("tiers.capacity_mib") || config_.given.Has("tiers.footprint_ratio")) {
        Refuse(path, "tiers has a capacity, too, and that is tier 1's");
      }
      config_.tiers.capacity = capacity;
      return;
    }
    if (i + 1 == groups) Refuse(path, "what is beyond it would have no tier to go to");
    config_.tiers.lower_capacities.push_back(capacity);
  }

  bool Sums() const { return config_.placement.ranker.model == RankModel::kSum; }

  void DeriveFromRank() {
    PlacementConfig& placement = config_.placement;
    placement.weight = WeightOf(placement.rank);
    if (config_.given.Has("placement.rank_weight")) {
      Refuse("placement.rank_weight",
             "rank chooses one kind of evidence instead of a weight; set one of them");
    }
    if (Sums() && placement.rank == RankSource::kMemory) {
      Refuse("placement.rank",
             "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
    }
  }

  void DeriveFromWeight() {
    PlacementConfig& placement = config_.placement;
    const std::vector<Scalar> given = config_.given.Values("placement.rank_weight");
    if (Sums() && given.empty()) placement.weight = RankWeight::kAccesses;
    if (Sums() && !given.empty() &&
        std::get<std::string>(given.front()) == Name(RankWeight::kMemory)) {
      Refuse("placement.rank_weight",
             "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
    }
    // The placer goes by all accesses while no source counts those to memory.
    placement.rank = BasisOf(placement.weight, {.memory = true}, RankUse::kPlace).source;
  }

  void CheckCache() {
    if (!config_.given.Has("placement.llc_kib")) return;
    const PlacementConfig& placement = config_.placement;
    if (Sums()) {
      Refuse("placement.llc_kib", "rank_model 'sum' estimates no rates; use rank_model 'rate'");
    } else if (placement.rank != RankSource::kMemory) {
      const bool by_rank = config_.given.Has("placement.rank");
      Refuse("placement.llc_kib",
             fmt::format("{} '{}' counts accesses that the cache serves, too; use "
                         "rank_weight 'memory'",
                         by_rank ? "rank" : "rank_weight",
                         by_rank ? Name(placement.rank) : Name(placement.weight)));
    }
  }

  DaemonConfig& config_;
  const RefuseSetting& refuse_;
};

// Advice on a name that no field has: that of the field with this name in any group, or the
// nearest.
std::string AdviceOn(const std::string& name) {
  const std::vector<std::string> paths = SettingPaths();
  for (const std::string& path : paths) {
    if (path.ends_with("." + name)) return fmt::format("; did you mean '{}'?", path);
  }
  const std::string nearest = Nearest(name, paths);
  return nearest.empty() ? nearest : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace

std::expected<void, std::string> SetGiven(GivenSettings& given, const Setting& setting) {
  if (setting.name == "tiers.capacity_mib" || setting.name == "tiers.footprint_ratio") {
    given.Clear("tiers.tier[0].capacity_mib");
    given.Clear("tiers.tier[0].footprint_ratio");
  }
  auto set = given.Set(setting);
  if (set) return {};
  const auto& [why, is_unknown] = set.error();
  return std::unexpected(why + (is_unknown ? AdviceOn(setting.name) : ""));
}

void Settle(DaemonConfig& config, const RefuseSetting& refuse) { Settling(config, refuse).Run(); }

void GiveTiers(const TierConfig& config, GivenSettings& settings) {
  for (std::size_t i = 0; config.given && i < config.given->size(); ++i) {
    const auto in_tier = [i](const char* field) {
      return fmt::format("tiers.tier[{}].{}", i, field);
    };
    std::vector<Scalar> nodes;
    for (const NodeId node : config.given->NodesOf(Tier(static_cast<Tier::rep>(i + 1)))) {
      nodes.emplace_back(std::uint64_t{node.value()});
    }
    settings.Give(in_tier("node"), nodes);
    if (i == 0 || i > config.lower_capacities.size()) continue;
    const Capacity& capacity = config.lower_capacities[i - 1];
    if (const auto* pages = std::get_if<PageCount>(&capacity)) {
      settings.Give(in_tier("capacity_mib"), {pages->value() / kPagesPerMib});
    } else if (const auto* ratio = std::get_if<Ratio>(&capacity)) {
      settings.Give(in_tier("footprint_ratio"), {ToString(*ratio)});
    }
  }
}

}  // namespace tmprof
