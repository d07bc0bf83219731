// SPDX-License-Identifier: Apache-2.0
// One line of the control socket's, as it was meant.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/text_table.h"
#include "base/trace_info.h"

namespace tmprof {

enum class ControlCommand : std::uint8_t { kStatus, kTargets, kPause, kResume, kSet, kStop };

struct ControlRequest {
  ControlCommand command = ControlCommand::kStatus;
  bool as_text = false;           // for status and targets
  TextWidth columns;              // width of their tables in text
  std::vector<Setting> settings;  // for set: at least one, none named twice
};

// Refuses what is not exactly a request: unknown commands and fields, values of another kind.
Result<ControlRequest> ParseControlRequest(std::string_view line);

}  // namespace tmprof
