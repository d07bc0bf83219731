// SPDX-License-Identifier: Apache-2.0
// Each source that works on this machine, for as long as it takes to see anything: how much it
// sees, and at what cost, is for record_live_test.cc and abit_live_test.cc on a machine with time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"

namespace tmprof::test {
namespace sources_smoke_test {

using Json = nlohmann::json;

struct Way {
  std::string name;
  std::string source;  // as `tmprof doctor` names it
  std::vector<std::string> arguments;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class EachSource : public Recording, public ::testing::WithParamInterface<Way> {};

TEST_P(EachSource, SeesPagesOfABusyProgram) {
  const Json row = DoctorRow(GetParam().source);
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  // The program runs until its recording is over, whatever time the machine has for the two: a
  // minute is for a host that gives them a hundredth of a CPU.
  std::string script =
      Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; for seconds in 2 10 60; do " +
      TmprofPath() + " record --duration ${seconds}s -o " + trace_ + " -p $target";
  for (const std::string& argument : GetParam().arguments) script += " " + argument;
  script += "; case $? in 0 | 3) ;; *) kill $target; exit 90 ;; esac; " + TmprofPath() +
            " report " + trace_ +
            " --view summary --format json | grep -q '\"footprint_pages\": *[1-9]' && break; done; "
            "kill $target; exit 0";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_TRUE(summary["finished"].get<bool>());
  EXPECT_GT(summary["footprint_pages"].get<int>(), 0);
  ASSERT_FALSE(summary["sources"].empty());
  EXPECT_EQ(summary["sources"][0]["name"], GetParam().source);
  EXPECT_NE(summary["sources"][0]["state"], "unavailable");
  // Its trace can be ranked and replayed.
  for (const std::string command : {"report", "eval"}) {
    const Outcome read = Tmprof({command, trace_});
    EXPECT_EQ(read.status, 0) << command << ": " << read.err;
  }
}

const std::vector<Way> kWays{
    {"AbitLadder", "abit-bpf", {"--source abit-bpf"}},
    {"AbitPlain", "abit-bpf", {"--source abit-bpf --abit full,plain"}},
    {"AbitRegions", "abit-bpf", {"--source abit-bpf --abit regions"}},
    {"Driver", "driver", {"--source driver"}},
    {"Clock", "clock", {"--source clock"}},
    {"Ibs", "ibs", {"--source ibs"}},
    {"Pebs", "pebs", {"--source pebs"}},
};

INSTANTIATE_TEST_SUITE_P(All, EachSource, ::testing::ValuesIn(kWays),
                         [](const auto& way) { return way.param.name; });

// An operator who has never recorded anything asks so.
TEST_F(Recording, TheCurveOfARunningProgramTakesOneCommandAndLeavesNoFile) {
  const Json row = DoctorRow("abit-bpf");
  if (!row["usable"].get<bool>()) GTEST_SKIP() << row["detail"].get<std::string>();
  const std::string png = folder_.File("curve.png");
  const std::string script =
      "export TMPDIR=" + folder_.path().string() + "; " + Workload("hotset") +
      " --footprint 16MiB --duration 10min > /dev/null & target=$!; for seconds in 2 10 60; do " +
      TmprofPath() +
      " curve -p $target --duration ${seconds}s --by references --format json --png " + png +
      " > $TMPDIR/curve.json; status=$?; grep -q '\"whole_pages\": *[1-9]' "
      "$TMPDIR/curve.json && break; done; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << outcome.err;
  const Json curve = Json::parse(ReadFile(folder_.File("curve.json")));
  EXPECT_GT(curve["whole_pages"].get<int>(), 0);
  EXPECT_EQ(curve["of"], "accesses");
  EXPECT_THAT(ReadFile(png), ::testing::StartsWith("\x89PNG"));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("curve.json", "curve.png"));
}

TEST(Sources, OfTheDoctorThatRecordAreAllTriedHere) {
  const Outcome doctor = Tmprof({"doctor", "--format", "json"});
  const Json probes = Json::parse(doctor.out);
  for (const Json& row : probes["sources"]) {
    // The virtual PMU has a row only in its own machine, and tmprof_cli_test runs the tracer that
    // gives the truth.
    if (row["job"] == "gate" || row["job"] == "truth" || row["name"] == "vibs") continue;
    EXPECT_THAT(
        kWays, ::testing::Contains(::testing::Field(&Way::source, row["name"].get<std::string>())));
  }
}

}  // namespace sources_smoke_test
}  // namespace tmprof::test
