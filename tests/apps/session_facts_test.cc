// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/session_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/proc_tree.h"

namespace tmprof {
namespace session_facts_test {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

MonotonicTime At(std::chrono::nanoseconds since_boot) { return MonotonicTime(since_boot); }

class SessionFactsTest : public testing::Test {
 protected:
  // A tracked process in that state; `held_kib` of its memory is locked.
  TrackedProcess Put(std::int32_t pid, char state, std::uint64_t held_kib = 0) {
    tree_.Put({.pid = pid, .state = state});
    tree_.Write(std::to_string(pid) + "/status",
                "Name:\tworker\nVmLck:\t " + std::to_string(held_kib) + " kB\n");
    return {.id = TargetId(static_cast<std::uint32_t>(pid)), .pid = Pid(pid)};
  }
  static EpochProfile Epoch(MonotonicTime start, MonotonicTime end) {
    EpochProfile epoch;
    epoch.start = start;
    epoch.end = end;
    return epoch;
  }

  ProcTree tree_;
  ProcFs procfs_{tree_.root()};
  SessionFacts facts_{procfs_};
};

TEST_F(SessionFactsTest, KnowsNothingBeforeItSaw) {
  const RecordingFacts facts = facts_.Facts();
  EXPECT_FALSE(facts.stopped_throughout);
  EXPECT_FALSE(facts.gated_throughout);
  EXPECT_FALSE(facts.all_ended);
  EXPECT_FALSE(facts.resident.has_value());
  EXPECT_FALSE(facts.cpu_time.has_value());
}

TEST_F(SessionFactsTest, TakesTargetsForStoppedThatAlwaysWere) {
  const TrackedProcess stopped = Put(10, 'T');
  facts_.SeeTargets({stopped, Put(11, 't')}, PageCount(5), 0, At(1s));
  EXPECT_TRUE(facts_.Facts().stopped_throughout);
  facts_.SeeTargets({stopped, Put(11, 'S')}, PageCount(5), 0, At(2s));
  EXPECT_FALSE(facts_.Facts().stopped_throughout);
  facts_.SeeTargets({stopped}, PageCount(5), 0, At(3s));
  EXPECT_FALSE(facts_.Facts().stopped_throughout);
}

TEST_F(SessionFactsTest, KeepsTheMostThatWasResidentLockedAndLeftOut) {
  facts_.SeeTargets({Put(10, 'S', 400), Put(11, 'S', 40)}, PageCount(500), 1, At(1s));
  facts_.SeeTargets({Put(10, 'S', 0)}, PageCount(300), 2, At(2s));
  facts_.SeeTargets({}, PageCount(0), 0, At(3s));
  const RecordingFacts facts = facts_.Facts();
  EXPECT_EQ(facts.resident, PageCount(500));
  EXPECT_EQ(facts.over_max_targets, 2u);
  EXPECT_THAT(facts.unobservable,
              ElementsAre(Unobservable{.kind = "locked", .pages = PageCount(110)}));
  EXPECT_THAT(facts.targets, ElementsAre(Pid(10), Pid(11)));
}

TEST_F(SessionFactsTest, AddsUpEpochs) {
  EpochProfile first = Epoch(At(10s), At(11s));
  first.targets = {{.id = TargetId(0), .pid = Pid(10), .cpu_time = 300ms}};
  first.sources = {{.name = "abit-bpf",
                    .role = SourceRole::kReferences,
                    .state = SourceState::kActive,
                    .details = {{"unclearable_pages", 7}},
                    .refusal = "cannot clear"}};
  Append(first.pages, {.key = {TargetId(0), Vpn(1)}, .looks = 3, .references = 1});
  Append(first.pages, {.key = {TargetId(0), Vpn(2)}, .looks = 3});
  Append(first.pages, {.key = {TargetId(0), Vpn(512)}, .span = PageCount(512), .looks = 2});
  facts_.Add(first);
  EpochProfile second = Epoch(At(11s), At(12s));
  second.targets = {{.id = TargetId(0), .pid = Pid(10), .exited = true, .cpu_time = 200ms}};
  second.sources = {
      {.name = "abit-bpf", .role = SourceRole::kReferences, .state = SourceState::kUnavailable},
      {.name = "clock", .role = SourceRole::kSamples, .state = SourceState::kGated}};
  Append(second.pages, {.key = {TargetId(0), Vpn(1)}, .load_samples = 4, .store_samples = 1});
  facts_.Add(second);
  const RecordingFacts facts = facts_.Facts();
  EXPECT_EQ(facts.epochs, 2u);
  EXPECT_EQ(facts.length, 2s);
  EXPECT_TRUE(facts.all_ended);
  EXPECT_EQ(facts.cpu_time, 500ms);
  EXPECT_TRUE(facts.had_references);
  EXPECT_TRUE(facts.had_samples);
  EXPECT_FALSE(facts.had_truth);
  EXPECT_FALSE(facts.gated_throughout);
  EXPECT_FALSE(facts.by_regions);
  EXPECT_EQ(facts.looked_at, PageCount(514));
  EXPECT_EQ(facts.accessed, PageCount(1));
  EXPECT_EQ(facts.looks, 3u + 3u + 2u * 512u);
  EXPECT_EQ(facts.samples, 5u);
  EXPECT_EQ(facts.unclearable, PageCount(7));
  EXPECT_EQ(facts.refusal, "cannot clear");
}

TEST_F(SessionFactsTest, TellsASpanThatNoEntryMapsForARegion) {
  EpochProfile epoch = Epoch(At(10s), At(11s));
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .span = PageCount(100), .looks = 1});
  facts_.Add(epoch);
  EXPECT_TRUE(facts_.Facts().by_regions);
}

TEST_F(SessionFactsTest, TellsSourcesThatWereNeverOn) {
  EpochProfile epoch = Epoch(At(10s), At(11s));
  epoch.sources = {{.name = "clock", .role = SourceRole::kSamples, .state = SourceState::kGated}};
  facts_.Add(epoch);
  EXPECT_TRUE(facts_.Facts().gated_throughout);
}

TEST_F(SessionFactsTest, KnowsNoCpuTimeOfWhichAPartIsUnknown) {
  EpochProfile epoch = Epoch(At(10s), At(11s));
  epoch.targets = {{.id = TargetId(0), .cpu_time = 1s}, {.id = TargetId(1)}};
  facts_.Add(epoch);
  EXPECT_FALSE(facts_.Facts().cpu_time.has_value());
}

}  // namespace session_facts_test
}  // namespace tmprof
