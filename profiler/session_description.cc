// SPDX-License-Identifier: Apache-2.0

#include "profiler/session_description.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/host/cpu_identity.h"
#include "base/host/node_topology.h"
#include "base/latency_gap.h"
#include "base/text/human_units.h"
#include "base/version.h"

namespace tmprof {
namespace {

// Adds the tiers of this machine, and the settings that tell its latency gaps.
void DescribeTiers(TraceInfo& info) {
  const Result<NodeTopology> topology = ReadNodeTopology();
  if (!topology) return;
  info.tiers = NodesByTier(*topology);
  const LatencyGaps gaps = GapsOf(LatenciesOf(*topology, info.tiers), std::nullopt);
  bool is_told = false;
  for (std::size_t number = 2; number <= info.tiers.size(); ++number) {
    is_told |= gaps.Of(Tier(static_cast<Tier::rep>(number))).basis == LatencyBasis::kFirmware;
  }
  if (!is_told) return;
  for (Setting& setting : SettingsOf(gaps, info.tiers.size())) {
    info.settings.push_back(std::move(setting));
  }
}

}  // namespace

TraceInfo DescribeSession(std::vector<Setting> settings, std::chrono::nanoseconds epoch,
                          MonotonicTime start) {
  utsname system{};
  uname(&system);
  TraceInfo info{.tool_version = std::string("tmprof ") + kVersion,
                 .kernel_release = system.release,
                 .cpu_model = ReadCpuIdentity().model,
                 .cpus = std::thread::hardware_concurrency(),
                 .wall_start = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
                     std::chrono::system_clock::now()),
                 .start = start,
                 .epoch_length = epoch,
                 .calibration = {},
                 .settings = std::move(settings),
                 .tiers = {},
                 .warnings = {}};
  DescribeTiers(info);
  return info;
}

std::string CalibratedText(std::span<const SessionSources::FiguresAge> figures) {
  const auto is_kept = [](const SessionSources::FiguresAge& one) { return one.age.has_value(); };
  if (std::ranges::none_of(figures, is_kept)) return {};
  std::string text;
  for (const auto& [of, age, is_settled] : figures) {
    if (!text.empty()) text += ", ";
    text += of;
    if (!age) {
      text += " now";
    } else if (*age < std::chrono::minutes(1)) {
      text +=
          fmt::format(" {} before", FormatDuration(std::chrono::floor<std::chrono::seconds>(*age)));
    } else {
      text +=
          fmt::format(" {} before", FormatDuration(std::chrono::floor<std::chrono::minutes>(*age)));
    }
    if (age && !is_settled) text += " (not settled)";
  }
  return text;
}

}  // namespace tmprof
