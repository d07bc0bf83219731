// SPDX-License-Identifier: Apache-2.0
// Parts that the functions of several views share, also of those that components add.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "proto/trace.h"

namespace tmprof {

// Returns what one of the three functions returns for the data. `tables` is the width of tables in
// text.
template <typename Data, typename Text, typename ToJson, typename ToCsv>
std::string Spell(const Data& data, TextWidth tables, Format format, Text text, ToJson json,
                  ToCsv csv) {
  switch (format) {
    case Format::kText:
      return text(data, tables);
    case Format::kJson:
      return json(data);
    case Format::kCsv:
      return csv(data);
  }
  return {};
}

// Refuses chosen epochs if the file has none of them.
inline Status RequireEpochs(std::uint64_t found, const EpochRange& chosen, std::string_view file) {
  if (chosen.IsAll() || found > 0) return {};
  const bool open = chosen.end == EpochRange{}.end;
  return Fail(BadInput(
      "show epochs", fmt::format("{}:{}", chosen.first, open ? "" : fmt::format("{}", chosen.end)),
      fmt::format("the {} has none of them", file), "without --epochs, all that it has are shown"));
}

// Refuses a chosen process that was not profiled.
template <typename Pids>
Status RequireProcess(const std::optional<Pid>& chosen, const Pids& profiled) {
  if (!chosen || profiled.contains(*chosen)) return {};
  return Fail(BadInput("show process", fmt::format("PID {}", chosen->value()),
                       "it was not profiled in these epochs", "the summary lists the targets"));
}

}  // namespace tmprof
