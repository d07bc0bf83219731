// SPDX-License-Identifier: Apache-2.0

#include "profiler/recording_settings.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/text/human_units.h"
#include "profiler/session_description.h"
#include "profiler/source_kind.h"

namespace tmprof {

std::vector<Setting> SettingsInForce(const RecordingOptions& options, const SessionSources& opened,
                                     const std::vector<Setting>& objects) {
  std::string sources;
  for (const std::string& name : options.sources.names)
    sources += (sources.empty() ? "" : ",") + name;
  std::vector<Setting> settings{{"source", sources},
                                {"abit", AbitText(opened.abit)},
                                {"epoch", FormatDuration(options.epoch)},
                                {"max-overhead", FormatShare(options.sources.max_overhead)},
                                {"sample-rate", fmt::format("{}x", options.sources.sample_rate)},
                                {"gate", options.sources.gate},
                                {"ageing", std::string(Name(options.sources.ageing))},
                                {"process-filter", options.process_filter ? "on" : "off"},
                                {"children", options.follow_children ? "on" : "off"},
                                {"seed", std::to_string(options.sources.seed)}};
  if (options.sources.abit.mode == abit::ScanOptions::Mode::kPlain &&
      options.sources.abit.looked != abit::Looked::kRegions) {
    settings.push_back({"scan-interval", FormatDuration(options.sources.scan_interval)});
  }
  if (options.sources.abit.looked != abit::Looked::kFull) {
    const RegionBounds& regions = options.sources.regions;
    settings.push_back({"region-monitoring", FormatDuration(regions.monitoring)});
    settings.push_back({"region-aggregation", FormatDuration(regions.aggregation)});
    settings.push_back({"region-update", FormatDuration(regions.update)});
    settings.push_back({"min-regions", std::to_string(regions.min_regions)});
    settings.push_back({"max-regions", std::to_string(regions.max_regions)});
  }
  if (options.duration) {
    settings.push_back({"duration", FormatDuration(*options.duration)});
  }
  settings.insert(settings.end(), objects.begin(), objects.end());
  if (options.max_targets) {
    settings.push_back({"max-targets", std::to_string(*options.max_targets)});
  }
  if (opened.assumed_ns_per_look) {
    settings.push_back(
        {"ns-per-look", fmt::format("{:.0f} (assumed)", *opened.assumed_ns_per_look)});
  }
  if (auto calibrated = CalibratedText(opened.figures_ages); !calibrated.empty())
    settings.push_back({"calibrated", std::move(calibrated)});
  if (const auto assumed = opened.calibration.assumed_ns_per_point) {
    settings.push_back({"ns-per-point", fmt::format("{:.0f} (assumed)", *assumed)});
  }
  return settings;
}

std::vector<Setting> TracingSettingsInForce(const RecordingOptions& options,
                                            const std::vector<Setting>& objects) {
  std::vector<Setting> settings{{"source", std::string(kExactSource.name)}};
  if (options.tracing.epoch_instructions) {
    settings.push_back({"epoch-instructions", std::to_string(*options.tracing.epoch_instructions)});
  } else {
    settings.push_back({"epoch", FormatDuration(options.epoch)});
  }
  if (options.tracing.llc_bytes)
    settings.push_back({"exact-llc", FormatBytes(*options.tracing.llc_bytes)});
  if (options.tracing.l2_bytes)
    settings.push_back({"exact-l2", FormatBytes(*options.tracing.l2_bytes)});
  if (options.tracing.prefetch_lines)
    settings.push_back({"exact-prefetch", std::to_string(*options.tracing.prefetch_lines)});
  if (options.tracing.stall)
    settings.push_back({"exact-stalls", FormatDuration(*options.tracing.stall)});
  if (options.duration) settings.push_back({"duration", FormatDuration(*options.duration)});
  settings.insert(settings.end(), objects.begin(), objects.end());
  return settings;
}

std::string SettingsLine(std::span<const Setting> settings, const SessionSources& sources) {
  std::string line;
  for (const Setting& setting : settings) {
    line += fmt::format(" {}={}", setting.name, setting.value);
  }
  std::string chosen;
  for (const auto& source : sources.sources) {
    chosen += (chosen.empty() ? "" : ",") + std::string(source->name());
  }
  if (!chosen.empty()) line += " chosen=" + chosen;
  const auto measured = [&line](std::string_view name, std::optional<double> ns) {
    if (ns) line += fmt::format(" {}={:.0f}", name, *ns);
  };
  measured("ns-per-set", sources.calibration.ns_per_set);
  measured("ns-per-look", sources.calibration.ns_per_look);
  measured("ns-per-sample", sources.calibration.ns_per_sample);
  measured("ns-per-point", sources.calibration.ns_per_point);
  return fmt::format("recording:{}\n", line);
}

}  // namespace tmprof
