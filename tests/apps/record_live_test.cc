// SPDX-License-Identifier: Apache-2.0
// `tmprof record` of programs whose accesses are known, on a machine with time to look.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/apps/program.h"
#include "tests/apps/recording.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace record_live_test {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// The status of a recording that saw little, as those of less than a second may.
constexpr int kSawLittle = 3;

class LiveRecording : public Recording {};

TEST_F(LiveRecording, SeesThePagesOfAProgramThatItLaunches) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", Workload("hotset"), "--footprint",
                                  "64MiB", "--shift", "10s", "--duration", "4s"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  // Most of the 4 s that the program runs by its own clock: the first epoch, of 1 s as the others,
  // starts late on a busy machine.
  EXPECT_GE(summary["epochs"].get<int>(), 2);
  EXPECT_GE(summary["duration_s"].get<double>(), 3.0);
  // 64 MiB are 16 384 pages, all of which the program uses within a second.
  EXPECT_GE(summary["footprint_pages"].get<int>(), 14'000);
  EXPECT_EQ(summary["footprint_pages"], summary["pages_seen"]["either"]);
  struct stat attributes{};
  ASSERT_EQ(stat(trace_.c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 0777, 0600u);
  // The trace has a tier for each of the machine's nodes with memory.
  const Outcome with_memory = RunProgram(
      {"sh", "-c", "cat /sys/devices/system/node/node*/meminfo | grep -c 'MemTotal: *[1-9]'"});
  std::size_t nodes = 0;
  for (const Json& tier : summary["host"]["tiers"]) nodes += tier.size();
  EXPECT_EQ(std::to_string(nodes) + "\n", with_memory.out);
}

// 30 000 pages that the program writes to, each in a mapping of its own, and a read-only mapping
// behind each; it is recorded once they are all there.
TEST_F(LiveRecording, SeesThirtyThousandMappingsAtTheUsualPace) {
  const std::string script = Workload("tests/layouts") +
                             " mappings 30000 & target=$!; while [ $(wc -l < /proc/$target/maps) "
                             "-lt 60000 ]; do sleep 0.2; "
                             "done; " +
                             TmprofPath() + " record --source abit-bpf --duration 10s -o " +
                             trace_ + " -p $target; status=$?; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_GE(summary["epochs"].get<int>(), 9);
  EXPECT_EQ(summary["lost_epochs"].get<int>(), 0);
  EXPECT_GE(summary["pages_looked_at"].get<int>(), 29'700);
  // A visit ends when half of a table's pages were found accessed. Few pages are visited twice.
  EXPECT_GE(summary["pages_seen"]["references"].get<int>(), 22'500);
}

TEST_F(LiveRecording, ReportsTheCpuTimeOfAShortCommandAndScoresItsPages) {
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", Workload("hotset"), "--footprint",
                                  "16MiB", "--duration", "300ms"});
  ASSERT_THAT(outcome.status, AnyOf(0, kSawLittle)) << outcome.err;
  const Json summary = Summary(trace_);
  ASSERT_EQ(summary["targets"].size(), 1u);
  // The program's own account of its access loop, which leaves its start out.
  const Json own = Json::parse(outcome.out.substr(outcome.out.find('{')));
  EXPECT_GE(summary["targets"][0]["cpu_s"].get<double>(), own["cpu_seconds"].get<double>());
  const Outcome hot = Tmprof({"report", trace_, "--view", "hot", "--format", "json"});
  ASSERT_EQ(hot.status, 0) << hot.err;
  const Json rows = Json::parse(hot.out)["rows"];
  ASSERT_FALSE(rows.empty());
  EXPECT_GT(rows[0]["score"].get<double>(), 0);
}

TEST_F(LiveRecording, FollowsAnOrphanOfTheCommand) {
  // The subshell ends at once, so that its child is no descendant of the command any more.
  const Outcome outcome = Tmprof({"record", "-o", trace_, "--", "sh", "-c",
                                  "sleep 0.4; (" + Workload("hotset") +
                                      " --footprint 16MiB --duration 1500ms &); exec sleep 2"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(TargetNames(trace_), Contains("hotset"));
}

TEST_F(LiveRecording, RegionsAreLookedAtByOnePageEachAndItSaysSo) {
  if (!DoctorRow("abit-bpf")["usable"].get<bool>())
    GTEST_SKIP() << "accessed bits cannot be observed here";
  const Outcome outcome =
      Tmprof({"record", "--source", "abit-bpf", "--abit", "regions,plain", "-o", trace_, "--",
              Workload("hotset"), "--footprint", "64MiB", "--duration", "3s"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_EQ(summary["settings"]["abit"], "regions,plain");
  EXPECT_FALSE(summary["settings"].contains("scan-interval")) << "regions have no use for it";
  const Json& source = summary["sources"][0];
  EXPECT_THAT(source["label"].get<std::string>(), HasSubstr("regions, plain"));
  EXPECT_GT(source["details"]["steps"].get<int>(), 0);
  EXPECT_LE(source["details"]["pages_checked"].get<int>(),
            1000 * source["details"]["steps"].get<int>());
}

// A ten-thousandth of a second's CPU time pays for no visit to 16 384 pages within ten.
TEST_F(LiveRecording, AutoGoesOverToRegionsIfTheBudgetIsTiny) {
  if (!DoctorRow("abit-bpf")["usable"].get<bool>())
    GTEST_SKIP() << "accessed bits cannot be observed here";
  const Outcome outcome = Tmprof({"record", "--source", "abit-bpf", "--abit", "auto",
                                  "--max-overhead", "0.01%", "--epoch", "500ms", "-o", trace_, "--",
                                  Workload("hotset"), "--footprint", "64MiB", "--duration", "12s"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json summary = Summary(trace_);
  EXPECT_EQ(summary["settings"]["abit"], "auto,ladder");
  const Json& source = summary["sources"][0];
  EXPECT_THAT(source["label"].get<std::string>(), HasSubstr("regions, exposure ladder"));
  EXPECT_GT(source["details"]["steps"].get<int>(), 0);
  // It began with every page.
  const Json first = Summary(trace_, {"--epochs", "0:1"});
  EXPECT_THAT(first["sources"][0]["label"].get<std::string>(), Not(HasSubstr("regions")));
  EXPECT_GT(first["sources"][0]["details"]["clears"].get<int>(), 0);
}

TEST_F(LiveRecording, WorksTwiceOnOneTargetAndBothTracesSayThatTheyDisturbedOneAnother) {
  if (!DoctorRow("abit-bpf")["usable"].get<bool>())
    GTEST_SKIP() << "accessed bits cannot be observed here";
  const std::string other = folder_.File("u.data");
  const std::string record =
      TmprofPath() + " record --source abit-bpf --epoch 200ms --duration 4s -o ";
  const std::string script = Workload("hotset") +
                             " --footprint 16MiB --duration 60s > /dev/null & target=$!; " +
                             record + trace_ + " -p $target & first=$!; " + record + other +
                             " -p $target || exit 90; wait $first || exit 91; kill $target";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const std::string& trace : {trace_, other}) {
    const Json summary = Summary(trace);
    EXPECT_TRUE(summary["finished"].get<bool>()) << trace;
    EXPECT_GE(summary["epochs"].get<int>(), 1) << trace;
    EXPECT_GT(summary["footprint_pages"].get<int>(), 0) << trace;
    int disturbed = 0;
    for (const Json& note : summary["sources"][0]["notes"]) {
      const auto text = note["text"].get<std::string>();
      if (text.find("(tmprof) clears accessed bits of the same") != std::string::npos) {
        disturbed += note["epochs"].get<int>();
      }
    }
    EXPECT_GE(disturbed, 1) << trace;
  }
}

// Root may raise its own limit, hence without CAP_SYS_RESOURCE. The threads hardly run: the
// recorder's start-up needs the CPU.
TEST_F(LiveRecording, SaysInEachEpochThatDescriptorsRanOut) {
  const std::string script =
      Workload("hotset") +
      " --footprint 16MiB --threads 60 --rate 1000 --duration 60s > /dev/null & target=$!; "
      "for ((i = 0; i < 1000; ++i)); do "
      "[ $(ls /proc/$target/task | wc -l) -ge 60 ] && break; sleep 0.02; done; "
      "ulimit -n 40; setpriv --bounding-set=-sys_resource " +
      TmprofPath() + " record --source clock --epoch 300ms --duration 1s -o " + trace_ +
      " -p $target; status=$?; kill $target; exit $status";
  const Outcome outcome = RunProgram({"bash", "-c", script});
  ASSERT_THAT(outcome.status, AnyOf(0, kSawLittle)) << outcome.err;
  const int epochs = Summary(trace_)["epochs"].get<int>();
  ASSERT_GE(epochs, 2);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Outcome report = Tmprof({"report", trace_, "--format", "json", "--epochs",
                                   std::to_string(epoch) + ":" + std::to_string(epoch + 1)});
    const Json sources = Json::parse(report.out)["sources"];
    EXPECT_THAT(sources[0]["notes"][0]["text"].get<std::string>(),
                AllOf(HasSubstr("EMFILE"), HasSubstr("the limit is 40")))
        << "epoch " << epoch;
  }
}

}  // namespace record_live_test
}  // namespace tmprof::test
