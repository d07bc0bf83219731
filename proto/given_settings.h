// SPDX-License-Identifier: Apache-2.0
// The settings of the daemon that a text or an operator gives, by their paths in
// proto/config.proto: "mover.attempts", and "tiers.tier[1].node" for the second group of a list.

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/trace_info.h"

namespace tmprof {

namespace wire {
class Config;
}

// A longer text is refused.
inline constexpr std::size_t kMostConfigBytes = std::size_t{1} << 20;

// A value of a field. It is within the field's range.
using Scalar = std::variant<bool, std::uint64_t, double, std::string>;

// All paths but those of lists of groups, in the proto's order.
std::vector<std::string> SettingPaths();
// Those of them that are no lists, which GivenSettings::Set() can change.
std::vector<std::string> SettablePaths();

class GivenSettings {
 public:
  GivenSettings();
  GivenSettings(const GivenSettings& other);
  GivenSettings& operator=(const GivenSettings& other);
  GivenSettings(GivenSettings&& other) noexcept;
  GivenSettings& operator=(GivenSettings&& other) noexcept;
  ~GivenSettings();

  // Returns the values of a field, which are several only if it is repeated. Empty: it is not
  // given. Precondition: the proto has the path.
  std::vector<Scalar> Values(std::string_view path) const;
  bool Has(std::string_view path) const { return !Values(path).empty(); }
  // Returns how many groups a list has. Precondition: as above.
  std::size_t Groups(std::string_view path) const;

  // Adds these values to a field that has none. It makes the groups around it. Preconditions: the
  // proto has the path, and the values are of its type; of a list of groups, there are at least as
  // many groups as the index.
  void Give(std::string_view path, const std::vector<Scalar>& values);
  // Removes what is given of a field. Precondition: the proto has the path.
  void Clear(std::string_view path);

  struct Refusal {
    std::string why;
    bool is_unknown = false;  // no field has this name
  };
  // Sets one field as an operator does: text in quotes or not, and "default" for no value. Lists
  // are refused, because only a file changes them. What is refused may leave this changed.
  std::expected<void, Refusal> Set(const Setting& setting);

  // Returns the text that ReadSettings() reads the same from.
  std::string Text() const;
  // True: both have the same values of those settings whose change opens sources and tiers anew, by
  // the option `change` of their fields.
  bool ReopensAs(const GivenSettings& other) const;

 private:
  friend class SettingsReading;

  std::unique_ptr<wire::Config> config_;  // never null, unless this was moved from
};

// A text whose settings are being judged.
class SettingsReading {
 public:
  // Takes all that is right. A text that is too large, or has control characters, has no settings.
  // `name` names it in errors.
  SettingsReading(std::string_view text, std::string name);
  SettingsReading(const SettingsReading&) = delete;
  SettingsReading& operator=(const SettingsReading&) = delete;
  ~SettingsReading();

  const GivenSettings& given() const { return given_; }
  // Refuses a value of a field, or a list of groups by its path without an index. Precondition: the
  // text has it.
  void Refuse(std::string_view path, std::string why, std::size_t index = 0);

  // Returns the settings. If anything was wrong, the error has a line for each fault, in the text's
  // order: "NAME:LINE:COLUMN: field.path: what is wrong, what is allowed".
  Result<GivenSettings> Take() &&;

 private:
  struct Faults;

  std::string name_;
  GivenSettings given_;
  std::unique_ptr<Faults> faults_;
};

// Returns the text of a file. Refused: what cannot be read, a folder. A file that is too large is
// returned cut, and still too large.
Result<std::string> ReadConfigText(const std::string& path);

}  // namespace tmprof
