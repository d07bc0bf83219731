// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/setting_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "profiler/gate/gate.h"
#include "profiler/source_choice.h"
#include "profiler/sources/perf/hardware_events.h"
#include "profiler/target_patterns.h"

namespace tmprof {
namespace {

using Rows = RowsOf<Config>;

std::string FaultOfGate(const std::string& gate) {
  const auto mode = ParseGateMode(gate);
  return mode ? std::string() : FaultText(gate, mode.error());
}

// A condition of the process filter, which has no value while there is no filter.
SettingRow<Config> FilterRow(std::string_view path, double ProcessFilter::* condition) {
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

std::vector<Scalar> GetFilter(const Config& config) {
  return {config.targets.tracking.filter.has_value()};
}

std::vector<SettingRow<Config>> MakeRows() {
  std::vector<SettingRow<Config>> rows{
      Rows::List(
          "targets.command", [](auto& c) -> auto& { return c.targets.commands; },
          Checked{FaultOfCommand}),
      Rows::List(
          "targets.exe", [](auto& c) -> auto& { return c.targets.executables; },
          Checked{FaultOfExecutable}),
      Rows::List(
          "targets.cgroup", [](auto& c) -> auto& { return c.targets.cgroups; },
          Checked{FaultOfCgroup}),
      Rows::List("targets.pid", [](auto& c) -> auto& { return c.targets.pids; }),
      Rows::One("targets.follow_children",
                [](auto& c) -> auto& { return c.targets.tracking.follow_children; }),
      {.path = "targets.process_filter", .set = SetFilter, .get = GetFilter},
      FilterRow("targets.min_cpu_share", &ProcessFilter::min_cpu_share),
      FilterRow("targets.min_memory_share", &ProcessFilter::min_memory_share),
      Rows::One("targets.max_targets",
                [](auto& c) -> auto& { return c.targets.tracking.max_targets; }),
      FilterRow("targets.busiest_part", &ProcessFilter::busiest_part),

      Rows::One(
          "profile.epoch_ms", [](auto& c) -> auto& { return c.profile.epoch; }, Milliseconds{}),
      Rows::List(
          "profile.source", [](auto& c) -> auto& { return c.profile.sources.names; },
          Checked{FaultOfOnlineSource}),
      Rows::One("profile.max_overhead",
                [](auto& c) -> auto& { return c.profile.sources.max_overhead; }),
      Rows::One(
          "profile.abit", [](auto& c) -> auto& { return c.profile.sources.abit; },
          Parsed{ParseAbit, AbitText}),
      Rows::One(
          "profile.scan_interval_ms",
          [](auto& c) -> auto& { return c.profile.sources.scan_interval; }, Milliseconds{}),
      Rows::One(
          "profile.sample_rate", [](auto& c) -> auto& { return c.profile.sources.sample_rate; },
          Parsed{ParseSampleRate, [](unsigned rate) { return fmt::format("{}x", rate); }}),
      Rows::One(
          "profile.gate", [](auto& c) -> auto& { return c.profile.sources.gate; },
          Checked{FaultOfGate}),
      Rows::One("profile.seed", [](auto& c) -> auto& { return c.profile.sources.seed; }),
      Rows::One("profile.max_cpu_share", [](auto& c) -> auto& { return c.profile.max_cpu_share; }),
      Rows::One(
          "profile.ageing", [](auto& c) -> auto& { return c.profile.sources.ageing; },
          OneOfThese{abit::kAgeingUses}),
  };
  for (const auto& row : DaemonSettingRows()) rows.push_back(RowOf<Config>(row));
  // A setting may depend on one that the proto has before it.
  const std::vector<std::string> order = SettingPaths();
  std::ranges::sort(rows, {}, [&order](const SettingRow<Config>& row) {
    return std::ranges::find(order, row.path) - order.begin();
  });
  return rows;
}

}  // namespace

std::span<const SettingRow<Config>> SettingRows() {
  static const std::vector<SettingRow<Config>> rows = MakeRows();
  return rows;
}

}  // namespace tmprof
