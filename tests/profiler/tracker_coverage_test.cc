// SPDX-License-Identifier: Apache-2.0

#include "profiler/tracker_coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace tmprof {
namespace tracker_coverage_test {

using testing::ElementsAre;
using testing::HasSubstr;

class TrackerCoverageTest : public testing::Test {
 protected:
  // A process that maps these files, in this order, and then anonymous memory.
  static TrackedProcess Process(std::int32_t pid, const std::vector<std::string>& files) {
    TrackedProcess process{.id = TargetId(static_cast<std::uint32_t>(pid)), .pid = Pid(pid)};
    std::uint64_t at = 1;
    for (const std::string& file : files) {
      process.mappings.push_back({.range = {Vpn(at), Vpn(at + 1)},
                                  .kind = MappingKind::kFile,
                                  .path = file,
                                  .accessible = true,
                                  .file = std::nullopt});
      ++at;
    }
    process.mappings.push_back({.range = {Vpn(100), Vpn(200)}, .path = "", .file = std::nullopt});
    return process;
  }
  // Each process accesses as many pages.
  static EpochProfile Epoch(const std::map<std::int32_t, std::uint64_t>& accessed) {
    EpochProfile epoch;
    for (const auto& [pid, pages] : accessed) {
      const TargetId id(static_cast<std::uint32_t>(pid));
      epoch.targets.push_back({.id = id, .pid = Pid(pid)});
      for (std::uint64_t page = 0; page < pages; ++page) {
        Append(epoch.pages, {.key = {id, Vpn(100 + page)}, .looks = 1, .references = 1});
      }
      Append(epoch.pages, {.key = {id, Vpn(199)}, .looks = 1});  // not accessed
    }
    return epoch;
  }
  std::string WhyNot(const TrackedProcess& process, bool has_tracker) {
    const Pid pid = process.pid;
    asked_.push_back(pid.value());
    return has_tracker ? whys_with_tracker_[pid.value()] : whys_[pid.value()];
  }

  std::map<std::int32_t, std::string> whys_;
  std::map<std::int32_t, std::string> whys_with_tracker_;
  std::map<std::int32_t, std::string> programs_;  // empty: unknown
  std::vector<std::int32_t> asked_;
  TrackerCoverage coverage_{
      "tracker.so",
      [this](const TrackedProcess& process, bool has_tracker) {
        return WhyNot(process, has_tracker);
      },
      [this](const TrackedProcess& process) { return programs_[process.pid.value()]; }};
};

TEST_F(TrackerCoverageTest, FindsNothingUntrackedWhereEveryProcessHasTheTracker) {
  coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"})});
  coverage_.Add(Epoch({{10, 5}}));
  const UntrackedProcesses untracked = coverage_.Untracked();
  EXPECT_EQ(untracked.processes, 0u);
  EXPECT_EQ(untracked.of_processes, 1u);
  EXPECT_EQ(untracked.accessed, PageCount(0));
}

TEST_F(TrackerCoverageTest, CountsAProcessThatTheTrackerCannotSpeakFor) {
  whys_with_tracker_[10] = "a PID namespace of its own";
  for (int look = 0; look < 3; ++look)
    coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"})});
  coverage_.Add(Epoch({{10, 5}}));
  EXPECT_EQ(coverage_.Untracked().why, "a PID namespace of its own");
  EXPECT_THAT(asked_, ElementsAre(10)) << "once for one program";
}

TEST_F(TrackerCoverageTest, CountsThePagesOfAProcessWithoutTheTrackerAndSaysWhy) {
  whys_[11] = "'/bin/st' is statically linked";
  for (int epoch = 0; epoch < 2; ++epoch) {
    coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"}), Process(11, {"/bin/st"})});
    coverage_.Add(Epoch({{10, 5}, {11, 7}}));
  }
  const UntrackedProcesses untracked = coverage_.Untracked();
  EXPECT_EQ(untracked.processes, 1u);
  EXPECT_EQ(untracked.of_processes, 2u);
  EXPECT_EQ(untracked.accessed, PageCount(7)) << "each page counts once";
  EXPECT_EQ(untracked.of_accessed, PageCount(12));
  EXPECT_EQ(untracked.why, "'/bin/st' is statically linked");
  EXPECT_EQ(untracked.other_reasons, 0u);
  EXPECT_THAT(asked_, ElementsAre(10, 11)) << "once for one program";
}

TEST_F(TrackerCoverageTest, DoesNotCountAProcessThatAccessedNothing) {
  whys_[11] = "no";
  coverage_.SeeTargets({Process(11, {"/bin/st"})});
  coverage_.Add(Epoch({{11, 0}}));
  EXPECT_EQ(coverage_.Untracked().processes, 0u);
  EXPECT_EQ(coverage_.Untracked().of_processes, 0u);
}

TEST_F(TrackerCoverageTest, TellsTheReasonOfMostPagesAndHowManyOthersThereAre) {
  whys_ = {{11, "few"}, {12, "most"}, {13, "few"}};
  coverage_.SeeTargets({Process(11, {"/a"}), Process(12, {"/b"}), Process(13, {"/a"})});
  coverage_.Add(Epoch({{11, 3}, {12, 7}, {13, 3}}));
  const UntrackedProcesses untracked = coverage_.Untracked();
  EXPECT_EQ(untracked.processes, 3u);
  EXPECT_EQ(untracked.accessed, PageCount(13));
  EXPECT_EQ(untracked.why, "most");
  EXPECT_EQ(untracked.other_reasons, 1u);
}

TEST_F(TrackerCoverageTest, AsksAgainWhenAProcessRunsAnotherProgram) {
  coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"})});
  coverage_.Add(Epoch({{10, 5}}));
  whys_[10] = "static";
  coverage_.SeeTargets({Process(10, {"/bin/st"})});
  coverage_.Add(Epoch({{10, 9}}));
  EXPECT_EQ(coverage_.Untracked().accessed, PageCount(9)) << "an epoch is its last program's";
  coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"})});
  coverage_.Add(Epoch({{10, 20}}));
  EXPECT_EQ(coverage_.Untracked().accessed, PageCount(9));
}

TEST_F(TrackerCoverageTest, GivesTheLoaderTimeUntilTheNextLook) {
  coverage_.SeeTargets({Process(10, {"/bin/sh"})});
  coverage_.Add(Epoch({{10, 5}}));
  EXPECT_EQ(coverage_.Untracked().processes, 0u);
  coverage_.SeeTargets({Process(10, {"/bin/sh", "/lib/tracker.so"})});
  coverage_.Add(Epoch({{10, 5}}));
  EXPECT_EQ(coverage_.Untracked().processes, 0u);
}

TEST_F(TrackerCoverageTest, SaysOfAProgramThatStaysWithoutForNoKnownReasonThatItDid) {
  programs_[10] = "/bin/sh";
  for (int look = 0; look < 3; ++look)
    coverage_.SeeTargets({Process(10, {"/a/file/mapped/below/it", "/bin/sh"})});
  coverage_.Add(Epoch({{10, 5}}));
  EXPECT_EQ(coverage_.Untracked().processes, 1u);
  EXPECT_THAT(coverage_.Untracked().why, HasSubstr("'/bin/sh' did not load the tracker"));
  EXPECT_THAT(asked_, ElementsAre(10, 10)) << "not at each look";
}

TEST_F(TrackerCoverageTest, GivesTheNumberOfAProcessWhoseProgramIsUnknown) {
  for (int look = 0; look < 3; ++look) coverage_.SeeTargets({Process(10, {"/bin/sh"})});
  coverage_.Add(Epoch({{10, 5}}));
  EXPECT_THAT(coverage_.Untracked().why, HasSubstr("PID 10 did not load the tracker"));
}

TEST_F(TrackerCoverageTest, KeepsWhatItKnowsWhileMappingsCannotBeRead) {
  whys_[11] = "static";
  coverage_.SeeTargets({Process(11, {"/bin/st"})});
  coverage_.SeeTargets({{.id = TargetId(11), .pid = Pid(11)}});
  coverage_.Add(Epoch({{11, 2}}));
  EXPECT_EQ(coverage_.Untracked().accessed, PageCount(2));
  EXPECT_THAT(asked_, ElementsAre(11));
}

TEST_F(TrackerCoverageTest, RemembersAProcessThatHasEnded) {
  whys_[11] = "static";
  coverage_.SeeTargets({Process(11, {"/bin/st"})});
  coverage_.Add(Epoch({{11, 2}}));
  coverage_.SeeTargets({});
  coverage_.Add(Epoch({{10, 1}}));
  const UntrackedProcesses untracked = coverage_.Untracked();
  EXPECT_EQ(untracked.processes, 1u);
  EXPECT_EQ(untracked.of_processes, 2u);
  EXPECT_EQ(untracked.why, "static");
}

}  // namespace tracker_coverage_test
}  // namespace tmprof
