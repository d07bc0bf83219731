// SPDX-License-Identifier: Apache-2.0
// The place of each setting in Config.

#pragma once

#include <span>

#include "apps/tmprofd/config.h"
#include "proto/setting_rows.h"

namespace tmprof {

// All settings in the order of the proto, but those of `tiers.tier`: see DaemonSettingRows().
std::span<const SettingRow<Config>> SettingRows();

}  // namespace tmprof
