// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/exact/truth_epoch.h"

namespace tmprof::exact {
namespace truth_frames_test {

TruthPage Page(std::uint32_t target, std::uint64_t vpn, std::optional<Pfn> frame,
               std::uint64_t loads) {
  return {.target = target,
          .vpn = Vpn(vpn),
          .frame = frame,
          .counts = {.loads = loads},
          .node = NodeId(1)};
}

// Frame 5 is shared by both processes, frame 6 takes the place of 5 under page 9.
TEST(ByFrame, HasThePagesOfAllProcessesByTheirFrames) {
  TruthEpoch epoch = Epoch(3, 100, 200, 42, 0, 0);
  epoch.targets.push_back({.number = 7, .pid = Pid(43), .name = "q"});
  epoch.pages = {Page(0, 9, Pfn(5), 10), Page(7, 80, Pfn(5), 4), Page(0, 9, Pfn(6), 1)};
  const TruthEpoch by_frame = ByFrame(epoch);
  EXPECT_EQ(by_frame.index, 3u);
  ASSERT_EQ(by_frame.targets.size(), 1u);
  EXPECT_EQ(by_frame.targets[0].command, "physical memory");
  EXPECT_EQ(by_frame.targets[0].pid, std::nullopt);
  std::map<Vpn, std::uint64_t> loads;
  for (const TruthPage& page : by_frame.pages) {
    EXPECT_EQ(page.target, by_frame.targets[0].number);
    EXPECT_EQ(page.node, NodeId(1));
    loads[page.vpn] += page.counts.loads;
  }
  EXPECT_EQ(loads, (std::map<Vpn, std::uint64_t>{{Vpn(5), 14}, {Vpn(6), 1}}));
  EXPECT_EQ(by_frame.lost_accesses, 0u);
}

TEST(ByFrame, CountsAccessesWithoutAFrameAsLost) {
  TruthEpoch epoch = Epoch(0, 100, 200, 42, 0, 0);
  epoch.lost_accesses = 2;
  epoch.pages = {Page(0, 9, std::nullopt, 10), Page(0, 10, Pfn(6), 1)};
  const TruthEpoch by_frame = ByFrame(epoch);
  EXPECT_EQ(by_frame.pages.size(), 1u);
  EXPECT_EQ(by_frame.lost_accesses, 12u);
}

}  // namespace truth_frames_test
}  // namespace tmprof::exact
