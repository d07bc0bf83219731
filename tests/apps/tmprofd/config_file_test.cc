// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/config_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "apps/tmprofd/setting_rows.h"
#include "base/host/capabilities.h"
#include "proto/setting_changes.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace config_file_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

Config Parsed(std::string_view text) {
  auto config = ParseConfig(text, "c");
  EXPECT_TRUE(config.has_value()) << text << "\n" << config.error().Message();
  return config.value_or(Config{});
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The faults of a text that is refused, one a line, without the head; empty where it is taken.
std::vector<std::string> Faults(std::string_view text) {
  const auto config = ParseConfig(text, "c");
  if (config) return {};
  EXPECT_EQ(config.error().ExitStatus(), 2);
  std::vector<std::string> lines = Lines(config.error().Message());
  EXPECT_THAT(lines.front(), ::testing::StartsWith("cannot use configuration 'c': "));
  lines.erase(lines.begin());
  return lines;
}

std::string OnlyFault(std::string_view text) {
  const auto faults = Faults(text);
  EXPECT_EQ(faults.size(), 1) << text << "\n" << fmt::format("{}", fmt::join(faults, "\n"));
  return faults.empty() ? "" : faults.front();
}

// --- proto/config.proto, the manual, as it stands there

struct ManualField {
  std::vector<std::string> groups;  // "tiers", "tier"
  std::string name;
  std::string type;     // "double"
  std::string comment;  // in one line
  std::string least;    // its text; empty without a range
  std::string most;
};

// "Targets" -> "targets", as its field is named.
std::string FieldOfGroup(std::string group) {
  std::ranges::transform(group, group.begin(), [](unsigned char c) { return std::tolower(c); });
  return group;
}

std::vector<ManualField> Manual() {
  static const std::regex kGroup(R"(^\s*(?:message|oneof|extend) ([.\w]+) \{$)");
  static const std::regex kField(R"(^\s*(?:optional |repeated )?(\w+) (\w+) = \d+(.*)$)");
  static const std::regex kRange(R"(least: ([-\w.]+), most: ([-\w.]+))");
  std::vector<ManualField> fields;
  std::vector<std::string> groups;
  std::string comment;
  for (const std::string& line :
       Lines(ReadFile(std::string(TMPROF_SOURCE_DIR) + "/proto/config.proto"))) {
    std::smatch match;
    const std::size_t text = line.find_first_not_of(' ');
    if (text != std::string::npos && line.compare(text, 2, "//") == 0) {
      comment += line.substr(text + 2);
      continue;
    }
    if (std::regex_match(line, match, kGroup)) {
      groups.push_back(FieldOfGroup(match[1]));
    } else if (text != std::string::npos && line.substr(text) == "}") {
      groups.pop_back();
    } else if (std::regex_match(line, match, kField) && groups.size() > 1) {
      ManualField field{.groups = {groups.begin() + 1, groups.end()},
                        .name = match[2],
                        .type = match[1],
                        .comment = comment};
      std::erase(field.groups, "capacity");  // a oneof is no group of the file
      const std::string rest = match[3];
      if (std::regex_search(rest, match, kRange)) {
        field.least = match[1];
        field.most = match[2];
      }
      fields.push_back(field);
    }
    comment.clear();
  }
  return fields;
}

bool IsNumber(const ManualField& field) {
  return field.type.starts_with("int") || field.type.starts_with("uint") || field.type == "double";
}

std::string Path(const ManualField& field) {
  return fmt::format("{}.{}", fmt::join(field.groups, "."), field.name);
}

// "tiers { tier { node: 5 } }"
std::string TextWith(const ManualField& field, const std::string& value) {
  std::string text = fmt::format("{}: {}", field.name, value);
  for (auto group = field.groups.rbegin(); group != field.groups.rend(); ++group) {
    text = fmt::format("{} {{ {} }}", *group, text);
  }
  return text;
}

TEST(Manual, HasEveryFieldAndItsDefault) {
  const auto fields = Manual();
  ASSERT_GE(fields.size(), 40);
  const std::vector<std::string> printed = Lines(PrintConfig(Config{}));
  static const std::regex kDefault(R"(Default: (.*)\.$)");
  for (const ManualField& field : fields) {
    const std::string start = fmt::format("  {}: ", field.name);
    std::vector<std::string> values;
    bool in_group = false;
    for (const std::string& line : printed) {
      if (line == field.groups.front() + " {") in_group = true;
      if (line == "}") in_group = false;
      if (in_group && line.starts_with(start)) values.push_back(line.substr(start.size()));
    }
    std::smatch match;
    if (std::regex_search(field.comment, match, kDefault)) {
      EXPECT_THAT(values, ElementsAre(match[1].str())) << Path(field);
    } else {
      const bool said = field.comment.contains("Unset: ") || field.name == "node" ||
                        field.name == "capacity_mib" || field.name == "footprint_ratio";
      EXPECT_TRUE(said) << Path(field) << ": " << field.comment;
      EXPECT_THAT(values, IsEmpty()) << Path(field);
    }
  }
}

TEST(Manual, EveryNumberHasARangeWhoseEndsAreAllowedAndWhatIsBeyondIsNot) {
  std::size_t numbers = 0;
  for (const ManualField& field : Manual()) {
    if (!IsNumber(field)) continue;
    ++numbers;
    ASSERT_FALSE(field.least.empty()) << Path(field);
    for (const std::string& allowed : {field.least, field.most}) {
      for (const std::string& fault : Faults(TextWith(field, allowed))) {
        EXPECT_THAT(fault, Not(HasSubstr("is needed"))) << Path(field);  // one tier is too few
      }
    }
    std::vector<std::string> beyond;
    if (field.type == "double") {
      const double least = std::stod(field.least);
      const double most = std::stod(field.most);
      beyond = {fmt::format("{}", std::nextafter(least, -1.0)),
                fmt::format("{}", std::nextafter(most, 2 * most)), "nan", "inf", "-inf"};
    } else {
      beyond = {fmt::format("{}", std::stoll(field.least) - 1),
                fmt::format("{}", std::stoll(field.most) + 1), "18446744073709551616", "-1000",
                "1.5"};
    }
    for (const std::string& value : beyond) {
      const std::string text = TextWith(field, value);
      const std::size_t column = text.find(": ") + 3;
      const auto faults = Faults(text);
      ASSERT_FALSE(faults.empty()) << text;
      const auto told = std::ranges::find_if(
          faults, [](const std::string& fault) { return fault.contains("is needed"); });
      ASSERT_NE(told, faults.end()) << text;
      EXPECT_THAT(*told, HasSubstr(fmt::format("c:1:{}: {}: a ", column, Path(field)))) << text;
      EXPECT_THAT(*told, HasSubstr(fmt::format("not '{}'", value))) << text;
    }
  }
  EXPECT_GE(numbers, 20);
}

TEST(Manual, EveryFieldRefusesAValueOfAnotherType) {
  for (const ManualField& field : Manual()) {
    if (field.name == "tier") continue;
    const std::string wrong = field.type == "string" ? "5" : "\"5\"";
    EXPECT_THAT(Faults(TextWith(field, wrong)),
                ::testing::Contains(AllOf(HasSubstr(Path(field) + ": "),
                                          HasSubstr(fmt::format("is needed, not '{}'", wrong)))));
  }
}

// Each field with a value that is not its default, as PrintConfig() writes it.
constexpr std::string_view kEverything = R"(targets {
  command: "redis-*"
  command: "postgres"
  exe: "/opt/*/bin/x"
  exe: "*"
  cgroup: "/system.slice/redis.service"
  pid: [1, 4194304]
  follow_children: false
  process_filter: true
  min_cpu_share: 0.125
  min_memory_share: 0.02
  max_targets: 7
  busiest_part: 0.5
}
tiers {
  tier {
    node: [0, 2]
  }
  tier {
    node: [1]
    capacity_mib: 96
  }
  tier {
    node: [1023]
  }
  footprint_ratio: "1/8"
  reserve_mib: 64
}
profile {
  epoch_ms: 250
  source: "abit-bpf"
  source: "clock"
  max_overhead: 0.003
  abit: "regions,plain"
  scan_interval_ms: 20
  sample_rate: "4x"
  gate: "llc,tlb"
  seed: 42
  max_cpu_share: 0.01
  ageing: "own"
}
placement {
  rank_model: "sum"
  half_life_ms: 1500
  rank: "samples"
  policy: "first_touch"
  track_only: false
  dry_run: true
}
mover {
  most_pages_per_epoch: 1000
  call_latency_us: 700
  bandwidth_mib_per_s: 100
  cpu_share: 0.05
  attempts: 5
  cost_of_move: 12.5
  hysteresis: 1.5
  cool_down_epochs: 4
  latency_gap_ns: 170
}
ledger {
  file: "/var/log/\"moves\" \303\244"
  most_mib: 10
  kept: 3
}
control {
  socket: "/run/other.sock"
}
metrics {
  listen: "[::1]:9101"
}
log {
  level: "debug"
  format: "json"
}
)";

// --- The rows that join the manual's fields to Config

// Fields of a group as a message about it lists them: "epoch_ms, source".
std::string FieldsOf(const std::string& group) {
  std::vector<std::string> names;
  for (const ManualField& field : Manual()) {
    if (fmt::format("{}", fmt::join(field.groups, ".")) == group) names.push_back(field.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

TEST(SettingRows, EveryFieldOfTheManualHasOneAndInItsOrder) {
  std::vector<std::string> manual;
  for (const ManualField& field : Manual()) {
    const bool is_tier = field.name == "tier" || field.groups.back() == "tier";
    if (!is_tier) manual.push_back(Path(field));
  }
  std::vector<std::string> rows;
  for (const SettingRow<Config>& row : SettingRows()) rows.emplace_back(row.path);
  EXPECT_EQ(rows, manual);
}

// Only a number or a truth: kEverything has the texts.
TEST(SettingRows, AValueThatIsNotTheDefaultArrivesAndIsPrintedAgain) {
  const std::vector<std::string> defaults = Lines(PrintConfig(Config{}));
  std::size_t tried = 0;
  for (const ManualField& field : Manual()) {
    if (field.groups.back() == "tier" || (!IsNumber(field) && field.type != "bool")) continue;
    if (field.name == "process_filter") continue;  // refused alone
    ++tried;
    for (const std::string& value : field.type == "bool"
                                        ? std::vector<std::string>{"true", "false"}
                                        : std::vector<std::string>{field.least, field.most}) {
      const Config config = Parsed(TextWith(field, value));
      const std::vector<std::string> printed = Lines(PrintConfig(config));
      const std::string start = fmt::format("  {}: ", field.name);
      double found = std::nan("");
      std::string group;
      for (const std::string& line : printed) {
        if (line.ends_with(" {")) group = line.substr(0, line.size() - 2);
        if (group != field.groups.front() || !line.starts_with(start)) continue;
        const std::string shown = line.substr(start.size());
        if (field.type == "bool") {
          EXPECT_EQ(shown, value) << Path(field);
          found = 0;
        } else {
          found = std::stod(shown.starts_with('[') ? shown.substr(1) : shown);
          EXPECT_DOUBLE_EQ(found, std::stod(value)) << Path(field);
        }
      }
      EXPECT_FALSE(std::isnan(found)) << Path(field) << ": " << value << " is not printed";
      for (const SettingRow<Config>& row : SettingRows()) {
        if (row.path != Path(field)) continue;
        EXPECT_EQ(row.get(config).size(), 1) << Path(field);
      }
    }
  }
  EXPECT_GE(tried, 25);
}

TEST(SettingRows, EveryTextOfTheManualIsAmongThoseThatAreTested) {
  for (const ManualField& field : Manual()) {
    if (field.type != "string") continue;
    const bool in_everything = kEverything.contains(fmt::format(" {}: ", field.name));
    EXPECT_TRUE(in_everything || field.name == "rank_weight" || field.groups.back() == "tier")
        << Path(field) << " belongs into kEverything";
  }
}

TEST(SettingChanges, EverySettingTellsWhatItsChangeStartsAnewAndWhenItIsInForce) {
  std::vector<std::string> told;
  for (const SettingChange& change : SettingChanges()) {
    EXPECT_FALSE(change.anew.empty()) << change.settings.front();
    EXPECT_FALSE(change.in_force.empty()) << change.settings.front();
    for (const std::string& setting : change.settings) {
      EXPECT_THAT(told, Not(::testing::Contains(setting)));
      told.push_back(setting);
    }
  }
  for (const ManualField& field : Manual()) {
    const bool by_itself = std::ranges::count(told, Path(field)) == 1;
    const bool by_group = std::ranges::any_of(
        told, [&](const std::string& name) { return Path(field).starts_with(name + "."); });
    EXPECT_TRUE(by_itself || by_group) << Path(field);
  }
}

TEST(SettingChanges, TheDocumentHasTheirTable) {
  EXPECT_THAT(ReadFile(std::string(TMPROF_SOURCE_DIR) + "/docs/configuration.md"),
              HasSubstr("\n\n" + SettingChangeTable() + "\n"))
      << "Replace its table by what 'tmprofd --generate changes' prints.";
}

TEST(ParseConfig, TheEmptyTextHoldsEveryDefaultOfTheCodeItConfigures) {
  const Config config = Parsed("# nothing\n");
  EXPECT_TRUE(config.targets.Everything());
  EXPECT_TRUE(config.targets.tracking.follow_children);
  EXPECT_EQ(config.targets.tracking.filter->min_cpu_share, ProcessFilter{}.min_cpu_share);
  EXPECT_FALSE(config.tiers.given);
  EXPECT_TRUE(std::holds_alternative<FreeCapacity>(config.tiers.capacity));
  EXPECT_EQ(config.tiers.reserve, PageCount(512 * 256));
  EXPECT_EQ(config.profile.epoch, 1s);
  EXPECT_THAT(config.profile.sources.names, ElementsAre("auto"));
  EXPECT_EQ(config.profile.sources.ageing, abit::AgeingUse::kOff);
  EXPECT_EQ(config.placement.policy->name, "history");
  EXPECT_EQ(config.placement.ranker.model, RankModel::kRate);
  EXPECT_EQ(config.placement.ranker.memory, Ranker::Memory::kLearned);
  EXPECT_EQ(config.placement.rank, RankSource::kMemory);
  EXPECT_EQ(config.mover.limits.call_latency, MoverLimits{}.call_latency);
  EXPECT_EQ(config.mover.limits.attempts, MoverLimits{}.attempts);
  EXPECT_FALSE(config.mover.limits.bytes_per_second);
  EXPECT_FALSE(config.mover.cost_of_move);
  EXPECT_FALSE(config.mover.latency_gap_ns);
  EXPECT_FALSE(config.ledger.file);
  EXPECT_EQ(config.control_socket, "/run/tmprofd/control");
  EXPECT_FALSE(config.metrics);
  EXPECT_EQ(config.log.level, LogLevel::kInfo);
}

TEST(ParseConfig, EveryFieldArrivesWhereItBelongs) {
  const Config config = Parsed(kEverything);
  EXPECT_THAT(config.targets.commands, ElementsAre("redis-*", "postgres"));
  EXPECT_THAT(config.targets.executables, ElementsAre("/opt/*/bin/x", "*"));
  EXPECT_THAT(config.targets.cgroups, ElementsAre("/system.slice/redis.service"));
  EXPECT_THAT(config.targets.pids, ElementsAre(Pid(1), Pid(4194304)));
  EXPECT_FALSE(config.targets.Everything());
  EXPECT_FALSE(config.targets.tracking.follow_children);
  EXPECT_EQ(config.targets.tracking.filter->min_cpu_share, 0.125);
  EXPECT_EQ(config.targets.tracking.filter->min_memory_share, 0.02);
  EXPECT_EQ(config.targets.tracking.filter->busiest_part, 0.5);
  EXPECT_EQ(config.targets.tracking.max_targets, 7);
  ASSERT_TRUE(config.tiers.given);
  EXPECT_EQ(config.tiers.given->size(), 3);
  EXPECT_THAT(config.tiers.given->NodesOf(kTier1), ElementsAre(NodeId(0), NodeId(2)));
  EXPECT_EQ(config.tiers.given->TierOf(NodeId(1023)), Tier(3));
  EXPECT_EQ(std::get<Ratio>(config.tiers.capacity), (Ratio{1, 8}));
  EXPECT_THAT(config.tiers.lower_capacities,
              ElementsAre(Capacity(PageCount(24576)), Capacity(FreeCapacity{})));
  EXPECT_EQ(config.tiers.reserve, PageCount(16384));  // 64 MiB of 4 KiB
  EXPECT_EQ(config.profile.epoch, 250ms);
  EXPECT_THAT(config.profile.sources.names, ElementsAre("abit-bpf", "clock"));
  EXPECT_EQ(config.profile.sources.max_overhead, 0.003);
  EXPECT_EQ(config.profile.sources.abit, (AbitChoice{.looked = abit::Looked::kRegions,
                                                     .mode = abit::ScanOptions::Mode::kPlain}));
  EXPECT_EQ(config.profile.sources.scan_interval, 20ms);
  EXPECT_EQ(config.profile.sources.sample_rate, 4);
  EXPECT_EQ(config.profile.sources.gate, "llc,tlb");
  EXPECT_EQ(config.profile.sources.seed, 42);
  EXPECT_EQ(config.profile.max_cpu_share, 0.01);
  EXPECT_EQ(config.profile.sources.ageing, abit::AgeingUse::kOwn);
  EXPECT_EQ(config.placement.ranker.model, RankModel::kSum);
  EXPECT_EQ(config.placement.ranker.memory, Ranker::Memory::kHalfLife);
  EXPECT_EQ(config.placement.ranker.half_life, 1500ms);
  EXPECT_EQ(config.placement.rank, RankSource::kSamples);
  EXPECT_EQ(config.placement.policy->name, "first_touch");
  EXPECT_FALSE(config.placement.track_only);
  EXPECT_TRUE(config.mover.limits.dry_run);
  EXPECT_EQ(config.mover.most_pages_per_epoch, PageCount(1000));
  EXPECT_EQ(config.mover.limits.call_latency, 700us);
  EXPECT_EQ(config.mover.limits.bytes_per_second, 104857600);
  EXPECT_EQ(config.mover.limits.cpu_ns_per_second, 50'000'000);
  EXPECT_EQ(config.mover.limits.attempts, 5);
  EXPECT_EQ(config.mover.cost_of_move, 12.5);
  EXPECT_EQ(config.mover.latency_gap_ns, 170);
  EXPECT_EQ(config.mover.hysteresis, 1.5);
  EXPECT_EQ(config.mover.cool_down_epochs, 4);
  EXPECT_EQ(config.ledger.file, "/var/log/\"moves\" ä");
  EXPECT_EQ(config.ledger.most_bytes, 10485760);
  EXPECT_EQ(config.ledger.kept, 3U);
  EXPECT_EQ(config.control_socket, "/run/other.sock");
  EXPECT_EQ(config.metrics, (ListenAddress{.host = "::1", .port = 9101}));
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.log.format, LogFormat::kJson);
}

TEST(PrintConfig, ThePrintedConfigMeansTheSameWhenFedBack) {
  std::string everything(kEverything);
  everything.replace(everything.find("\\303\\244"), 8, "ä");
  EXPECT_EQ(PrintConfig(Parsed(kEverything)), everything);
  const std::string defaults = PrintConfig(Config{});
  EXPECT_EQ(PrintConfig(Parsed("")), defaults);
  EXPECT_EQ(PrintConfig(Parsed(defaults)), defaults);
  for (const char* text :
       {"tiers { capacity_mib: 8192 }", "placement { track_only: true }",
        "placement { half_life_ms: 0 }", "placement { rank_model: 'sum' }",
        "placement { llc_kib: 4096 }", "targets { pid: 5 process_filter: false }",
        "metrics { listen: '127.1.2.3:1' }", "mover { cpu_share: 0.001 }"}) {
    const std::string printed = PrintConfig(Parsed(text));
    EXPECT_EQ(PrintConfig(Parsed(printed)), printed) << text;
    EXPECT_NE(printed, defaults) << text;
  }
}

TEST(ParseConfig, EachTierButTheSlowestMayHaveACapacity) {
  const Config config = Parsed(
      "tiers { tier { node: 0 capacity_mib: 1 } tier { node: 1 footprint_ratio: '1/4' } "
      "tier { node: 2 } }");
  EXPECT_EQ(config.tiers.capacity, Capacity(PageCount(256)));
  EXPECT_THAT(config.tiers.lower_capacities,
              ElementsAre(Capacity(Ratio{1, 4}), Capacity(FreeCapacity{})));
  EXPECT_EQ(PrintConfig(Parsed(PrintConfig(config))), PrintConfig(config));
  EXPECT_EQ(OnlyFault("tiers { tier { node: 0 } tier {\nnode: 1 capacity_mib: 5 } }"),
            "c:2:23: tiers.tier.capacity_mib: what is beyond it would have no tier to go to");
  EXPECT_EQ(OnlyFault("tiers { tier { node: 0\nfootprint_ratio: '1/2' } tier { node: 1 } "
                      "capacity_mib: 4 }"),
            "c:2:18: tiers.tier.footprint_ratio: tiers has a capacity, too, and that is tier 1's");
  EXPECT_THAT(OnlyFault("tiers { tier { node: 0 footprint_ratio: '2' } tier { node: 1 } }"),
              HasSubstr("a ratio cannot be above 1"));
}

TEST(ParseConfig, TheHalfLifeIsThatOfTheRankModelUnlessGiven) {
  EXPECT_EQ(Parsed("placement { rank_model: 'sum' }").placement.ranker.memory,
            Ranker::Memory::kThisEpoch);
  const Config rate = Parsed("placement { half_life_ms: 9000 rank_model: 'rate' }");
  EXPECT_EQ(rate.placement.ranker.half_life, 9s);
  EXPECT_EQ(Parsed("placement { half_life_ms: 0 }").placement.ranker.memory,
            Ranker::Memory::kThisEpoch);
}

TEST(ParseConfig, TheRankIsByMemoryWhereTheRankModelTellsRates) {
  EXPECT_EQ(Parsed("placement { rank_model: 'sum' }").placement.rank, RankSource::kCombined);
  EXPECT_EQ(Parsed("placement { rank: 'memory' }").placement.rank, RankSource::kMemory);
  EXPECT_EQ(Parsed("placement { llc_kib: 32768 }").placement.ranker.llc_bytes, 32u << 20);
  EXPECT_EQ(Parsed("placement { rank_weight: 'memory' }").placement.rank, RankSource::kMemory);
  EXPECT_EQ(Parsed("placement { rank_weight: 'accesses' }").placement.rank, RankSource::kCombined);
  EXPECT_EQ(Parsed("placement { rank_weight: 'references' }").placement.rank,
            RankSource::kReferences);
  EXPECT_THAT(OnlyFault("placement { rank_weight: 'stall' }"),
              HasSubstr("placement.rank_weight: 'stall': samples of time also fall"));
  EXPECT_THAT(OnlyFault("placement { rank_weight: 'samples' }"),
              HasSubstr("placement.rank_weight"));
  EXPECT_THAT(OnlyFault("placement { rank: 'combined' rank_weight: 'accesses' }"),
              HasSubstr("placement.rank_weight: rank chooses one kind of evidence instead"));
  EXPECT_THAT(OnlyFault("placement { rank_weight: 'accesses' llc_kib: 32768 }"),
              HasSubstr("rank_weight 'accesses' counts accesses that the cache serves"));
  EXPECT_THAT(OnlyFault("placement { rank_model: 'sum' rank_weight: 'memory' }"),
              HasSubstr("placement.rank_weight: 'memory': rank_model 'sum' estimates no rates"));
  EXPECT_THAT(PrintConfig(Config{}), HasSubstr("rank_weight: \"memory\""));
  EXPECT_EQ(Config{}.placement.ranker.llc_bytes, std::nullopt);
  EXPECT_THAT(
      OnlyFault("placement { rank: 'combined' llc_kib: 32768 }"),
      HasSubstr("placement.llc_kib: rank 'combined' counts accesses that the cache serves"));
  EXPECT_THAT(OnlyFault("placement { rank_model: 'sum' llc_kib: 32768 }"),
              HasSubstr("placement.llc_kib: rank_model 'sum' estimates no rates"));
  EXPECT_THAT(OnlyFault("placement { rank_model: 'sum' rank: 'memory' }"),
              HasSubstr("placement.rank: 'memory': rank_model 'sum' estimates no rates"));
}

TEST(WithSettings, TheRankFollowsTheRankModelUnlessItWasGiven) {
  const auto sum = WithSettings(Config{}, {{"placement.rank_model", "sum"}});
  ASSERT_TRUE(sum) << sum.error().Message();
  EXPECT_EQ(sum->placement.rank, RankSource::kCombined);
  const auto back = WithSettings(*sum, {{"placement.rank_model", "rate"}});
  EXPECT_EQ(back->placement.rank, RankSource::kMemory);
  const auto cached = WithSettings(*back, {{"placement.llc_kib", "1024"}});
  EXPECT_EQ(cached->placement.ranker.llc_bytes, 1u << 20);
  EXPECT_EQ(WithSettings(*cached, {{"placement.llc_kib", "default"}})->placement.ranker.llc_bytes,
            std::nullopt);
  const auto set = WithSettings(*back, {{"placement.rank", "references"}});
  const auto kept = WithSettings(*set, {{"placement.rank_model", "sum"}});
  EXPECT_EQ(kept->placement.rank, RankSource::kReferences);
  const auto refused =
      WithSettings(Parsed("placement { rank: 'memory' }"), {{"placement.rank_model", "sum"}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(), HasSubstr("placement.rank"));
}

TEST(ParseConfig, TheWholeFileIsRefusedWithEveryFaultAtItsPlace) {
  EXPECT_THAT(
      Faults(R"(profile {
  epoch_ms: 99
  epoch: 5
  max_overhead: "little"
}
tiers { tier { node: 0 } tier { node: 0 } }
placement {
  policy: "best"
  colour { red: [1, { a: 2 }] }
}
metrics: 80
)"),
      ElementsAre(
          "c:2:13: profile.epoch_ms: a whole number from 100 to 3600000 is needed, "
          "not '99'",
          "c:3:3: profile.epoch: there is no such field; profile has " + FieldsOf("profile"),
          "c:4:17: profile.max_overhead: a number from 1e-06 to 1 is needed, not "
          "'\"little\"'",
          "c:6:9: tiers.tier: node 0: is named twice",
          "c:8:11: placement.policy: 'best': unknown name; use one of first_touch, "
          "history",
          "c:9:3: placement.colour: there is no such field; placement has " + FieldsOf("placement"),
          "c:11:10: metrics: a group in braces is needed, not '80'"));
}

TEST(ParseConfig, ReadsOnBehindAFaultOfSyntax) {
  EXPECT_THAT(
      Faults("profile {\n  epoch_ms 500\n  seed: -1\n}\nlog = 5\nmover { attempts: }\n"
             "mover { = }\n}\ntargets { pid: [1 2] pid: 0 }\n: {\n}\nledger {"),
      ElementsAre("c:2:12: profile.epoch_ms: ':' is needed behind the name, not '500'",
                  "c:3:9: profile.seed: a whole number from 0 to 4294967295 is needed, not "
                  "'-1'",
                  "c:5:5: log: a group in braces is needed, not '='",
                  "c:6:19: mover.attempts: a whole number from 1 to 100 is needed, not '}'",
                  "c:7:1: mover: it is given twice, first on line 6",
                  "c:7:9: mover: the name of a field is needed, not '='",
                  "c:8:1: '}' closes nothing that is open here",
                  "c:9:19: targets.pid: ',' or ']' is needed, not '2'",
                  "c:9:27: targets.pid: a whole number from 1 to 4194304 is needed, not '0'",
                  "c:10:1: the name of a field is needed, not ':'",
                  "c:12:9: ledger: its '}' is missing; it begins on line 12"));
}

TEST(ParseConfig, TakesTheTextFormatInAllItsForms) {
  const Config config = Parsed(
      "targets: < pid: 1, pid: [2, 3]; command: ['a' \"b\", 'c'] pid: [] >;\n"
      "profile { epoch_ms: 0x64 max_overhead: 1e-2f, seed: 010 }  # comment\n");
  EXPECT_THAT(config.targets.pids, ElementsAre(Pid(1), Pid(2), Pid(3)));
  EXPECT_THAT(config.targets.commands, ElementsAre("ab", "c"));
  EXPECT_EQ(config.profile.epoch, 100ms);
  EXPECT_EQ(config.profile.sources.seed, 8);
}

// The format asks for it, though no number goes on with a letter.
TEST(ParseConfig, ASpaceStandsBetweenANumberAndTheNextField) {
  EXPECT_EQ(OnlyFault("mover { attempts: 5hysteresis: 1.5 }"),
            "c:1:20: mover.hysteresis: a space is needed between the number and it");
  EXPECT_EQ(OnlyFault("mover { hysteresis: 1.5fattempts: 5 }"),
            "c:1:25: mover.attempts: a space is needed between the number and it");
  EXPECT_EQ(Parsed("mover { attempts: 5,hysteresis: 1.5 }").mover.hysteresis, 1.5);
}

TEST(ParseConfig, AFieldIsGivenOnce) {
  EXPECT_EQ(OnlyFault("log { level: 'info'\nlevel: 'debug' }"),
            "c:2:1: log.level: it is given twice, first on line 1");
  EXPECT_EQ(OnlyFault("log { }\nlog { }"), "c:2:1: log: it is given twice, first on line 1");
  EXPECT_EQ(OnlyFault("tiers {\ncapacity_mib: 5\nfootprint_ratio: '1/2'\n}"),
            "c:3:1: tiers.footprint_ratio: only one of it and capacity_mib can be given, which is "
            "on line 2");
}

struct Refusal {
  const char* text;
  const char* fault;  // a part of it
};

TEST(ParseConfig, RefusesWhatNoDaemonCouldDo) {
  for (const auto& [text, fault] : std::vector<Refusal>{
           {"placement { policy: 'oracle' }",
            "c:1:21: placement.policy: 'oracle': it goes by the coming epoch, which only a replay "
            "knows (tmprof eval); use one of first_touch, history"},
           {"profile { source: ['auto', 'exact'] }",
            "c:1:28: profile.source: 'exact': it runs a program itself"},
           {"profile { source: 'tiersim' }", "unknown name; use some of auto, driver, abit-bpf"},
           {"placement { rank: 'truth' }", "use one of memory, combined, references, samples"},
           {"placement { rank_model: 'mean' }", "use one of sum, rate"},
           {"placement { track_only: true dry_run: true }",
            "placement.dry_run: track_only decides"},
           {"profile { abit: 'both' }", "use one of full, regions, auto, one of ladder, plain"},
           {"profile { sample_rate: '2x' }", "must be 1x, 4x or 8x"},
           {"profile { gate: 'llc,llc' }", "must be auto, off, or a list of llc and tlb"},
           {"profile { ageing: 'yes' }",
            "profile.ageing: 'yes': unknown name; use one of off, own"},
           {"log { level: 'all' }", "use one of error, warning, info, debug"},
           {"targets { process_filter: false }", "every process of the machine would be a target"},
           {"targets { command: 'sixteen_letters_' }", "the kernel keeps 15 bytes of a name"},
           {"targets { exe: 'bin/x' }", "a path begins with '/'"},
           {"targets { cgroup: ['/a', 'b.slice'] }", "c:1:26: targets.cgroup: 'b.slice'"},
           {"targets { cgroup: '/a/../b' }", "as /proc/PID/cgroup has it"},
           {"targets { cgroup: '/a/' }", "as /proc/PID/cgroup has it"},
           {"targets { cgroup: '/sys/fs/cgroup/a' }", "from the root of control groups: '/a'"},
           {"targets { cgroup: '/' }", "text of 2 to 4095 bytes in quotes is needed"},
           {"targets { command: '' }", "text of 1 to 255 bytes in quotes is needed"},
           {"targets { command: 'a\\033b' }", "is needed, not ''a\\033b''"},
           {"targets { command: 'a\\000' }", "is needed, not ''a\\000''"},
           {"targets { follow_children: maybe }", "true or false is needed, not 'maybe'"},
           {"tiers { tier { node: 0 } }", "1 tiers: needs 2 to 255 of them"},
           {"tiers { tier { node: 0 } tier { } }", "tier 2: has no node"},
           {"tiers { footprint_ratio: '9/8' }", "a ratio cannot be above 1"},
           {"tiers { footprint_ratio: '0' }", "a ratio of 0"},
           {"ledger { file: 'moves' }", "is no absolute path"},
           {"control { socket: '/run/' }", "is no absolute path"},
       }) {
    EXPECT_THAT(OnlyFault(text), HasSubstr(fault)) << text;
  }
}

TEST(ParseConfig, ANameThatAPatternCutsShortMayBeLong) {
  EXPECT_THAT(
      Parsed("targets { command: ['fifteen_letters', 'longer-than-fifteen-*'] }").targets.commands,
      ElementsAre("fifteen_letters", "longer-than-fifteen-*"));
}

TEST(ParseConfig, ASocketPathFitsItsAddress) {
  const auto text = [](std::size_t bytes) {
    return fmt::format("control {{ socket: '/{}' }}", std::string(bytes - 1, 's'));
  };
  EXPECT_THAT(Faults(text(107)), IsEmpty());
  EXPECT_THAT(OnlyFault(text(108)), HasSubstr("text of 2 to 107 bytes"));
}

TEST(ParseConfig, MetricsAreServedOnLoopbackOnly) {
  for (const char* taken : {"127.0.0.1:9101", "127.255.255.254:1", "[::1]:65535"}) {
    EXPECT_TRUE(Parsed(fmt::format("metrics {{ listen: '{}' }}", taken)).metrics) << taken;
  }
  for (const char* outside : {"0.0.0.0:80", "192.168.0.1:80", "128.0.0.1:80", "126.255.255.255:80",
                              "[::]:80", "[::ffff:127.0.0.1]:80", "[fe80::1]:80"}) {
    EXPECT_THAT(OnlyFault(fmt::format("metrics {{ listen: '{}' }}", outside)),
                HasSubstr("is not of the loopback interface"))
        << outside;
  }
  for (const char* bad : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", ":80",
                          "localhost:80", "::1:80", "[::1]", "127.1:80", "127.0.0.1:80 ",
                          "127.0.0.1:+80", "[127.0.0.1]:80", "[]:80", "[:80"}) {
    EXPECT_THAT(OnlyFault(fmt::format("metrics {{ listen: '{}' }}", bad)),
                HasSubstr("is no address in numbers"))
        << bad;
  }
}

TEST(ParseConfig, TellsAHundredFaultsAndHowManyMore) {
  std::string text;
  for (int i = 0; i < 130; ++i) text += "x: 1\n";
  const auto faults = Faults(text);
  ASSERT_EQ(faults.size(), 101);
  EXPECT_THAT(faults[99], HasSubstr("c:100:1: x: "));
  EXPECT_EQ(faults[100], "and 30 more");
}

TEST(LoadConfig, SaysWhyItCouldNotReadAFile) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& path) {
    const auto config = LoadConfig(path);
    return config ? "" : config.error().Message();
  };
  const std::string file = folder.File("tmprofd.textproto");
  EXPECT_EQ(error(file), fmt::format("cannot read configuration '{}': ENOENT (No such file or "
                                     "directory)",
                                     file));
  EXPECT_THAT(error(folder.path().string()), HasSubstr("EISDIR (Is a directory)"));
  WriteFile(file,
            "\n  \x7f"
            "ELF");
  EXPECT_THAT(error(file), HasSubstr(file + ":2:3: byte 0x7f is not of a text"));
  WriteFile(file, std::string("log {\0}", 7));
  EXPECT_THAT(error(file), HasSubstr(file + ":1:6: byte 0x00 is not of a text"));
  WriteFile(file, std::string(kMostConfigBytes + 1, ' '));
  EXPECT_THAT(error(file), HasSubstr("it is larger than 1 MiB"));
  WriteFile(file, std::string(kMostConfigBytes, ' '));
  EXPECT_EQ(error(file), "");
  EXPECT_THAT(error("/dev/zero"), HasSubstr("it is larger than 1 MiB"));
}

TEST(Examples, EachIsTakenAndTheSameWhenFedBack) {
  std::vector<fs::path> examples;
  for (const auto& entry : fs::directory_iterator(std::string(TMPROF_SOURCE_DIR) + "/configs")) {
    if (!entry.is_directory()) examples.push_back(entry.path());
  }
  EXPECT_GE(examples.size(), 6);
  for (const fs::path& example : examples) {
    EXPECT_EQ(example.extension(), ".textproto");
    const auto config = LoadConfig(example.string());
    ASSERT_TRUE(config.has_value()) << config.error().Message();
    const std::string printed = PrintConfig(*config);
    EXPECT_EQ(PrintConfig(Parsed(printed)), printed) << example;
    EXPECT_NE(printed, PrintConfig(Config{})) << example << " shows nothing";
  }
}

TEST(Examples, TheDropInAddsTheCapabilityThatClearsOfWholeProcessesTake) {
  std::string added;
  std::istringstream file(
      ReadFile(std::string(TMPROF_SOURCE_DIR) + "/configs/tmprofd.service.d/clear-refs.conf"));
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && !line.starts_with('#')) added += line + "\n";
  EXPECT_EQ(added, "[Service]\nCapabilityBoundingSet=" +
                       MissingCapabilities(kWholeClearCapabilities, 0) + "\n");
}

Outcome Tmprofd(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(TMPROF_BINARY_DIR) + "/tmprofd");
  return RunProgram(arguments);
}

TEST(CheckConfig, PrintsAllThatHoldsOrEveryFault) {
  const TemporaryFolder folder;
  const std::string file = folder.File("c.textproto");
  WriteFile(file, "profile { epoch_ms: 200 }");
  const Outcome taken = Tmprofd({"--config", file, "--check-config"});
  EXPECT_EQ(taken.status, 0);
  EXPECT_EQ(taken.err, "");
  EXPECT_EQ(taken.out, PrintConfig(Parsed("profile { epoch_ms: 200 }")));
  EXPECT_EQ(Tmprofd({"--check-config"}).out, PrintConfig(Config{}));

  WriteFile(file, "profile { epoch_ms: 20 }\nlog { }\nlogs { }");
  const Outcome refused = Tmprofd({"-c", file, "--check-config"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("tmprofd: cannot use configuration '" + file +
                                           "': 2 faults\n" + file + ":1:21: profile.epoch_ms: "),
                                 HasSubstr("\n" + file + ":3:1: logs: ")));
  EXPECT_EQ(Tmprofd({"--config", folder.File("none"), "--check-config"}).status, 1);
}

TEST(CheckConfig, IsAmongTheOptions) {
  EXPECT_EQ(Tmprofd({"--nonsense"}).status, 2);
  const Outcome help = Tmprofd({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--check-config"), Not(HasSubstr("--generate"))));
  const Outcome version = Tmprofd({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, ::testing::StartsWith("tmprofd "));
}

TEST(ObserveAlike, IsSoWhereSourcesAndTiersAreTheSame) {
  const std::string base =
      "tiers { tier { node: 0 } tier { node: 1 capacity_mib: 9 } tier { node: 2 } } "
      "profile { source: 'clock' }";
  for (const char* other :
       {"targets { command: 'a' }", "tiers { capacity_mib: 8 reserve_mib: 7 }",
        "profile { epoch_ms: 300 max_cpu_share: 0.5 }", "placement { policy: 'first_touch' }",
        "mover { most_pages_per_epoch: 5 }", "ledger { file: '/a' }", "log { level: 'debug' }"}) {
    EXPECT_TRUE(ObserveAlike(Config{}, Parsed(other))) << other;
  }
  for (const char* other :
       {"profile { source: 'clock' }", "profile { max_overhead: 0.02 }", "profile { gate: 'off' }",
        "profile { abit: 'regions' }", "profile { seed: 2 }", "profile { ageing: 'own' }",
        "tiers { tier { node: 0 } tier { node: 1 } }"}) {
    EXPECT_FALSE(ObserveAlike(Config{}, Parsed(other))) << other;
  }
  EXPECT_TRUE(ObserveAlike(Parsed(base), Parsed("tiers { tier { node: 0 } tier { node: 1 } "
                                                "tier { node: 2 } } profile { source: 'clock' }")));
}

TEST(WithSettings, SetsWhatIsNamed) {
  const auto config = WithSettings(Config{}, {{"mover.most_pages_per_epoch", "100"},
                                              {"placement.rank_model", "sum"},
                                              {"log.level", "\"debug\""}});
  ASSERT_TRUE(config) << config.error().Message();
  EXPECT_EQ(config->mover.most_pages_per_epoch, PageCount(100));
  EXPECT_EQ(config->placement.ranker.model, RankModel::kSum);
  EXPECT_EQ(config->log.level, LogLevel::kDebug);
}

TEST(WithSettings, KeepsTheRest) {
  const auto config = ParseConfig("targets { command: \"redis*\" } mover { hysteresis: 2 }", "t");
  ASSERT_TRUE(config);
  const auto changed = WithSettings(*config, {{"mover.hysteresis", "3"}});
  ASSERT_TRUE(changed) << changed.error().Message();
  EXPECT_THAT(changed->targets.commands, ::testing::ElementsAre("redis*"));
  EXPECT_EQ(changed->mover.hysteresis, 3);
}

TEST(WithSettings, TheHalfLifeFollowsTheRankModelUnlessItWasGiven) {
  const auto sum = WithSettings(Config{}, {{"placement.rank_model", "sum"}});
  ASSERT_TRUE(sum) << sum.error().Message();
  EXPECT_EQ(sum->placement.ranker.memory, Ranker::Memory::kThisEpoch);
  const auto back = WithSettings(*sum, {{"placement.rank_model", "rate"}});
  EXPECT_EQ(back->placement.ranker.memory, Ranker::Memory::kLearned);
  const auto set = WithSettings(*back, {{"placement.half_life_ms", "6000"}});
  const auto kept = WithSettings(*set, {{"placement.rank_model", "sum"}});
  EXPECT_EQ(kept->placement.ranker.memory, Ranker::Memory::kHalfLife);
  EXPECT_EQ(kept->placement.ranker.half_life, 6s);
  const auto learned = WithSettings(*set, {{"placement.half_life_ms", "default"}});
  ASSERT_TRUE(learned) << learned.error().Message();
  EXPECT_EQ(learned->placement.ranker.memory, Ranker::Memory::kLearned);
  const auto read = ParseConfig(PrintConfig(*learned), "printed");
  ASSERT_TRUE(read) << read.error().Message();
  EXPECT_EQ(read->placement.ranker.memory, Ranker::Memory::kLearned);
  const auto of_file =
      WithSettings(Parsed("placement { half_life_ms: 9000 }"), {{"placement.rank_model", "sum"}});
  EXPECT_EQ(of_file->placement.ranker.half_life, 9s);
}

TEST(WithSettings, BringsBackWhatTheFileGaveWhenASettingIsTakenBack) {
  const Config file = Parsed("targets { command: 'a' min_cpu_share: 0.5 }");
  const auto off = WithSettings(file, {{"targets.process_filter", "false"}});
  ASSERT_TRUE(off) << off.error().Message();
  EXPECT_FALSE(off->targets.tracking.filter);
  const auto on = WithSettings(*off, {{"targets.process_filter", "default"}});
  ASSERT_TRUE(on) << on.error().Message();
  EXPECT_EQ(on->targets.tracking.filter->min_cpu_share, 0.5);
  EXPECT_EQ(PrintConfig(*on), PrintConfig(file));
}

TEST(WithSettings, ReplacesTheCapacityThatAFileHasInTheGroupOfTier1) {
  const auto changed =
      WithSettings(Parsed("tiers { tier { node: 0 capacity_mib: 1 } tier { node: 1 } }"),
                   {{"tiers.capacity_mib", "3"}});
  ASSERT_TRUE(changed) << changed.error().Message();
  EXPECT_EQ(changed->tiers.capacity, Capacity(PageCount(3 * 256)));
}

TEST(WithSettings, RefusesWhatAFileCouldNotHave) {
  for (const Setting& setting :
       {Setting{"mover.most_pages_per_epoch", "0"}, Setting{"mover.most_pages_per_epoch", "none"},
        Setting{"mover.nonsense", "1"}, Setting{"mover", "1"}, Setting{"", ""},
        Setting{"log.level.deeper", "1"}, Setting{"targets.command", "x"},
        Setting{"placement.policy", "oracle"}}) {
    const auto config = WithSettings(Config{}, {setting});
    ASSERT_FALSE(config) << setting.name;
    EXPECT_THAT(config.error().Message(), HasSubstr(setting.name));
  }
}

TEST(WithSettings, ARefusalNamesTheSettingAndWhatItTakes) {
  const auto refusal = [](const Config& config, const Setting& setting) {
    const auto changed = WithSettings(config, {setting});
    return changed ? "" : changed.error().Message();
  };
  EXPECT_EQ(refusal({}, {"mover.attempts", "0"}),
            "cannot set 'mover.attempts': a whole number from 1 to 100 is needed, not '0'");
  EXPECT_EQ(refusal({}, {"ledger.fil", "/a"}),
            "cannot set 'ledger.fil': there is no such field; ledger has file, most_mib, kept; "
            "did you mean 'ledger.file'?");
  EXPECT_THAT(refusal({}, {"hysteresis", "2"}), HasSubstr("did you mean 'mover.hysteresis'?"));
  EXPECT_THAT(refusal({}, {"zzz", "1"}), HasSubstr("a configuration has targets, tiers, "));
  EXPECT_THAT(refusal({}, {"targets.pid", "1"}), HasSubstr("only the configuration file"));
  EXPECT_THAT(refusal({}, {"log.format", "xml"}),
              HasSubstr("'log.format': 'xml': unknown name; use one of text, json"));
  // The setting at fault is another one than that which is set.
  EXPECT_THAT(refusal(Parsed("placement { llc_kib: 4096 }"), {"placement.rank_model", "sum"}),
              HasSubstr("cannot set 'placement.llc_kib': rank_model 'sum' estimates no rates"));
}

TEST(WithSettings, KeepsEveryOtherSettingAsItIs) {
  std::string everything(kEverything);
  const Config config = Parsed(everything);
  const auto changed = WithSettings(config, {{"mover.attempts", "6"}});
  ASSERT_TRUE(changed) << changed.error().Message();
  std::string expected = PrintConfig(config);
  expected.replace(expected.find("attempts: 5"), 11, "attempts: 6");
  EXPECT_EQ(PrintConfig(*changed), expected);
}

TEST(Daemon, WithTheProcOfAnotherPidNamespaceIsRefused) {
  const std::vector<std::string> apart{"timeout", "600", "unshare", "--pid", "--fork"};
  std::vector<std::string> arguments = apart;
  arguments.emplace_back("true");
  if (RunProgram(arguments).status != 0) GTEST_SKIP() << "PID namespaces cannot be made here";
  arguments.back() = std::string(TMPROF_BINARY_DIR) + "/tmprofd";
  const Outcome outcome = RunProgram(arguments);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("another PID namespace"));
}

TEST(CheckConfig, HasAManualPageAndCompletion) {
  const Outcome page = Tmprofd({"--generate", "man"});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, AllOf(HasSubstr(".TH tmprofd 8"), HasSubstr(".SH OPTIONS"),
                              HasSubstr("\\-\\-check\\-config"), HasSubstr("tmprofd.conf (5)"),
                              HasSubstr(".SH FILES"), HasSubstr(".SH EXIT STATUS")));
  EXPECT_THAT(Tmprofd({"--generate", "bash"}).out, HasSubstr("--check-config"));
}

TEST(CheckConfig, HasAManualPageOfEachField) {
  const std::string proto = std::string(TMPROF_SOURCE_DIR) + "/proto/config.proto";
  const Outcome page = RunProgram(
      {"sh", "-c", std::string(TMPROF_BINARY_DIR) + "/tmprofd --generate conf <" + proto});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, AllOf(HasSubstr(".TH tmprofd.conf 5"), HasSubstr(".SH tiers.tier\n"),
                              HasSubstr("From 100 to 3600000.\n"), Not(HasSubstr("SPDX")),
                              Not(HasSubstr("optional uint32"))));
  EXPECT_THAT(page.out, HasSubstr("Starts anew: the ledger. In force: with the next epoch.\n"));
  // All names that have a default stand in what --check-config prints.
  std::istringstream defaults(Tmprofd({"--check-config"}).out);
  for (std::string line; std::getline(defaults, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(2, colon - 2);
    EXPECT_THAT(page.out, HasSubstr(".TP\n.B " + name + "\n")) << name;
  }
}

TEST(CheckConfig, ManualPagesNameTheFileThatTheSystemdUnitStartsWith) {
  const std::string binaries = TMPROF_BINARY_DIR;
  const std::string unit = ReadFile(binaries + "/apps/tmprofd/tmprofd.service");
  std::smatch config;
  ASSERT_TRUE(std::regex_search(unit, config, std::regex("ConditionPathExists=(\\S+)")));
  const std::string file = ".I " + config[1].str() + "\n";
  EXPECT_THAT(Tmprofd({"--generate", "man"}).out, HasSubstr(file));
  EXPECT_THAT(RunProgram({"sh", "-c", binaries + "/tmprofd --generate conf </dev/null"}).out,
              HasSubstr(file));
}

TEST(CheckConfig, ASlipInAnOptionNamesTheNearest) {
  const Outcome refused = Tmprofd({"--confg", "x"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(::testing::StartsWith("tmprofd: cannot use option '--confg'"),
                                 HasSubstr("did you mean '--config'?")));
}

}  // namespace config_file_test
}  // namespace tmprof::test
