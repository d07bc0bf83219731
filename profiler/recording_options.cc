// SPDX-License-Identifier: Apache-2.0

#include "profiler/recording_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/human_units.h"
#include "profiler/source_kind.h"

namespace tmprof {

bool RecordingOptions::is_exact() const {
  return std::ranges::find(sources.names, kExactSource.name) != sources.names.end();
}

Status CheckRecording(const RecordingOptions& options) {
  if (options.epoch < std::chrono::milliseconds(10)) {
    return Fail(BadInput("use option", "--epoch " + FormatDuration(options.epoch),
                         "an epoch is at least 10ms"));
  }
  if (options.duration && *options.duration <= std::chrono::nanoseconds(0)) {
    return Fail(BadInput("use option", "--duration " + FormatDuration(*options.duration),
                         "nothing can be recorded in no time"));
  }
  if (options.max_targets == 0) {
    return Fail(BadInput("use option", "--max-targets 0", "nothing can be recorded of no process"));
  }
  if (options.sources.scan_interval < std::chrono::milliseconds(1)) {
    return Fail(BadInput("use option",
                         "--scan-interval " + FormatDuration(options.sources.scan_interval),
                         "a scan interval is at least 1ms"));
  }
  if (auto regions = RegionParams(options.sources.regions); !regions)
    return Fail(std::move(regions.error()));
  if (options.sources.max_overhead < kLeastOverhead) {
    return Fail(BadInput("use option",
                         "--max-overhead " + FormatShare(options.sources.max_overhead),
                         "the least that can be planned with is " + FormatShare(kLeastOverhead)));
  }
  return {};
}

Status CheckTracing(const RecordingOptions& options) {
  if (!options.is_exact()) {
    for (const auto& [option, given] :
         {std::pair("--epoch-instructions", options.tracing.epoch_instructions.has_value()),
          std::pair("--exact-llc", options.tracing.llc_bytes.has_value()),
          std::pair("--exact-l2", options.tracing.l2_bytes.has_value()),
          std::pair("--exact-prefetch", options.tracing.prefetch_lines.has_value()),
          std::pair("--exact-stalls", options.tracing.stall.has_value())}) {
      if (given) return Fail(BadInput("use option", option, "it is for --source exact"));
    }
    return {};
  }
  if (options.sources.names.size() > 1) {
    return Fail(BadInput("use option", "--source exact",
                         "it runs the program in its own way, and no other source with it"));
  }
  if (!options.pids.empty()) {
    return Fail(BadInput("use option", "--source exact",
                         "a program that already runs cannot be traced exactly",
                         "let tmprof start it: tmprof record --source exact PROGRAM"));
  }
  for (const auto& [option, given] :
       {std::pair("--exact-l2", options.tracing.l2_bytes.has_value()),
        std::pair("--exact-prefetch", options.tracing.prefetch_lines.has_value()),
        std::pair("--exact-stalls", options.tracing.stall.has_value())}) {
    if (given && !options.tracing.llc_bytes) {
      return Fail(BadInput("use option", option, "it needs a modelled cache",
                           "give the last-level cache's size: --exact-llc SIZE"));
    }
  }
  return {};
}

Status CheckEffects(const RecordingOptions& options, const IsGiven& given) {
  const auto names_any = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(options.sources.names, [&](const std::string& name) {
      return name == "auto" || std::ranges::find(names, name) != names.end();
    });
  };
  const auto refuse = [](std::string option, std::string reason, std::string fix) {
    return Fail(BadInput("use option", std::move(option), std::move(reason), std::move(fix)));
  };
  constexpr std::array kOfRegions = {"--region-monitoring", "--region-aggregation",
                                     "--region-update", "--min-regions", "--max-regions"};
  const AbitChoice& abit = options.sources.abit;
  if (!names_any({kAbitBpfSource.name, kDriverSource.name})) {
    std::vector<const char*> of_bits{"--abit", "--scan-interval", "--ageing"};
    of_bits.insert(of_bits.end(), kOfRegions.begin(), kOfRegions.end());
    for (const char* option : of_bits) {
      if (!given(option)) continue;
      return refuse(option,
                    fmt::format("no source of --source {} reads accessed bits",
                                fmt::join(options.sources.names, ",")),
                    fmt::format("leave it out, or add {} or {} to --source", kAbitBpfSource.name,
                                kDriverSource.name));
    }
  }
  if (given("--ageing") &&
      (abit.looked == abit::Looked::kRegions || !names_any({kAbitBpfSource.name}))) {
    return refuse("--ageing", "no whole process is cleared by regions or the driver",
                  fmt::format("leave it out, or use --abit full or auto with --source {}",
                              kAbitBpfSource.name));
  }
  if (abit.looked == abit::Looked::kFull) {
    for (const char* option : kOfRegions) {
      if (!given(option)) continue;
      return refuse(option, fmt::format("--abit {} has no regions", AbitText(abit)),
                    "give --abit regions or --abit auto, too, or leave it out");
    }
  }
  const bool scans_plainly =
      abit.looked != abit::Looked::kRegions && abit.mode == abit::ScanOptions::Mode::kPlain;
  if (given("--scan-interval") && !scans_plainly) {
    return refuse("--scan-interval",
                  fmt::format("--abit {} makes no scan at an interval", AbitText(abit)),
                  abit.looked == abit::Looked::kRegions
                      ? "of regions, --region-monitoring is the interval"
                      : fmt::format("give --abit {},plain, too, or leave it out",
                                    abit.looked == abit::Looked::kAuto ? "auto" : "full"));
  }
  return {};
}

}  // namespace tmprof
