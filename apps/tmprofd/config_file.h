// SPDX-License-Identifier: Apache-2.0
// Configurations as files: protobuf's text format of proto/config.proto.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/tmprofd/config.h"
#include "base/result.h"
#include "base/trace_info.h"

namespace tmprof {

// Refuses the whole text where anything in it is wrong: see SettingsReading.
Result<Config> ParseConfig(std::string_view text, const std::string& name);
// Also refused: what cannot be read, a folder, more than kMostConfigBytes, what is not text.
Result<Config> LoadConfig(const std::string& path);

// With these fields set to other values, as in "mover.most_pages_per_epoch" = "1000"; text and
// names stand in quotes or not. Refused as a file would be, under the name "set".
Result<Config> WithSettings(const Config& config, const std::vector<Setting>& settings);

// True: both observe by the same sources, for the same tiers. One can then take the other's place,
// and all that was learnt of pages is kept.
bool ObserveAlike(const Config& a, const Config& b);

// All that holds, defaults included, as ParseConfig() takes it. What has no value because it is
// discovered, measured or without a limit is left out.
std::string PrintConfig(const Config& config);

}  // namespace tmprof
