// SPDX-License-Identifier: Apache-2.0
// Common parts of the tests of `tmprof record`.

#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/program.h"

namespace tmprof::test {

// The path of a program of this build.
std::string Workload(const std::string& name);

// The row of source `name` in `tmprof doctor --format json`. `in_child` runs in the doctor's
// process first.
nlohmann::json DoctorRow(const std::string& name, const std::function<void()>& in_child = [] {});

// Succeeds if a recording went to its end: with 0, or with 3 if it saw little. A slow host may see
// little of an idle or short program.
testing::AssertionResult Recorded(const Outcome& outcome);

// Skips where no source of accessed bits or address samples is usable.
class Recording : public ::testing::Test {
 protected:
  void SetUp() override;

  static nlohmann::json Summary(const std::string& trace,
                                const std::vector<std::string>& more = {});
  static std::vector<std::string> TargetNames(const std::string& trace);

  TemporaryFolder folder_;
  std::string trace_ = folder_.File("t.data");
};

}  // namespace tmprof::test
