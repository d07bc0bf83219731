// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/exact/truth_epoch.h"

namespace tmprof::exact {
namespace truth_assembler_test {

using testing::HasSubstr;

TEST(TruthAssembler, JoinsTheEpochsOfOneIndexAndKeepsProcessesApart) {
  TruthAssembler assembler(kExactSource);
  EXPECT_EQ(assembler.Waiting(), std::nullopt);
  assembler.Add({}, 0, Epoch(3, 10, 20, 42, 7, 100));
  assembler.Add({}, 1, Epoch(3, 12, 21, 43, 7, 5));
  assembler.Add({}, 0, Epoch(4, 20, 30, 42, 7, 1));
  ASSERT_EQ(assembler.Waiting(), 3u);
  const EpochProfile first = assembler.Build({});
  EXPECT_EQ(first.index, 3u);
  EXPECT_EQ(first.start, At(10));
  EXPECT_EQ(first.end, At(21));
  ASSERT_EQ(first.pages.size(), 2u);
  EXPECT_EQ(RecordAt(first.pages, 0).accesses->loads, 100u);
  EXPECT_EQ(RecordAt(first.pages, 1).accesses->loads, 5u);
  ASSERT_EQ(first.targets.size(), 2u);
  EXPECT_EQ(first.targets[1].pid, Pid(43));
  ASSERT_EQ(first.sources.size(), 1u);
  EXPECT_EQ(first.sources[0].role, SourceRole::kTruth);
  EXPECT_EQ(first.sources[0].state, SourceState::kActive);
  EXPECT_EQ(first.sources[0].observations, 105u);
  EXPECT_EQ(first.sources[0].lost, 0u);
  const EpochProfile second = assembler.Build({});
  EXPECT_EQ(second.start, At(21)) << "where the one before has ended";
  EXPECT_EQ(second.targets[0].id, first.targets[0].id);
  EXPECT_EQ(assembler.Waiting(), std::nullopt);
}

TEST(TruthAssembler, LateCountsJoinTheNextEpoch) {
  TruthAssembler assembler(kExactSource);
  assembler.Add({}, 0, Epoch(3, 10, 20, 42, 7, 100));
  (void)assembler.Build({});
  assembler.Add({}, 1, Epoch(2, 0, 15, 43, 7, 5));
  assembler.Add({}, 0, Epoch(4, 20, 30, 42, 7, 1));
  const EpochProfile epoch = assembler.Build({});
  EXPECT_EQ(epoch.index, 4u);
  ASSERT_EQ(epoch.pages.size(), 2u);
  EXPECT_EQ(RecordAt(epoch.pages, 1).accesses->loads, 5u);
  EXPECT_EQ(epoch.start, At(20));
}

TEST(TruthAssembler, AProcessThatConnectsAnewIsTheSameTargetUnderItsNewName) {
  TruthAssembler assembler(kExactSource);
  assembler.Add({}, 0, Epoch(0, 10, 20, 42, 7, 1));
  TruthEpoch executed = Epoch(0, 20, 30, 42, 7, 2);
  executed.targets[0].name = "q";
  assembler.Add({}, 1, executed);
  const EpochProfile epoch = assembler.Build({});
  ASSERT_EQ(epoch.targets.size(), 1u);
  EXPECT_EQ(epoch.targets[0].name, "q");
  ASSERT_EQ(epoch.pages.size(), 1u);
  EXPECT_EQ(RecordAt(epoch.pages, 0).accesses->loads, 3u);
}

TEST(TruthAssembler, SaysWhatWasModelledLostAndNotFollowed) {
  TruthAssembler assembler(kTiersimSource);
  TruthEpoch epoch = Epoch(0, 10, 20, 42, 7, 1);
  epoch.lost_accesses = 9;
  epoch.instructions = 1000;
  epoch.processes_not_followed = 2;
  epoch.not_followed = {"one", "two"};
  assembler.Add({.counts_instructions = true,
                 .llc_model = "big",
                 .dtlb_model = "small",
                 .l2_model = "middle",
                 .prefetcher_model = "far",
                 .stall_model = "long"},
                0, epoch);
  const SourceStatus status = assembler.Build({}).sources[0];
  EXPECT_EQ(status.name, "tiersim");
  EXPECT_THAT(status.label,
              HasSubstr("modelled LLC: big; modelled L2: middle; modelled dTLB: small; "
                        "modelled prefetcher: far; modelled stalls: long"));
  EXPECT_EQ(status.lost, 9u);
  EXPECT_EQ(status.note, "not followed: one; two");
  const std::vector<NamedCount> details{{"instructions", 1000}, {"processes_not_followed", 2}};
  EXPECT_EQ(status.details, details);
}

}  // namespace truth_assembler_test
}  // namespace tmprof::exact
