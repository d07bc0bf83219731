// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "apps/tmprofd/setting_rows.h"

namespace tmprof {
namespace {

// Makes the configuration of what is given. Values are of their fields' types and ranges.
Config MadeOf(const GivenSettings& given, const RefuseSetting& refuse) {
  Config config;
  config.given = given;
  for (const SettingRow<Config>& row : SettingRows()) {
    const std::vector<Scalar> values = given.Values(row.path);
    if (values.empty()) continue;
    row.set(values, config,
            [&](std::size_t index, std::string why) { refuse(row.path, std::move(why), index); });
  }
  Settle(config, refuse);
  return config;
}

// Returns all that is in force, defaults included.
GivenSettings InForce(const Config& config) {
  GivenSettings settings;
  GiveTiers(config.tiers, settings);
  for (const SettingRow<Config>& row : SettingRows()) settings.Give(row.path, row.get(config));
  return settings;
}

// "tiers.tier.footprint_ratio" of "tiers.tier[1].footprint_ratio".
std::string WithoutIndexes(std::string_view path) {
  std::string name;
  bool is_index = false;
  for (const char c : path) {
    is_index = is_index || c == '[';
    if (!is_index) name += c;
    if (c == ']') is_index = false;
  }
  return name;
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, const std::string& name) {
  SettingsReading reading(text, name);
  Config config = MadeOf(reading.given(),
                         [&reading](std::string_view path, std::string why, std::size_t index) {
                           reading.Refuse(path, std::move(why), index);
                         });
  if (const auto given = std::move(reading).Take(); !given) return Fail(given.error());
  return config;
}

Result<Config> LoadConfig(const std::string& path) {
  const Result<std::string> text = ReadConfigText(path);
  if (!text) return Fail(text.error());
  return ParseConfig(*text, path);
}

std::string PrintConfig(const Config& config) { return InForce(config).Text(); }

bool ObserveAlike(const Config& a, const Config& b) { return InForce(a).ReopensAs(InForce(b)); }

Result<Config> WithSettings(const Config& config, const std::vector<Setting>& settings) {
  GivenSettings given = config.given;
  for (const Setting& setting : settings) {
    if (auto set = SetGiven(given, setting); !set) {
      return Fail(BadInput("set", setting.name, set.error()));
    }
  }
  std::vector<std::string> faults;
  std::string setting_at_fault;
  Config changed =
      MadeOf(given, [&](std::string_view path, std::string why, std::size_t /*index*/) {
        const std::string name = WithoutIndexes(path);
        if (faults.empty()) setting_at_fault = name;
        faults.push_back(faults.empty() ? std::move(why) : fmt::format("{}: {}", name, why));
      });
  if (faults.empty()) return changed;
  return Fail(BadInput("set", setting_at_fault, fmt::format("{}", fmt::join(faults, "\n"))));
}

}  // namespace tmprof
