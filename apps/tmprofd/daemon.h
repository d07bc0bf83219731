// SPDX-License-Identifier: Apache-2.0
// tmprofd at work: signals and configurations, one session after another.

#pragma once

#include <optional>
#include <string>

#include "apps/tmprofd/config.h"

namespace tmprof {

// Until SIGTERM or SIGINT. SIGHUP reads the file again: a good one takes the place of the
// configuration, a bad one is logged. So is what else ends it, as the configuration then in force
// says. Returns the exit status.
int RunDaemon(Config config, const std::optional<std::string>& file);

}  // namespace tmprof
