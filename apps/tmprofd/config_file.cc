// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/config_file.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <expected>
#include <utility>

#include "base/unique_fd.h"
#include "profiler/gate/gate.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/hardware_events.h"
#include "proto/config.pb.h"
#include "proto/text_reader.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kPagesPerMib = (1U << 20) / kBasePageBytes;
constexpr std::uint64_t kBytesPerMib = 1U << 20;
constexpr std::size_t kCommandBytes = 15;  // in a name: TASK_COMM_LEN - 1 (include/linux/sched.h)
constexpr std::size_t kMostFaultsTold = 100;

constexpr std::array kLogLevels{LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo,
                                LogLevel::kDebug};
constexpr std::array kLogFormats{LogFormat::kText, LogFormat::kJson};
constexpr std::uint64_t kBytesOfKib = 1024;
constexpr std::array kWeights{RankWeight::kMemory, RankWeight::kAccesses, RankWeight::kReferences};
constexpr std::array kRanks{RankSource::kMemory, RankSource::kCombined, RankSource::kReferences,
                            RankSource::kSamples};

std::string Joined(const std::vector<std::string_view>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> OnlinePolicies() {
  std::vector<std::string_view> names;
  for (const PolicyEntry& policy : Policies()) {
    if (!policy.replay_only) names.push_back(policy.name);
  }
  return names;
}

std::vector<std::string_view> OnlineSources() {
  std::vector<std::string_view> names{"auto"};
  for (const SourceKind& kind : kSourceKinds) {
    if (kind.name != kExactSource.name) names.push_back(kind.name);
  }
  return names;
}

bool HasWildcard(const std::string& pattern) {
  return pattern.find_first_of("*?[\\") != std::string::npos;
}

// "'x': unknown name; use one of a, b".
std::string Fault(const std::string& value, const Error& error) {
  const std::string fact = fmt::format("'{}': {}", value, error.reason);
  return error.advice.empty() ? fact : fact + "; " + error.advice;
}

std::optional<ListenAddress> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view port = text.substr(colon + 1);
  std::string host(text.substr(0, colon));
  ListenAddress address;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc{} || end != port.data() + port.size() || address.port == 0) {
    return std::nullopt;
  }
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  if (::inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), binary.data()) != 1) {
    return std::nullopt;
  }
  address.host = std::move(host);
  return address;
}

bool IsLoopback(const ListenAddress& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  return ::inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

// Builds the configuration from the text that was read. Values that ReadText() refused are unset by
// now.
class Building {
 public:
  Building(const wire::Config& wire, TextReading& reading) : wire_(wire), reading_(reading) {}

  Config Run() {
    Targets(wire_.targets(), config_.targets);
    TiersOf(wire_.tiers(), config_.tiers);
    Profile(wire_.profile(), config_.profile);
    Placement(wire_.placement());
    Mover(wire_.mover(), config_.mover);
    LedgerOf(wire_.ledger(), config_.ledger);
    const auto& control = wire_.control();
    if (control.has_socket() && Absolute(control, "socket", control.socket())) {
      config_.control_socket = control.socket();
    }
    if (wire_.metrics().has_listen()) Metrics(wire_.metrics());
    if (wire_.log().has_level()) {
      Choose(wire_.log(), "level", wire_.log().level(), kLogLevels, config_.log.level);
    }
    if (wire_.log().has_format()) {
      Choose(wire_.log(), "format", wire_.log().format(), kLogFormats, config_.log.format);
    }
    return std::move(config_);
  }

 private:
  using Group = google::protobuf::Message;

  void Targets(const wire::Config::Targets& wire, TargetConfig& targets) {
    for (int i = 0; i < wire.command_size(); ++i) {
      const std::string& command = wire.command(i);
      if (!HasWildcard(command) && command.size() > kCommandBytes) {
        reading_.Refuse(wire, "command",
                        fmt::format("'{}' can match no process: the kernel keeps {} bytes of a "
                                    "name; end it with '*' there, or use exe",
                                    command, kCommandBytes),
                        i);
      }
      targets.commands.push_back(command);
    }
    for (int i = 0; i < wire.exe_size(); ++i) {
      const std::string& exe = wire.exe(i);
      if (!exe.starts_with('/') && !exe.starts_with('*')) {
        reading_.Refuse(wire, "exe",
                        fmt::format("'{}' can match no process: a path begins with '/', a pattern "
                                    "with '/' or '*'",
                                    exe),
                        i);
      }
      targets.executables.push_back(exe);
    }
    for (int i = 0; i < wire.cgroup_size(); ++i) {
      if (Cgroup(wire, i)) targets.cgroups.push_back(wire.cgroup(i));
    }
    for (const std::int32_t pid : wire.pid()) targets.pids.emplace_back(pid);

    if (wire.has_follow_children()) targets.tracking.follow_children = wire.follow_children();
    if (wire.has_min_cpu_share()) targets.tracking.filter->min_cpu_share = wire.min_cpu_share();
    if (wire.has_min_memory_share()) {
      targets.tracking.filter->min_memory_share = wire.min_memory_share();
    }
    if (wire.has_busiest_part()) targets.tracking.filter->busiest_part = wire.busiest_part();
    if (wire.has_process_filter() && !wire.process_filter()) {
      targets.tracking.filter.reset();
      if (targets.Everything()) {
        reading_.Refuse(wire, "process_filter",
                        "without it every process of the machine would be a target; name some by "
                        "command, exe, cgroup or pid");
      }
    }
    if (wire.has_max_targets()) targets.tracking.max_targets = wire.max_targets();
  }

  bool Cgroup(const wire::Config::Targets& wire, int i) {
    const std::string& cgroup = wire.cgroup(i);
    constexpr std::string_view kMount = "/sys/fs/cgroup/";
    if (cgroup.starts_with(kMount)) {
      reading_.Refuse(wire, "cgroup",
                      fmt::format("'{}' is named from the root of control groups: '{}'", cgroup,
                                  cgroup.substr(kMount.size() - 1)),
                      i);
      return false;
    }
    const std::filesystem::path path(cgroup);
    if (path.is_absolute() && path.has_filename() && path.lexically_normal() == path) return true;
    reading_.Refuse(wire, "cgroup",
                    fmt::format("'{}' is no control group as /proc/PID/cgroup has it, such as "
                                "'/system.slice/redis.service'",
                                cgroup),
                    i);
    return false;
  }

  void TiersOf(const wire::Config::Tiers& wire, TierConfig& tiers) {
    if (wire.tier_size() != 0) {
      std::vector<std::vector<NodeId>> nodes;
      for (const auto& tier : wire.tier()) {
        nodes.emplace_back();
        for (const std::uint32_t node : tier.node()) {
          nodes.back().emplace_back(static_cast<NodeId::rep>(node));
        }
      }
      auto made = tmprof::Tiers::Make(std::move(nodes));
      if (made) {
        tiers.given = *std::move(made);
      } else {
        reading_.Refuse(wire, "tier",
                        fmt::format("{}: {}", made.error().object, made.error().reason));
      }
    }
    tiers.capacity = CapacityOf(wire);
    for (int i = 0; i < wire.tier_size(); ++i) OwnCapacity(wire, i, tiers);
    if (wire.has_reserve_mib()) tiers.reserve = PageCount(wire.reserve_mib() * kPagesPerMib);
  }

  // Reads the capacity of a group that has one.
  template <typename Wire>
  Capacity CapacityOf(const Wire& wire) {
    if (wire.has_capacity_mib()) return PageCount(wire.capacity_mib() * kPagesPerMib);
    if (!wire.has_footprint_ratio()) return FreeCapacity{};
    const auto ratio = ParseRatio(wire.footprint_ratio());
    if (ratio) return *ratio;
    reading_.Refuse(wire, "footprint_ratio", Fault(wire.footprint_ratio(), ratio.error()));
    return FreeCapacity{};
  }

  void OwnCapacity(const wire::Config::Tiers& wire, int i, TierConfig& tiers) {
    const auto& tier = wire.tier(i);
    if (tier.capacity_case() == wire::Config::Tiers::Tier::CAPACITY_NOT_SET) {
      if (i > 0) tiers.lower_capacities.emplace_back(FreeCapacity{});
      return;
    }
    const char* field = tier.has_capacity_mib() ? "capacity_mib" : "footprint_ratio";
    const Capacity capacity = CapacityOf(tier);
    if (i == 0) {
      if (wire.capacity_case() != wire::Config::Tiers::CAPACITY_NOT_SET) {
        reading_.Refuse(tier, field, "tiers has a capacity, too, and that is tier 1's");
      }
      tiers.capacity = capacity;
      return;
    }
    if (i + 1 == wire.tier_size()) {
      reading_.Refuse(tier, field, "what is beyond it would have no tier to go to");
    }
    tiers.lower_capacities.push_back(capacity);
  }

  void Profile(const wire::Config::Profile& wire, ProfileConfig& profile) {
    if (wire.has_epoch_ms()) profile.epoch = std::chrono::milliseconds(wire.epoch_ms());
    if (wire.has_max_cpu_share()) profile.max_cpu_share = wire.max_cpu_share();
    SourceChoice& sources = profile.sources;
    if (wire.source_size() != 0) sources.names.assign(wire.source().begin(), wire.source().end());
    const auto online = OnlineSources();
    for (int i = 0; i < wire.source_size(); ++i) {
      const std::string& name = wire.source(i);
      if (std::ranges::find(online, name) != online.end()) continue;
      const std::string fault =
          name == kExactSource.name
              ? "it runs a program itself, with 'tmprof record --source exact'"
              : "unknown name";
      reading_.Refuse(wire, "source",
                      fmt::format("'{}': {}; use some of {}", name, fault, Joined(online)), i);
    }
    if (wire.has_max_overhead()) sources.max_overhead = wire.max_overhead();
    if (wire.has_abit()) {
      if (const auto abit = ParseAbit(wire.abit())) {
        sources.abit = *abit;
      } else {
        reading_.Refuse(wire, "abit", Fault(wire.abit(), abit.error()));
      }
    }
    if (wire.has_scan_interval_ms()) {
      sources.scan_interval = std::chrono::milliseconds(wire.scan_interval_ms());
    }
    if (wire.has_sample_rate()) {
      const auto rate = ParseSampleRate(wire.sample_rate());
      if (rate) {
        sources.sample_rate = static_cast<unsigned>(*rate);
      } else {
        reading_.Refuse(wire, "sample_rate", Fault(wire.sample_rate(), rate.error()));
      }
    }
    if (wire.has_gate()) {
      sources.gate = wire.gate();
      const auto mode = ParseGateMode(wire.gate());
      if (!mode) reading_.Refuse(wire, "gate", Fault(wire.gate(), mode.error()));
    }
    if (wire.has_seed()) sources.seed = wire.seed();
    if (wire.has_ageing()) Choose(wire, "ageing", wire.ageing(), abit::kAgeingUses, sources.ageing);
  }

  void Placement(const wire::Config::Placement& wire) {
    PlacementConfig& placement = config_.placement;
    if (wire.has_rank_model()) {
      const auto model = ParseRankModel(wire.rank_model());
      if (model) {
        placement.ranker = Ranker::DefaultOptions(*model);
      } else {
        reading_.Refuse(wire, "rank_model", Fault(wire.rank_model(), model.error()));
      }
    }
    placement.half_life_given = wire.has_half_life_ms();
    if (wire.has_half_life_ms()) {
      placement.ranker.memory =
          wire.half_life_ms() == 0 ? Ranker::Memory::kThisEpoch : Ranker::Memory::kHalfLife;
      placement.ranker.half_life = std::chrono::milliseconds(wire.half_life_ms());
    }
    Rank(wire, placement);
    Cache(wire, placement);
    if (wire.has_policy()) Policy(wire, placement);
    placement.track_only = wire.track_only();
    config_.mover.limits.dry_run = wire.dry_run();
    if (wire.track_only() && wire.dry_run()) {
      reading_.Refuse(wire, "dry_run",
                      "track_only decides no move that could be made dry; only one of them can be "
                      "true");
    }
  }

  void Rank(const wire::Config::Placement& wire, PlacementConfig& placement) {
    const bool sums = placement.ranker.model == RankModel::kSum;
    placement.rank_given = wire.has_rank();
    placement.weight_given = wire.has_rank_weight();
    if (!placement.rank_given) {
      Weight(wire, placement);
      return;
    }
    Choose(wire, "rank", wire.rank(), kRanks, placement.rank);
    placement.weight = WeightOf(placement.rank);
    if (placement.weight_given) {
      reading_.Refuse(wire, "rank_weight",
                      "rank chooses one kind of evidence instead of a weight; set one of them");
    }
    if (sums && placement.rank == RankSource::kMemory) {
      reading_.Refuse(wire, "rank",
                      "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
    }
  }

  void Weight(const wire::Config::Placement& wire, PlacementConfig& placement) {
    const bool sums = placement.ranker.model == RankModel::kSum;
    if (sums) placement.weight = RankWeight::kAccesses;
    if (wire.has_rank_weight()) {
      if (wire.rank_weight() == Name(RankWeight::kStall)) {
        reading_.Refuse(wire, "rank_weight", fmt::format("'stall': {}; use 'memory'", kWhyNoStall));
      } else {
        Choose(wire, "rank_weight", wire.rank_weight(), kWeights, placement.weight);
      }
      if (sums && placement.weight == RankWeight::kMemory) {
        reading_.Refuse(wire, "rank_weight",
                        "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
      }
    }
    // The placer goes by all accesses while no source counts those to memory.
    placement.rank = BasisOf(placement.weight, {.memory = true}, RankUse::kPlace).source;
  }

  void Cache(const wire::Config::Placement& wire, PlacementConfig& placement) {
    if (!wire.has_llc_kib()) return;
    if (placement.ranker.model == RankModel::kSum) {
      reading_.Refuse(wire, "llc_kib",
                      "rank_model 'sum' estimates no rates; use rank_model 'rate'");
    } else if (placement.rank != RankSource::kMemory) {
      reading_.Refuse(
          wire, "llc_kib",
          fmt::format("{} '{}' counts accesses that the cache serves, too; use "
                      "rank_weight 'memory'",
                      placement.rank_given ? "rank" : "rank_weight",
                      placement.rank_given ? Name(placement.rank) : Name(placement.weight)));
    }
    placement.ranker.llc_bytes = wire.llc_kib() * kBytesOfKib;
  }

  void Policy(const wire::Config::Placement& wire, PlacementConfig& placement) {
    const auto policy = FindPolicy(wire.policy());
    if (policy && !(*policy)->replay_only) {
      placement.policy = *policy;
      return;
    }
    const std::string fault =
        policy ? "it goes by the coming epoch, which only a replay knows (tmprof eval)"
               : policy.error().reason;
    reading_.Refuse(
        wire, "policy",
        fmt::format("'{}': {}; use one of {}", wire.policy(), fault, Joined(OnlinePolicies())));
  }

  static void Mover(const wire::Config::Mover& wire, MoverConfig& mover) {
    if (wire.has_most_pages_per_epoch()) {
      mover.most_pages_per_epoch = PageCount(wire.most_pages_per_epoch());
    }
    if (wire.has_call_latency_us()) {
      mover.limits.call_latency = std::chrono::microseconds(wire.call_latency_us());
    }
    if (wire.has_bandwidth_mib_per_s()) {
      mover.limits.bytes_per_second = wire.bandwidth_mib_per_s() * kBytesPerMib;
    }
    if (wire.has_cpu_share()) {
      mover.limits.cpu_ns_per_second =
          static_cast<std::uint64_t>(std::llround(wire.cpu_share() * kNsPerSecond));
    }
    if (wire.has_attempts()) mover.limits.attempts = wire.attempts();
    if (wire.has_cost_of_move()) mover.cost_of_move = wire.cost_of_move();
    if (wire.has_latency_gap_ns()) mover.latency_gap_ns = wire.latency_gap_ns();
    if (wire.has_hysteresis()) mover.hysteresis = wire.hysteresis();
    if (wire.has_cool_down_epochs()) mover.cool_down_epochs = wire.cool_down_epochs();
  }

  void LedgerOf(const wire::Config::Ledger& wire, LedgerConfig& ledger) {
    if (wire.has_file() && Absolute(wire, "file", wire.file())) ledger.file = wire.file();
    if (wire.has_most_mib()) ledger.most_bytes = wire.most_mib() * kBytesPerMib;
    if (wire.has_kept()) ledger.kept = wire.kept();
  }

  void Metrics(const wire::Config::Metrics& wire) {
    constexpr std::string_view kAllowed = "use 127.0.0.1:PORT or [::1]:PORT";
    auto address = ParseAddress(wire.listen());
    if (!address) {
      reading_.Refuse(wire, "listen",
                      fmt::format("'{}' is no address in numbers with a port from 1 to 65535; {}",
                                  wire.listen(), kAllowed));
    } else if (!IsLoopback(*address)) {
      reading_.Refuse(wire, "listen",
                      fmt::format("'{}' is not of the loopback interface, and metrics are for this "
                                  "machine only; {}",
                                  wire.listen(), kAllowed));
    } else {
      config_.metrics = *std::move(address);
    }
  }

  bool Absolute(const Group& group, const char* field, const std::string& path) {
    if (path.starts_with('/') && !path.ends_with('/')) return true;
    reading_.Refuse(group, field,
                    fmt::format("'{}' is no absolute path of a file; begin it with '/'", path));
    return false;
  }

  template <typename Choice, std::size_t n>
  void Choose(const Group& group, const char* field, const std::string& name,
              const std::array<Choice, n>& choices, Choice& chosen) {
    std::vector<std::string_view> names;
    for (const Choice choice : choices) {
      if (Name(choice) == name) {
        chosen = choice;
        return;
      }
      names.push_back(Name(choice));
    }
    reading_.Refuse(group, field,
                    fmt::format("'{}': unknown name; use one of {}", name, Joined(names)));
  }

  static constexpr double kNsPerSecond = 1e9;

  const wire::Config& wire_;
  TextReading& reading_;
  Config config_;
};

// --- Printing

template <typename Duration>
auto In(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<Duration>(time).count());
}

template <typename Values>
void Append(const Values& values, google::protobuf::RepeatedPtrField<std::string>& field) {
  for (const std::string& value : values) field.Add(std::string(value));
}

void Print(const TargetConfig& targets, wire::Config::Targets& wire) {
  Append(targets.commands, *wire.mutable_command());
  Append(targets.executables, *wire.mutable_exe());
  Append(targets.cgroups, *wire.mutable_cgroup());
  for (const Pid pid : targets.pids) wire.add_pid(pid.value());
  wire.set_follow_children(targets.tracking.follow_children);
  wire.set_process_filter(targets.tracking.filter.has_value());
  if (const auto& filter = targets.tracking.filter) {
    wire.set_min_cpu_share(filter->min_cpu_share);
    wire.set_min_memory_share(filter->min_memory_share);
    wire.set_busiest_part(filter->busiest_part);
  }
  if (const auto most = targets.tracking.max_targets) {
    wire.set_max_targets(static_cast<std::uint32_t>(*most));
  }
}

template <typename Wire>
void Print(const Capacity& capacity, Wire& wire) {
  if (const auto* pages = std::get_if<PageCount>(&capacity)) {
    wire.set_capacity_mib(pages->value() / kPagesPerMib);
  } else if (const auto* ratio = std::get_if<Ratio>(&capacity)) {
    wire.set_footprint_ratio(ToString(*ratio));
  }
}

void Print(const TierConfig& tiers, wire::Config::Tiers& wire) {
  for (std::size_t i = 1; tiers.given && i <= tiers.given->size(); ++i) {
    auto& tier = *wire.add_tier();
    for (const NodeId node : tiers.given->NodesOf(Tier(static_cast<Tier::rep>(i)))) {
      tier.add_node(node.value());
    }
    if (i >= 2 && i - 2 < tiers.lower_capacities.size()) Print(tiers.lower_capacities[i - 2], tier);
  }
  Print(tiers.capacity, wire);
  wire.set_reserve_mib(tiers.reserve.value() / kPagesPerMib);
}

void Print(const ProfileConfig& profile, wire::Config::Profile& wire) {
  const SourceChoice& sources = profile.sources;
  wire.set_epoch_ms(static_cast<std::uint32_t>(In<std::chrono::milliseconds>(profile.epoch)));
  wire.set_max_cpu_share(profile.max_cpu_share);
  Append(sources.names, *wire.mutable_source());
  wire.set_max_overhead(sources.max_overhead);
  wire.set_abit(AbitText(sources.abit));
  wire.set_scan_interval_ms(
      static_cast<std::uint32_t>(In<std::chrono::milliseconds>(sources.scan_interval)));
  wire.set_sample_rate(fmt::format("{}x", sources.sample_rate));
  wire.set_gate(sources.gate);
  wire.set_seed(static_cast<std::uint32_t>(sources.seed));
  wire.set_ageing(std::string(Name(sources.ageing)));
}

void Print(const PlacementConfig& placement, bool dry_run, wire::Config::Placement& wire) {
  wire.set_rank_model(std::string(Name(placement.ranker.model)));
  switch (placement.ranker.memory) {
    case Ranker::Memory::kThisEpoch:
      wire.set_half_life_ms(0);
      break;
    case Ranker::Memory::kHalfLife:
      wire.set_half_life_ms(In<std::chrono::milliseconds>(placement.ranker.half_life));
      break;
    case Ranker::Memory::kLearned:  // as where the field is left out
      break;
  }
  if (placement.rank_given) {
    wire.set_rank(std::string(Name(placement.rank)));
  } else {
    wire.set_rank_weight(std::string(Name(placement.weight)));
  }
  if (placement.ranker.llc_bytes) wire.set_llc_kib(*placement.ranker.llc_bytes / kBytesOfKib);
  wire.set_policy(std::string(placement.policy->name));
  wire.set_track_only(placement.track_only);
  wire.set_dry_run(dry_run);
}

void Print(const MoverConfig& mover, wire::Config::Mover& wire) {
  wire.set_most_pages_per_epoch(mover.most_pages_per_epoch.value());
  wire.set_call_latency_us(
      static_cast<std::uint32_t>(In<std::chrono::microseconds>(mover.limits.call_latency)));
  if (const auto bytes = mover.limits.bytes_per_second) {
    wire.set_bandwidth_mib_per_s(static_cast<std::uint32_t>(*bytes / kBytesPerMib));
  }
  if (const auto cpu_ns = mover.limits.cpu_ns_per_second) {
    wire.set_cpu_share(static_cast<double>(*cpu_ns) / 1e9);
  }
  wire.set_attempts(mover.limits.attempts);
  if (mover.cost_of_move) wire.set_cost_of_move(*mover.cost_of_move);
  if (mover.latency_gap_ns) wire.set_latency_gap_ns(*mover.latency_gap_ns);
  wire.set_hysteresis(mover.hysteresis);
  wire.set_cool_down_epochs(mover.cool_down_epochs);
}

// --- Files

std::string Place(const std::string& name, const TextFault& fault) {
  const std::string place = fmt::format("{}:{}:{}: ", name, fault.place.line, fault.place.column);
  return fault.field.empty() ? place : place + fault.field + ": ";
}

Error Refusal(const std::string& name, std::vector<TextFault> faults) {
  std::ranges::sort(faults);
  std::string lines = faults.size() == 1 ? "1 fault" : fmt::format("{} faults", faults.size());
  for (std::size_t i = 0; i < std::min(faults.size(), kMostFaultsTold); ++i) {
    lines += "\n" + Place(name, faults[i]) + faults[i].what;
  }
  if (faults.size() > kMostFaultsTold) {
    lines += fmt::format("\nand {} more", faults.size() - kMostFaultsTold);
  }
  return BadInput("use configuration", name, lines);
}

std::optional<TextFault> FirstControlCharacter(std::string_view text) {
  TextPlace place;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\n' && c != '\t' && c != '\r') || byte == 0x7F) {
      return TextFault{place, "", fmt::format("byte 0x{:02x} is not of a text", byte)};
    }
    ++place.column;
    if (c == '\n') place = {place.line + 1, 1};
  }
  return std::nullopt;
}

// Sets the field that "group.field" names; the error is a reason. Fields that may be repeated are
// set in files only.
std::expected<void, std::string> SetField(wire::Config& config, const Setting& setting) {
  const google::protobuf::LogSilencer silent;  // the fault is reported below
  google::protobuf::Message* message = &config;
  std::string_view path = setting.name;
  while (true) {
    const std::size_t dot = path.find('.');
    const auto* field = message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    if (field == nullptr || field->is_repeated()) {
      return std::unexpected("there is no such field that can be set while it runs");
    }
    const bool is_group = field->message_type() != nullptr;
    if (is_group != (dot != std::string_view::npos)) {
      return std::unexpected("names a group of fields: GROUP.FIELD=VALUE");
    }
    if (!is_group) {
      const bool quoted = field->type() == google::protobuf::FieldDescriptor::TYPE_STRING &&
                          !setting.value.starts_with('"');
      if (!quoted && setting.value == "default") {
        message->GetReflection()->ClearField(message, field);
        return {};
      }
      const std::string value = quoted ? '"' + setting.value + '"' : setting.value;
      if (google::protobuf::TextFormat::ParseFieldValueFromString(value, field, message)) return {};
      return std::unexpected(fmt::format("'{}' is no value of it", setting.value));
    }
    message = message->GetReflection()->MutableMessage(message, field);
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, const std::string& name) {
  if (text.size() > kMostConfigBytes) {
    return Fail(
        BadInput("use configuration", name, "it is larger than 1 MiB, which no configuration is"));
  }
  if (auto fault = FirstControlCharacter(text)) return Fail(Refusal(name, {*std::move(fault)}));
  wire::Config wire;
  TextReading reading = ReadText(text, wire);
  Config config = Building(wire, reading).Run();
  if (!reading.faults.empty()) return Fail(Refusal(name, std::move(reading.faults)));
  return config;
}

Result<Config> LoadConfig(const std::string& path) {
  const auto refuse = [&path](int error) {
    return Fail(Refused("read configuration", path, error));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return refuse(errno);
  std::string text(kMostConfigBytes + 1, '\0');  // one more byte shows that a file is too large
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return ParseConfig(text, path);
}

std::string PrintConfig(const Config& config) {
  wire::Config wire;
  Print(config.targets, *wire.mutable_targets());
  Print(config.tiers, *wire.mutable_tiers());
  Print(config.profile, *wire.mutable_profile());
  Print(config.placement, config.mover.limits.dry_run, *wire.mutable_placement());
  Print(config.mover, *wire.mutable_mover());
  if (config.ledger.file) wire.mutable_ledger()->set_file(config.ledger.file->string());
  if (config.ledger.most_bytes) {
    wire.mutable_ledger()->set_most_mib(
        static_cast<std::uint32_t>(*config.ledger.most_bytes / kBytesPerMib));
  }
  wire.mutable_ledger()->set_kept(config.ledger.kept);
  wire.mutable_control()->set_socket(config.control_socket.string());
  if (const auto& metrics = config.metrics) {
    const bool v6 = metrics->host.contains(':');
    const std::string host = v6 ? "[" + metrics->host + "]" : metrics->host;
    wire.mutable_metrics()->set_listen(fmt::format("{}:{}", host, metrics->port));
  }
  wire.mutable_log()->set_level(std::string(Name(config.log.level)));
  wire.mutable_log()->set_format(std::string(Name(config.log.format)));

  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(wire, &text);
  return text;
}

bool ObserveAlike(const Config& a, const Config& b) {
  const auto observation = [](const Config& config) {
    wire::Config wire;
    Print(config.tiers, *wire.mutable_tiers());
    Print(config.profile, *wire.mutable_profile());
    // These fields decide on placement and its times, not on observation.
    wire.mutable_tiers()->clear_capacity();
    for (auto& tier : *wire.mutable_tiers()->mutable_tier()) tier.clear_capacity();
    wire.mutable_tiers()->clear_reserve_mib();
    wire.mutable_profile()->clear_epoch_ms();
    wire.mutable_profile()->clear_max_cpu_share();
    return wire.SerializeAsString();
  };
  return observation(a) == observation(b);
}

Result<Config> WithSettings(const Config& config, const std::vector<Setting>& settings) {
  constexpr std::string_view kName = "set";
  wire::Config wire;
  google::protobuf::TextFormat::ParseFromString(PrintConfig(config), &wire);
  // Fields that follow from another field follow from its new value.
  if (!config.placement.half_life_given) wire.mutable_placement()->clear_half_life_ms();
  if (!config.placement.weight_given) wire.mutable_placement()->clear_rank_weight();
  for (const Setting& setting : settings) {
    if (auto status = SetField(wire, setting); !status) {
      return Fail(BadInput(std::string(kName), setting.name, status.error()));
    }
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(wire, &text);
  return ParseConfig(text, std::string(kName));
}

}  // namespace tmprof
