// SPDX-License-Identifier: Apache-2.0
// Finds patterns of TargetRules that no process can match.

#pragma once

#include <string>

namespace tmprof {

// Each returns what is wrong with the pattern, and how to write it. Empty: it may match.
std::string FaultOfCommand(const std::string& command);
std::string FaultOfExecutable(const std::string& exe);
std::string FaultOfCgroup(const std::string& cgroup);

}  // namespace tmprof
