// SPDX-License-Identifier: Apache-2.0
// One line of the control socket's, as it was meant.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/trace_info.h"

namespace tmprof {

enum class ControlCommand : std::uint8_t { kStatus, kTargets, kHot, kPause, kResume, kSet, kStop };

enum class AnswerFormat : std::uint8_t { kJson, kText, kBinary };

struct ControlRequest {
  ControlCommand command = ControlCommand::kStatus;
  AnswerFormat format = AnswerFormat::kJson;  // of status, targets and hot
  TextWidth columns;                          // width of their tables in text
  std::optional<std::size_t> limit;           // for hot: spans; nullopt: all
  std::vector<Setting> settings;              // for set: at least one, none named twice
};

// Refuses what is not exactly a request: unknown commands and fields, values of another kind.
Result<ControlRequest> ParseControlRequest(std::string_view line);

}  // namespace tmprof
