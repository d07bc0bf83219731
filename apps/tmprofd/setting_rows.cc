// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/setting_rows.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <expected>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "profiler/gate/gate.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/hardware_events.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kBytesPerMib = 1U << 20;
constexpr std::uint64_t kBytesPerKib = 1024;
constexpr std::size_t kCommandBytes = 15;  // in a name: TASK_COMM_LEN - 1 (include/linux/sched.h)

constexpr std::array kLogLevels{LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo,
                                LogLevel::kDebug};
constexpr std::array kLogFormats{LogFormat::kText, LogFormat::kJson};
constexpr std::array kWeights{RankWeight::kMemory, RankWeight::kAccesses, RankWeight::kReferences};
constexpr std::array kRanks{RankSource::kMemory, RankSource::kCombined, RankSource::kReferences,
                            RankSource::kSamples};

// A value as the member has it, or why it is refused.
template <typename T>
using Taken = std::expected<T, std::string>;

// --- Codecs: Take() makes the member's value of the field's, and Give() is its inverse. Each
// member has the type T.

// The same number, truth or text. A number may be counted by a unit type.
struct AsIs {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    if constexpr (std::same_as<T, bool> || std::same_as<T, double>) {
      return std::get<T>(value);
    } else if constexpr (std::integral<T>) {
      return static_cast<T>(std::get<std::uint64_t>(value));
    } else if constexpr (std::constructible_from<T, std::string>) {
      return T(std::get<std::string>(value));
    } else {
      return T(static_cast<typename T::rep>(std::get<std::uint64_t>(value)));
    }
  }
  template <typename T>
  static Scalar Give(const T& member) {
    if constexpr (std::same_as<T, bool> || std::same_as<T, double> ||
                  std::same_as<T, std::string>) {
      return member;
    } else if constexpr (std::integral<T>) {
      return static_cast<std::uint64_t>(member);
    } else if constexpr (std::same_as<T, std::filesystem::path>) {
      return member.string();
    } else {
      return static_cast<std::uint64_t>(member.value());
    }
  }
};

// A time in whole `Unit`s.
template <typename Unit>
struct Time {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    return Unit(std::get<std::uint64_t>(value));
  }
  static Scalar Give(std::chrono::nanoseconds member) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<Unit>(member).count());
  }
};

// A number of units, of which each is `unit` of the member.
template <std::uint64_t unit>
struct Times {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    return T(std::get<std::uint64_t>(value) * unit);
  }
  static Scalar Give(std::uint64_t member) { return member / unit; }
  static Scalar Give(PageCount member) { return member.value() / unit; }
};

// A share of one CPU, which the member has in ns per second.
struct ShareOfCpu {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    return static_cast<T>(std::llround(std::get<double>(value) * kNsPerSecond));
  }
  static Scalar Give(std::uint64_t member) { return static_cast<double>(member) / kNsPerSecond; }
  static constexpr double kNsPerSecond = 1e9;
};

std::string Joined(const std::vector<std::string_view>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// One of `choices`, by its Name().
template <typename Choice, std::size_t n>
struct OneOfThese {
  template <typename T>
  Taken<T> Take(const Scalar& value) const {
    const auto& text = std::get<std::string>(value);
    std::vector<std::string_view> names;
    for (const Choice choice : choices) {
      if (Name(choice) == text) return choice;
      names.push_back(Name(choice));
    }
    return std::unexpected(fmt::format("'{}': unknown name; use one of {}", text, Joined(names)));
  }
  static Scalar Give(Choice member) { return std::string(Name(member)); }
  std::array<Choice, n> choices;
};

// Text that `parse`, a Result<T>(std::string_view), takes, and that `print` returns again.
template <typename Parse, typename Print>
struct Parsed {
  template <typename T>
  Taken<T> Take(const Scalar& value) const {
    const auto& text = std::get<std::string>(value);
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(Fault(text, parsed.error()));
    return static_cast<T>(*parsed);
  }
  template <typename T>
  Scalar Give(const T& member) const {
    return std::string(print(member));
  }
  Parse parse;
  Print print;
};

// Text that `fault_of` finds no fault in; it returns the empty text then.
template <typename FaultOf>
struct Checked {
  template <typename T>
  Taken<T> Take(const Scalar& value) const {
    std::string fault = fault_of(std::get<std::string>(value));
    if (!fault.empty()) return std::unexpected(std::move(fault));
    return AsIs::Take<T>(value);
  }
  template <typename T>
  static Scalar Give(const T& member) {
    return AsIs::Give(member);
  }
  FaultOf fault_of;
};

// --- Rows

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

// A setting whose member `of(config)` returns by reference. If the member is optional, it has no
// value until it is set.
template <typename Of, typename Codec = AsIs>
SettingRow Row(std::string_view path, Of of, Codec codec = {}) {
  using Member = std::remove_cvref_t<decltype(of(std::declval<Config&>()))>;
  return {
      .path = path,
      .set =
          [of, codec](const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse) {
            const auto assign = [&](auto taken) {
              if (taken) {
                of(config) = *std::move(taken);
              } else {
                refuse(0, std::move(taken.error()));
              }
            };
            if constexpr (kIsOptional<Member>) {
              assign(codec.template Take<typename Member::value_type>(given.front()));
            } else {
              assign(codec.template Take<Member>(given.front()));
            }
          },
      .get = [of, codec](const Config& config) -> std::vector<Scalar> {
        const Member& member = of(config);
        if constexpr (kIsOptional<Member>) {
          if (!member) return {};
          return {codec.Give(*member)};
        } else {
          return {codec.Give(member)};
        }
      }};
}

// A setting that may be repeated. Its member is a vector.
template <typename Of, typename Codec = AsIs>
SettingRow ListRow(std::string_view path, Of of, Codec codec = {}) {
  using Value = typename std::remove_cvref_t<decltype(of(std::declval<Config&>()))>::value_type;
  return {
      .path = path,
      .set =
          [of, codec](const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse) {
            of(config).clear();
            for (std::size_t i = 0; i < given.size(); ++i) {
              auto taken = codec.template Take<Value>(given[i]);
              if (taken) {
                of(config).push_back(*std::move(taken));
              } else {
                refuse(i, std::move(taken.error()));
              }
            }
          },
      .get = [of, codec](const Config& config) -> std::vector<Scalar> {
        std::vector<Scalar> values;
        for (const Value& value : of(config)) values.push_back(codec.Give(value));
        return values;
      }};
}

// The row, with a `given` of the Config that tells whether the setting was given; else it follows
// from another one.
template <typename Given>
SettingRow UnlessGiven(SettingRow row, Given given) {
  row.set = [set = std::move(row.set), given](const std::vector<Scalar>& values, Config& config,
                                              const RefuseValue& refuse) {
    given(config) = true;
    set(values, config, refuse);
  };
  row.follows = [given](const Config& config) { return !given(config); };
  return row;
}

// --- Faults of text, empty if there is none

std::string FaultOfCommand(const std::string& command) {
  const bool has_wildcard = command.find_first_of("*?[\\") != std::string::npos;
  if (has_wildcard || command.size() <= kCommandBytes) return {};
  return fmt::format(
      "'{}' can match no process: the kernel keeps {} bytes of a name; end it with '*' there, or "
      "use exe",
      command, kCommandBytes);
}

std::string FaultOfExecutable(const std::string& exe) {
  if (exe.starts_with('/') || exe.starts_with('*')) return {};
  return fmt::format("'{}' can match no process: a path begins with '/', a pattern with '/' or '*'",
                     exe);
}

std::string FaultOfCgroup(const std::string& cgroup) {
  constexpr std::string_view kMount = "/sys/fs/cgroup/";
  if (cgroup.starts_with(kMount)) {
    return fmt::format("'{}' is named from the root of control groups: '{}'", cgroup,
                       cgroup.substr(kMount.size() - 1));
  }
  const std::filesystem::path path(cgroup);
  if (path.is_absolute() && path.has_filename() && path.lexically_normal() == path) return {};
  return fmt::format(
      "'{}' is no control group as /proc/PID/cgroup has it, such as '/system.slice/redis.service'",
      cgroup);
}

std::string FaultOfPath(const std::string& path) {
  if (path.starts_with('/') && !path.ends_with('/')) return {};
  return fmt::format("'{}' is no absolute path of a file; begin it with '/'", path);
}

std::string FaultOfSource(const std::string& name) {
  std::vector<std::string_view> online{"auto"};
  for (const SourceKind& kind : SourceKinds()) {
    if (kind.name != kExactSource.name) online.push_back(kind.name);
  }
  if (std::ranges::find(online, name) != online.end()) return {};
  return fmt::format("'{}': {}; use some of {}", name,
                     name == kExactSource.name
                         ? "it runs a program itself, with 'tmprof record --source exact'"
                         : "unknown name",
                     Joined(online));
}

std::string FaultOfGate(const std::string& gate) {
  const auto mode = ParseGateMode(gate);
  return mode ? std::string() : Fault(gate, mode.error());
}

// --- Addresses of metrics

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

struct LoopbackAddress {
  template <typename T>
  static Taken<T> Take(const Scalar& value) {
    constexpr std::string_view kAllowed = "use 127.0.0.1:PORT or [::1]:PORT";
    const auto& text = std::get<std::string>(value);
    auto address = ParseAddress(text);
    if (!address) {
      return std::unexpected(fmt::format(
          "'{}' is no address in numbers with a port from 1 to 65535; {}", text, kAllowed));
    }
    if (!IsLoopback(*address)) {
      return std::unexpected(
          fmt::format("'{}' is not of the loopback interface, and metrics are for this machine "
                      "only; {}",
                      text, kAllowed));
    }
    return *std::move(address);
  }
  static Scalar Give(const ListenAddress& address) {
    const bool v6 = address.host.contains(':');
    return fmt::format("{}:{}", v6 ? "[" + address.host + "]" : address.host, address.port);
  }
};

// --- Settings that are more than a member

// A condition of the process filter, which has no value while there is no filter.
SettingRow FilterRow(std::string_view path, double ProcessFilter::* condition) {
  return {.path = path,
          .set =
              [condition](const std::vector<Scalar>& given, Config& config, const RefuseValue&) {
                auto& filter = config.targets.tracking.filter;
                if (filter) (*filter).*condition = std::get<double>(given.front());
              },
          .get = [condition](const Config& config) -> std::vector<Scalar> {
            const auto& filter = config.targets.tracking.filter;
            if (!filter) return {};
            return {(*filter).*condition};
          }};
}

void SetFilter(const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse) {
  if (std::get<bool>(given.front())) return;  // it has its conditions by default
  config.targets.tracking.filter.reset();
  if (config.targets.Everything()) {
    refuse(0,
           "without it every process of the machine would be a target; name some by command, exe, "
           "cgroup or pid");
  }
}

void SetHalfLife(const std::vector<Scalar>& given, Config& config, const RefuseValue&) {
  const auto ms = std::get<std::uint64_t>(given.front());
  Ranker::Options& ranker = config.placement.ranker;
  ranker.memory = ms == 0 ? Ranker::Memory::kThisEpoch : Ranker::Memory::kHalfLife;
  ranker.half_life = std::chrono::milliseconds(ms);
}

std::vector<Scalar> GetHalfLife(const Config& config) {
  switch (config.placement.ranker.memory) {
    case Ranker::Memory::kThisEpoch:
      return {std::uint64_t{0}};
    case Ranker::Memory::kHalfLife:
      return {Time<std::chrono::milliseconds>::Give(config.placement.ranker.half_life)};
    case Ranker::Memory::kLearned:  // as where the field is left out
      break;
  }
  return {};
}

// One kind of evidence takes the place of the weight.
SettingRow RankRow(std::string_view path) {
  SettingRow row = Row(path, [](auto& c) -> auto& { return c.placement.rank; }, OneOfThese{kRanks});
  row = UnlessGiven(std::move(row), [](auto& c) -> auto& { return c.placement.rank_given; });
  row.follows = nullptr;  // else it has no value
  row.get = [](const Config& config) -> std::vector<Scalar> {
    if (!config.placement.rank_given) return {};
    return {std::string(Name(config.placement.rank))};
  };
  return row;
}

SettingRow WeightRow(std::string_view path) {
  SettingRow row =
      Row(path, [](auto& c) -> auto& { return c.placement.weight; }, OneOfThese{kWeights});
  row.set = [set = std::move(row.set)](const std::vector<Scalar>& given, Config& config,
                                       const RefuseValue& refuse) {
    if (std::get<std::string>(given.front()) == Name(RankWeight::kStall)) {
      refuse(0, fmt::format("'stall': {}; use 'memory'", kWhyNoStall));
    } else if (!config.placement.rank_given) {  // else it is refused for that
      set(given, config, refuse);
    }
  };
  row = UnlessGiven(std::move(row), [](auto& c) -> auto& { return c.placement.weight_given; });
  row.get = [](const Config& config) -> std::vector<Scalar> {
    if (config.placement.rank_given) return {};
    return {std::string(Name(config.placement.weight))};
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
                    Joined(names)));
  }
  static Scalar Give(const PolicyEntry* member) { return std::string(member->name); }
};

// The rank model brings its own memory of evidence.
SettingRow ModelRow(std::string_view path) {
  const Parsed codec{ParseRankModel, [](RankModel model) { return Name(model); }};
  return {.path = path,
          .set =
              [codec](const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse) {
                if (auto model = codec.Take<RankModel>(given.front())) {
                  config.placement.ranker = Ranker::DefaultOptions(*model);
                } else {
                  refuse(0, std::move(model.error()));
                }
              },
          .get = [codec](const Config& config) -> std::vector<Scalar> {
            return {codec.Give(config.placement.ranker.model)};
          }};
}

// A capacity of tier 1 in the form that `Value` and `Codec` are for.
template <typename Value, typename Codec>
SettingRow CapacityRow(std::string_view path, Codec codec) {
  return {.path = path,
          .set =
              [codec](const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse) {
                if (auto taken = codec.template Take<Value>(given.front())) {
                  config.tiers.capacity = *std::move(taken);
                } else {
                  refuse(0, std::move(taken.error()));
                }
              },
          .get = [codec](const Config& config) -> std::vector<Scalar> {
            const auto* value = std::get_if<Value>(&config.tiers.capacity);
            if (value == nullptr) return {};
            return {codec.Give(*value)};
          }};
}

using Milliseconds = Time<std::chrono::milliseconds>;
using Microseconds = Time<std::chrono::microseconds>;

std::vector<SettingRow> MakeRows() {
  return {
      ListRow(
          "targets.command", [](auto& c) -> auto& { return c.targets.commands; },
          Checked{FaultOfCommand}),
      ListRow(
          "targets.exe", [](auto& c) -> auto& { return c.targets.executables; },
          Checked{FaultOfExecutable}),
      ListRow(
          "targets.cgroup", [](auto& c) -> auto& { return c.targets.cgroups; },
          Checked{FaultOfCgroup}),
      ListRow("targets.pid", [](auto& c) -> auto& { return c.targets.pids; }),
      Row("targets.follow_children",
          [](auto& c) -> auto& { return c.targets.tracking.follow_children; }),
      {.path = "targets.process_filter",
       .set = SetFilter,
       .get = [](const Config& config) -> std::vector<Scalar> {
         return {config.targets.tracking.filter.has_value()};
       }},
      FilterRow("targets.min_cpu_share", &ProcessFilter::min_cpu_share),
      FilterRow("targets.min_memory_share", &ProcessFilter::min_memory_share),
      Row("targets.max_targets", [](auto& c) -> auto& { return c.targets.tracking.max_targets; }),
      FilterRow("targets.busiest_part", &ProcessFilter::busiest_part),

      CapacityRow<PageCount>("tiers.capacity_mib", Times<kPagesPerMib>{}),
      CapacityRow<Ratio>("tiers.footprint_ratio",
                         Parsed{ParseRatio, [](const Ratio& ratio) { return ToString(ratio); }}),
      Row(
          "tiers.reserve_mib", [](auto& c) -> auto& { return c.tiers.reserve; },
          Times<kPagesPerMib>{}),

      Row(
          "profile.epoch_ms", [](auto& c) -> auto& { return c.profile.epoch; }, Milliseconds{}),
      ListRow(
          "profile.source", [](auto& c) -> auto& { return c.profile.sources.names; },
          Checked{FaultOfSource}),
      Row("profile.max_overhead", [](auto& c) -> auto& { return c.profile.sources.max_overhead; }),
      Row(
          "profile.abit", [](auto& c) -> auto& { return c.profile.sources.abit; },
          Parsed{ParseAbit, AbitText}),
      Row(
          "profile.scan_interval_ms",
          [](auto& c) -> auto& { return c.profile.sources.scan_interval; }, Milliseconds{}),
      Row(
          "profile.sample_rate", [](auto& c) -> auto& { return c.profile.sources.sample_rate; },
          Parsed{ParseSampleRate, [](unsigned rate) { return fmt::format("{}x", rate); }}),
      Row(
          "profile.gate", [](auto& c) -> auto& { return c.profile.sources.gate; },
          Checked{FaultOfGate}),
      Row("profile.seed", [](auto& c) -> auto& { return c.profile.sources.seed; }),
      Row("profile.max_cpu_share", [](auto& c) -> auto& { return c.profile.max_cpu_share; }),
      Row(
          "profile.ageing", [](auto& c) -> auto& { return c.profile.sources.ageing; },
          OneOfThese{abit::kAgeingUses}),

      ModelRow("placement.rank_model"),
      UnlessGiven({.path = "placement.half_life_ms", .set = SetHalfLife, .get = GetHalfLife},
                  [](auto& c) -> auto& { return c.placement.half_life_given; }),
      RankRow("placement.rank"),
      Row(
          "placement.policy", [](auto& c) -> auto& { return c.placement.policy; }, OnlinePolicy{}),
      Row("placement.track_only", [](auto& c) -> auto& { return c.placement.track_only; }),
      Row("placement.dry_run", [](auto& c) -> auto& { return c.mover.limits.dry_run; }),
      Row(
          "placement.llc_kib", [](auto& c) -> auto& { return c.placement.ranker.llc_bytes; },
          Times<kBytesPerKib>{}),
      WeightRow("placement.rank_weight"),

      Row("mover.most_pages_per_epoch",
          [](auto& c) -> auto& { return c.mover.most_pages_per_epoch; }),
      Row(
          "mover.call_latency_us", [](auto& c) -> auto& { return c.mover.limits.call_latency; },
          Microseconds{}),
      Row(
          "mover.bandwidth_mib_per_s",
          [](auto& c) -> auto& { return c.mover.limits.bytes_per_second; }, Times<kBytesPerMib>{}),
      Row(
          "mover.cpu_share", [](auto& c) -> auto& { return c.mover.limits.cpu_ns_per_second; },
          ShareOfCpu{}),
      Row("mover.attempts", [](auto& c) -> auto& { return c.mover.limits.attempts; }),
      Row("mover.cost_of_move", [](auto& c) -> auto& { return c.mover.cost_of_move; }),
      Row("mover.hysteresis", [](auto& c) -> auto& { return c.mover.hysteresis; }),
      Row("mover.cool_down_epochs", [](auto& c) -> auto& { return c.mover.cool_down_epochs; }),
      Row("mover.latency_gap_ns", [](auto& c) -> auto& { return c.mover.latency_gap_ns; }),

      Row(
          "ledger.file", [](auto& c) -> auto& { return c.ledger.file; }, Checked{FaultOfPath}),
      Row(
          "ledger.most_mib", [](auto& c) -> auto& { return c.ledger.most_bytes; },
          Times<kBytesPerMib>{}),
      Row("ledger.kept", [](auto& c) -> auto& { return c.ledger.kept; }),

      Row(
          "control.socket", [](auto& c) -> auto& { return c.control_socket; },
          Checked{FaultOfPath}),
      Row(
          "metrics.listen", [](auto& c) -> auto& { return c.metrics; }, LoopbackAddress{}),
      Row(
          "log.level", [](auto& c) -> auto& { return c.log.level; }, OneOfThese{kLogLevels}),
      Row(
          "log.format", [](auto& c) -> auto& { return c.log.format; }, OneOfThese{kLogFormats}),
  };
}

}  // namespace

std::string Fault(const std::string& value, const Error& error) {
  const std::string fact = fmt::format("'{}': {}", value, error.reason);
  return error.advice.empty() ? fact : fact + "; " + error.advice;
}

std::span<const SettingRow> SettingRows() {
  static const std::vector<SettingRow> rows = MakeRows();
  return rows;
}

}  // namespace tmprof
