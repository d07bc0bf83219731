// SPDX-License-Identifier: Apache-2.0
// `tmprof record` as a stranger meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/apps/program.h"

namespace tmprof::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

std::string Workload(const std::string& name) {
  return std::string(TMPROF_BINARY_DIR) + "/" + name;
}

// Empty where recording works here; else why it does not.
std::string WhyRecordingIsRefused() {
  static const std::string reason = [] {
    const TemporaryFolder folder;
    const Outcome outcome =
        Tmprof({"record", "-o", folder.File("probe"), "--duration", "50ms", "--", "sleep", "0.05"});
    return outcome.status == 0 ? std::string() : outcome.err;
  }();
  return reason;
}

class Recording : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyRecordingIsRefused(); !reason.empty()) {
      GTEST_SKIP() << "recording is refused here: " << reason;
    }
  }

  Json Summary(const std::string& trace) const {
    const Outcome report = Tmprof({"report", trace, "--view", "summary", "--format", "json"});
    EXPECT_EQ(report.status, 0) << report.err;
    return Json::parse(report.out);
  }

  TemporaryFolder folder_;
  std::string trace_ = folder_.File("t.data");
};

TEST_F(Recording, SeesThePagesOfAProgramThatItLaunches) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", Workload("hotset"), "--footprint",
                                  "64MiB", "--shift", "10s", "--duration", "4s"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_GE(summary["epochs"].get<int>(), 4);
  EXPECT_NEAR(summary["duration_s"].get<double>(), 4, 2);
  // 64 MiB are 16 384 pages, all of which the program uses within a second.
  EXPECT_GE(summary["footprint_pages"].get<int>(), 14'000);
  EXPECT_EQ(summary["footprint_pages"], summary["pages_seen"]["either"]);
  struct stat attributes{};
  ASSERT_EQ(stat(trace_.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);
}

TEST_F(Recording, PassesTheStatusOfTheCommandOn) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "exit 42"}).status, 42);
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "sh", "-c", "kill -TERM $$"}).status, 128 + 15);
}

TEST_F(Recording, SaysThatACommandWasNotFound) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "no-such-command-anywhere"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no-such-command-anywhere"), HasSubstr("ENOENT")));
}

TEST_F(Recording, SaysThatACommandCannotBeExecuted) {
  EXPECT_EQ(Tmprof({"record", "-o", trace_, "--", "/etc/passwd"}).status, 126);
}

TEST_F(Recording, EndsWhenItsTargetExitsInMidEpoch) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--epoch", "10s", "--", "sleep", "0.3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Summary(trace_)["epochs"].get<int>(), 1);
}

TEST_F(Recording, NamesTheFullDisk) {
  const Outcome outcome = Tmprof({"record", "-o", "/dev/full", "--", "sleep", "0.1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/dev/full"), HasSubstr("ENOSPC")));
}

TEST_F(Recording, NamesTheFolderThatIsNotThere) {
  const Outcome outcome =
      Tmprof({"record", "-o", folder_.File("none/t.data"), "--", "sleep", "0.1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none/t.data"));
}

TEST_F(Recording, KeepsThePreviousTraceAsOld) {
  WriteFile(trace_, "precious");
  ASSERT_EQ(Tmprof({"record", "-o", trace_, "--", "sleep", "0.1"}).status, 0);
  EXPECT_EQ(ReadFile(trace_ + ".old"), "precious");
}

TEST_F(Recording, LeavesAReadableTraceWhenKilled) {
  const std::string script = TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; sleep 1.5; kill -KILL $recorder; "
                             "wait $recorder; exit 0";
  ASSERT_EQ(RunProgram({"bash", "-c", script}).status, 0);
  const Outcome report = Tmprof({"report", trace_, "--view", "summary", "--format", "json"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_GE(Json::parse(report.out)["epochs"].get<int>(), 5);
  EXPECT_THAT(report.err, HasSubstr("warning"));
}

TEST_F(Recording, EndsCleanlyOnSigterm) {
  const std::string script = TmprofPath() + " record -o " + trace_ +
                             " --epoch 100ms -p $$ & recorder=$!; sleep 1; kill -TERM $recorder; "
                             "wait $recorder";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Outcome report = Tmprof({"report", trace_, "--view", "summary"});
  EXPECT_EQ(report.status, 0);
  EXPECT_THAT(report.err, IsEmpty());
}

TEST_F(Recording, WorksTwiceOnOneTarget) {
  const std::string record = TmprofPath() + " record --epoch 200ms --duration 1s -o ";
  const std::string script = record + trace_ + " -p $$ & first=$!; " + record + folder_.File("u") +
                             " -p $$ || exit 1; wait $first";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST(RecordArguments, WithoutATargetAreRefused) {
  const Outcome outcome = Tmprof({"record"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("no target"), HasSubstr("-p PID")));
}

TEST(RecordArguments, WithAZeroEpochAreRefused) {
  EXPECT_EQ(Tmprof({"record", "--epoch", "0", "--", "true"}).status, 2);
  EXPECT_EQ(Tmprof({"record", "--epoch", "0s", "--", "true"}).status, 2);
}

TEST(RecordArguments, WithAnUnknownSourceNameTheKnownOnes) {
  const Outcome outcome = Tmprof({"record", "--source", "magic", "--", "true"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("clock"));
}

TEST(RecordArguments, WithAProcessThatDoesNotExistAreRefused) {
  // The largest PID the kernel can be configured for is below 2^22.
  const Outcome outcome = Tmprof({"record", "-p", "4194304"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("4194304"), HasSubstr("ESRCH")));
}

TEST(RecordWithoutPrivilege, NamesTheMissingCapability) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become an ordinary user";
  const Outcome outcome =
      RunAsNobody({TmprofPath(), "record", "--source", "abit", "-o", "/dev/null", "--", "true"});
  if (outcome.status == 127 || outcome.status == 126) {
    GTEST_SKIP() << "an ordinary user cannot reach the build folder " << TMPROF_BINARY_DIR;
  }
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("CAP_"));
}

}  // namespace
}  // namespace tmprof::testing
