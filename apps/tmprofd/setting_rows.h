// SPDX-License-Identifier: Apache-2.0
// The place of each setting in Config. proto/config.proto describes settings: name, type, range,
// help, and what a change does. A row here joins a description to the member that it sets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/tmprofd/config.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

inline constexpr std::uint64_t kPagesPerMib = (1U << 20) / kBasePageBytes;

// A value of a field. It is within the field's range.
using Scalar = std::variant<bool, std::uint64_t, double, std::string>;

// Refuses the value with this index, which is 0 unless the field is repeated.
using RefuseValue = std::function<void(std::size_t index, std::string why)>;

struct SettingRow {
  std::string_view path;  // "mover.attempts"
  // Sets the member to what was given: one value, or several if the field is repeated. What it
  // refuses leaves a Config that nobody may use.
  std::function<void(const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse)>
      set;
  // Returns what is in force. It is empty if there is no value: discovered, measured, no limit.
  std::function<std::vector<Scalar>(const Config& config)> get;
  // If set, returns whether the value follows from another setting, so that it is to follow from
  // that setting's next value, too.
  std::function<bool(const Config& config)> follows = nullptr;
};

// All settings in the order of the proto, but those of `tiers.tier`: it is a list of groups, which
// config_file.cc reads and prints.
std::span<const SettingRow> SettingRows();

// "'x': unknown name; use one of a, b".
std::string Fault(const std::string& value, const Error& error);

}  // namespace tmprof
