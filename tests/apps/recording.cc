// SPDX-License-Identifier: Apache-2.0

#include "tests/apps/recording.h"

#include "tests/folders.h"

namespace tmprof::test {

using Json = nlohmann::json;

std::string Workload(const std::string& name) {
  return std::string(TMPROF_BINARY_DIR) + "/" + name;
}

namespace {

// Empty where recording can work here: some source of accessed bits or address samples is usable.
std::string WhyRecordingIsRefused() {
  static const std::string reason = [] {
    const Outcome doctor = Tmprof({"doctor", "--format", "json"});
    const Json probes = Json::parse(doctor.out, nullptr, /*allow_exceptions=*/false);
    if (doctor.status != 0 || probes.is_discarded()) return std::string();  // the tests then fail
    std::string refusals;
    for (const Json& probe : probes["sources"]) {
      if (probe["job"] == "gate" || probe["job"] == "truth") continue;
      if (probe["usable"].get<bool>()) return std::string();
      refusals +=
          probe["name"].get<std::string>() + ": " + probe["detail"].get<std::string>() + "; ";
    }
    return refusals;
  }();
  return reason;
}

}  // namespace

// Returns the row of that source in `tmprof doctor --format json`.
Json DoctorRow(const std::string& name, const std::function<void()>& in_child) {
  const Outcome outcome = RunProgram({TmprofPath(), "doctor", "--format", "json"}, in_child);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json probes = Json::parse(outcome.out);
  for (const Json& row : probes["sources"])
    if (row["name"] == name) return row;
  ADD_FAILURE() << "no row " << name << " in " << outcome.out;
  return {};
}

testing::AssertionResult Recorded(const Outcome& outcome) {
  if (outcome.status == 0 || outcome.status == 3) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << outcome.status << ": " << outcome.err;
}

void Recording::SetUp() {
  if (const std::string reason = WhyRecordingIsRefused(); !reason.empty()) {
    GTEST_SKIP() << "recording is refused here: " << reason;
  }
}

Json Recording::Summary(const std::string& trace, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"report", trace, "--view", "summary", "--format", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome report = Tmprof(arguments);
  EXPECT_EQ(report.status, 0) << report.err;
  return Json::parse(report.out);
}

std::vector<std::string> Recording::TargetNames(const std::string& trace) {
  std::vector<std::string> names;
  const Json summary = Summary(trace);
  for (const Json& target : summary["targets"]) {
    names.push_back(target["name"].get<std::string>());
  }
  return names;
}

}  // namespace tmprof::test
