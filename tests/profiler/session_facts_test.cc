// SPDX-License-Identifier: Apache-2.0

#include "profiler/session_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/host/proc_tree.h"

namespace tmprof {
namespace session_facts_test {

using namespace std::chrono_literals;
using testing::ElementsAre;

MonotonicTime At(std::chrono::nanoseconds since_boot) { return MonotonicTime(since_boot); }

class SessionFactsTest : public testing::Test {
 protected:
  // A tracked process in that state; `held_kib` of its memory is locked.
  TrackedProcess Put(std::int32_t pid, char state, std::uint64_t held_kib = 0) {
    tree_.Put({.pid = pid, .state = state});
    tree_.Write(std::to_string(pid) + "/status",
                "Name:\tworker\nVmLck:\t " + std::to_string(held_kib) + " kB\n");
    return {.id = TargetId(static_cast<std::uint32_t>(pid)),
            .pid = Pid(pid),
            .start_time_ticks = FakeProcess{}.start_time_ticks};
  }
  static EpochProfile Epoch(MonotonicTime start, MonotonicTime end) {
    EpochProfile epoch;
    epoch.start = start;
    epoch.end = end;
    return epoch;
  }

  // The process has 5 private pages, and 50 of a file that three processes have.
  void PutShared(std::int32_t pid) {
    tree_.Write(std::to_string(pid) + "/smaps",
                "10000-20000 rw-p 00000000 00:00 0\nRss: 20 kB\nPss: 20 kB\n"
                "VmFlags: rd wr mr mw me ac\n"
                "7000000-7032000 rw-s 00000000 00:01 77 /memfd:x (deleted)\n"
                "Rss: 200 kB\nPss: 66 kB\nVmFlags: rd wr sh mr mw me ms\n"
                "8000000-8007000 rw-s 00000000 00:05 9 /dev/gpu\nRss: 0 kB\nPss: 0 kB\n"
                "VmFlags: rd wr sh mr mw me ms pf io de dd\n");
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
  facts_.SeeTargets({stopped, Put(11, 't')}, PageCount(5), 0, {}, At(1s));
  EXPECT_TRUE(facts_.Facts().stopped_throughout);
  facts_.SeeTargets({stopped, Put(11, 'S')}, PageCount(5), 0, {}, At(2s));
  EXPECT_FALSE(facts_.Facts().stopped_throughout);
  facts_.SeeTargets({stopped}, PageCount(5), 0, {}, At(3s));
  EXPECT_FALSE(facts_.Facts().stopped_throughout);
}

TEST_F(SessionFactsTest, KeepsTheMostThatWasResidentLockedAndLeftOut) {
  facts_.SeeTargets({Put(10, 'S', 400), Put(11, 'S', 40)}, PageCount(500), 1, {}, At(1s));
  facts_.SeeTargets({Put(10, 'S', 0)}, PageCount(300), 2, {}, At(2s));
  facts_.SeeTargets({}, PageCount(0), 0, {}, At(3s));
  const RecordingFacts facts = facts_.Facts();
  EXPECT_EQ(facts.resident, PageCount(500));
  EXPECT_TRUE(facts.resident_is_at_most) << "nothing is known of what they share";
  EXPECT_EQ(facts.over_max_targets, 2u);
  EXPECT_EQ(facts.unobservable.locked, PageCount(110));
  EXPECT_EQ(facts.unobservable.hugetlb, PageCount(0));
  EXPECT_EQ(facts.unobservable.device, std::nullopt) << "/proc did not tell";
  EXPECT_EQ(facts.unobservable.refused, std::nullopt) << "no source told";
  EXPECT_THAT(facts.targets, ElementsAre(Pid(10), Pid(11)));
}

TEST_F(SessionFactsTest, KeepsTheMostChildrenThatTheFilterLeftOut) {
  EXPECT_EQ(facts_.Facts().filtered, std::nullopt);
  facts_.SeeTargets({Put(10, 'S')}, PageCount(5), 0, {}, At(1s));
  EXPECT_EQ(facts_.Facts().filtered, FilteredChildren());
  const FilteredChildren most{.processes = 2, .resident = PageCount(30), .cpu_share = 0.01};
  facts_.SeeTargets({}, PageCount(0), 0, most, At(2s));
  facts_.SeeTargets({}, PageCount(0), 0, {.processes = 1, .resident = PageCount(99)}, At(3s));
  EXPECT_EQ(facts_.Facts().filtered, most);
}

TEST_F(SessionFactsTest, CountsMemoryThatTargetsShareOnceInWhatIsResident) {
  const std::vector<TrackedProcess> targets = {Put(10, 'S'), Put(11, 'S'), Put(12, 'S')};
  for (const std::int32_t pid : {10, 11, 12}) PutShared(pid);
  facts_.SeeTargets(targets, PageCount(165), 0, {}, At(1s));
  EXPECT_EQ(facts_.Facts().resident, PageCount(165));
  EXPECT_TRUE(facts_.Facts().resident_is_at_most);
  facts_.SeeLast(targets);
  const RecordingFacts facts = facts_.Facts();
  EXPECT_EQ(facts.resident, PageCount(3 * 5 + 50));
  EXPECT_FALSE(facts.resident_is_at_most);
  EXPECT_EQ(facts.unobservable.device, PageCount(21));
  // 3 x 66 kB of 200 kB: the kernel rounds down.
  EXPECT_EQ(facts.mapped_elsewhere, PageCount(0));
}

// Of 50 pages, a parent and its child have 40 in common.
TEST_F(SessionFactsTest, CountsPagesThatRelativesShareOnceIfEpochsTellWhichTheyShare) {
  const std::vector<TrackedProcess> targets = {Put(10, 'S'), Put(11, 'S')};
  tree_.Put({.pid = 11, .parent = 10});
  for (const std::int32_t pid : {10, 11}) {
    tree_.Write(std::to_string(pid) + "/smaps",
                "7000000-7032000 rw-p 00000000 00:00 0\nRss: 200 kB\nPss: 120 kB\n"
                "VmFlags: rd wr mr mw me ac\n");
  }
  EpochProfile epoch = Epoch(At(0s), At(1s));
  for (const std::uint32_t id : {10u, 11u})
    Append(epoch.pages, {.key = {TargetId(id), Vpn(0x7000)}, .looks = 1});
  facts_.Add(epoch);
  facts_.SeeTargets(targets, PageCount(100), 0, {}, At(1s));
  facts_.SeeTargets(targets, PageCount(100), 0, {}, At(2s));  // reads what they share
  EXPECT_EQ(facts_.Facts().resident, PageCount(100)) << "frames were not compared";
  EXPECT_EQ(facts_.Facts().looked_at, PageCount(2));
  epoch.pages.same_as = {0, 0};
  facts_.Add(epoch);
  EXPECT_EQ(facts_.Facts().resident, PageCount(60));
  EXPECT_FALSE(facts_.Facts().resident_is_at_most);
}

TEST_F(SessionFactsTest, TellsSegmentsOfTwoIpcNamespacesApart) {
  std::vector<TrackedProcess> targets = {Put(10, 'S'), Put(11, 'S')};
  for (const std::int32_t pid : {10, 11}) {
    tree_.Write(std::to_string(pid) + "/smaps",
                "7000000-7032000 rw-s 00000000 00:01 77 /SYSV00000000 (deleted)\n"
                "Rss: 200 kB\nPss: 100 kB\nVmFlags: rd wr sh mr mw me ms\n");
  }
  for (const std::uint64_t of_second : {5, 6}) {
    targets[0].ipc_namespace = 5;
    targets[1].ipc_namespace = of_second;
    SessionFacts facts(procfs_);
    facts.SeeTargets(targets, PageCount(100), 0, {}, At(1s));
    facts.SeeLast(targets);
    EXPECT_EQ(facts.Facts().resident, PageCount(of_second == 5 ? 50 : 100));
  }
}

TEST_F(SessionFactsTest, RemembersWhatTargetsSharedThatHaveEnded) {
  const std::vector<TrackedProcess> targets = {Put(10, 'S'), Put(11, 'S'), Put(12, 'S')};
  for (const std::int32_t pid : {10, 11, 12}) PutShared(pid);
  facts_.SeeTargets(targets, PageCount(165), 0, {}, At(1s));
  facts_.SeeTargets(targets, PageCount(165), 0, {}, At(2s));  // reads what they share
  facts_.SeeTargets(targets, PageCount(180), 0, {}, At(3s));  // 15 more are private
  for (const std::int32_t pid : {10, 11, 12}) tree_.Remove(pid);
  facts_.SeeLast({});
  EXPECT_EQ(facts_.Facts().resident, PageCount(66)) << "50, and 15 / 165 of 180";
}

TEST_F(SessionFactsTest, SaysHowMuchOfItsMemoryIsMappedByProcessesThatAreNoTargets) {
  PutShared(10);
  facts_.SeeLast({Put(10, 'S')});
  EXPECT_EQ(facts_.Facts().mapped_elsewhere, PageCount(33));  // 200 - 66 kB
}

TEST_F(SessionFactsTest, TakesNoOtherProcessForATargetThatHadItsNumber) {
  PutShared(10);
  TrackedProcess target = Put(10, 'S');
  ++target.start_time_ticks;
  facts_.SeeLast({target});
  EXPECT_EQ(facts_.Facts().unobservable.device, std::nullopt);
  EXPECT_EQ(facts_.Facts().mapped_elsewhere, std::nullopt);
}

TEST_F(SessionFactsTest, ReadsTheMemoryOfNoTargetThatIsTooLargeForThat) {
  const TrackedProcess target = Put(10, 'S');
  PutShared(10);
  PutShared(11);
  tree_.Put({.pid = 10, .resident_pages = 1 << 20});  // 15 ms
  const std::vector<TrackedProcess> targets = {target, Put(11, 'S')};
  facts_.SeeTargets(targets, PageCount(165), 0, {}, At(1s));
  facts_.SeeTargets(targets, PageCount(165), 0, {}, At(2s));
  EXPECT_EQ(facts_.Facts().unobservable.device, PageCount(7)) << "of the other";
  EXPECT_EQ(facts_.Facts().mapped_elsewhere, std::nullopt) << "a target may be what maps it";
  facts_.SeeLast(targets);
  EXPECT_EQ(facts_.Facts().unobservable.device, PageCount(14)) << "the recording is over";
  EXPECT_EQ(facts_.Facts().mapped_elsewhere, PageCount(17));  // 200 - 2 x 66 kB
}

TEST_F(SessionFactsTest, CountsAPageOfAFileOnceHoweverManyTargetsMapIt) {
  EpochProfile epoch = Epoch(At(10s), At(11s));
  for (const std::uint32_t id : {0u, 1u, 2u}) {
    epoch.targets.push_back({.id = TargetId(id),
                             .pid = Pid(10),
                             .mappings = {{.range = {Vpn(100 + id), Vpn(200 + id)},
                                           .kind = MappingKind::kShared,
                                           .path = "/memfd:x (deleted)",
                                           .file = FilePlace{.device = 1, .inode = 77}}}});
    // The first page of the file, and one of this target alone.
    Append(epoch.pages, {.key = {TargetId(id), Vpn(50)}, .looks = 1});
    Append(epoch.pages, {.key = {TargetId(id), Vpn(100 + id)}, .looks = 2, .references = 1});
  }
  facts_.Add(epoch);
  const RecordingFacts facts = facts_.Facts();
  EXPECT_EQ(facts.looked_at, PageCount(1 + 3));
  EXPECT_EQ(facts.accessed, PageCount(1));
  EXPECT_EQ(facts.looks, 9u);
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
  EXPECT_EQ(facts.unobservable.refused, PageCount(7));
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
