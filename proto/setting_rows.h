// SPDX-License-Identifier: Apache-2.0
// Joins settings to the members of a struct that they set. proto/config.proto describes settings:
// name, type, range, help, and what a change does. A row joins a description to its member, and a
// codec converts the value.

#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "proto/given_settings.h"

namespace tmprof {

inline constexpr std::uint64_t kPagesPerMib = (1U << 20) / kBasePageBytes;
inline constexpr std::uint64_t kBytesPerMib = 1U << 20;
inline constexpr std::uint64_t kBytesPerKib = 1024;

// Refuses the value with this index, which is 0 unless the field is repeated.
using RefuseValue = std::function<void(std::size_t index, std::string why)>;

template <typename Config>
struct SettingRow {
  std::string_view path;  // "mover.attempts"
  // Sets the member to what was given: one value, or several if the field is repeated. What it
  // refuses leaves a Config that nobody may use.
  std::function<void(const std::vector<Scalar>& given, Config& config, const RefuseValue& refuse)>
      set;
  // Returns what is in force. It is empty if there is no value: discovered, measured, no limit.
  std::function<std::vector<Scalar>(const Config& config)> get;
};

// Returns the row for a struct that Part is a base of.
template <typename Config, typename Part>
SettingRow<Config> RowOf(const SettingRow<Part>& row) {
  return {.path = row.path, .set = row.set, .get = row.get};
}

// "'x': unknown name; use one of a, b".
std::string FaultText(const std::string& value, const Error& error);

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
using Milliseconds = Time<std::chrono::milliseconds>;
using Microseconds = Time<std::chrono::microseconds>;

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
    return std::unexpected(
        fmt::format("'{}': unknown name; use one of {}", text, fmt::join(names, ", ")));
  }
  static Scalar Give(Choice member) { return std::string(Name(member)); }
  std::array<Choice, n> choices;
};

// Text that `parse` takes, a Result<T>(std::string_view), and that `print` returns again.
template <typename Parse, typename Print>
struct Parsed {
  template <typename T>
  Taken<T> Take(const Scalar& value) const {
    const auto& text = std::get<std::string>(value);
    const auto parsed = parse(text);
    if (!parsed) return std::unexpected(FaultText(text, parsed.error()));
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

// --- Rows of a Config

template <typename T>
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;

// Makes rows for the members of a Config.
template <typename Config>
struct RowsOf {
  using Row = SettingRow<Config>;
  using Values = std::vector<Scalar>;

  // A setting whose member `of(config)` returns by reference. If the member is optional, it has no
  // value until it is set.
  template <typename Of, typename Codec = AsIs>
  static Row One(std::string_view path, Of of, Codec codec = {}) {
    using Member = std::remove_cvref_t<decltype(of(std::declval<Config&>()))>;
    return {.path = path,
            .set =
                [of, codec](const Values& given, Config& config, const RefuseValue& refuse) {
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
            .get = [of, codec](const Config& config) -> Values {
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
  static Row List(std::string_view path, Of of, Codec codec = {}) {
    using Value = typename std::remove_cvref_t<decltype(of(std::declval<Config&>()))>::value_type;
    return {.path = path,
            .set =
                [of, codec](const Values& given, Config& config, const RefuseValue& refuse) {
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
            .get = [of, codec](const Config& config) -> Values {
              Values values;
              for (const Value& value : of(config)) values.push_back(codec.Give(value));
              return values;
            }};
  }
};

}  // namespace tmprof
