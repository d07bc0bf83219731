// SPDX-License-Identifier: Apache-2.0

#include "base/host/joint_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace tmprof {
namespace joint_memory_test {

constexpr PageCount kPages(100);

// A mapping of 100 pages from `start` on; in their places of a file if it has an inode.
MappedMemory Memory(std::uint64_t start, std::uint64_t resident, double proportional,
                    std::uint64_t inode = 0, std::uint64_t offset = 0) {
  MappedMemory memory{
      .mapping = {.range = {Vpn(start), Vpn(start) + kPages}},
      .resident = PageCount(resident),
      .proportional_bytes = static_cast<std::uint64_t>(proportional * kBasePageBytes)};
  if (inode == 0) return memory;
  memory.mapping.kind = MappingKind::kShared;
  memory.mapping.path = "/memfd:x (deleted)";
  memory.mapping.file = {.device = 1, .inode = inode, .offset = PageCount(offset)};
  return memory;
}

ProcessMemory Process(std::uint32_t id, std::vector<MappedMemory> mappings) {
  return {.id = TargetId(id), .ipc_namespace = 1, .mappings = std::move(mappings)};
}

TEST(JointMemory, CountsAFileThatThreeProcessesShareOnce) {
  const ProcessMemory processes[] = {
      Process(1, {Memory(1000, 7, 7), Memory(2000, 90, 30, 5)}),
      Process(2, {Memory(1000, 8, 8), Memory(5000, 90, 30, 5)}),
      Process(3, {Memory(1000, 9, 3), Memory(2000, 90, 30, 5)}),
  };
  const JointMemory joint = JointMemoryOf(processes);
  EXPECT_EQ(joint.counted, PageCount(7 + 8 + 9 + 270));
  EXPECT_EQ(joint.apart, PageCount(24));
  EXPECT_EQ(joint.shared, PageCount(90));
  EXPECT_EQ(joint.elsewhere, PageCount(0));
  EXPECT_EQ(joint.HeldIf(joint.counted, false), PageCount(114));
}

TEST(JointMemory, AddsUpPartsOfAFileThatEachProcessHasByItself) {
  const ProcessMemory processes[] = {Process(1, {Memory(1000, 40, 40, 5)}),
                                     Process(2, {Memory(1000, 50, 50, 5)})};
  EXPECT_EQ(JointMemoryOf(processes).shared, PageCount(90));
}

TEST(JointMemory, KeepsFilesApartAndPlacesInAFileTogether) {
  const ProcessMemory processes[] = {
      Process(1, {Memory(1000, 100, 25, 5, 0), Memory(2000, 100, 100, 6, 0)}),
      // The same pages of the first file twice.
      Process(2, {Memory(1000, 100, 25, 5, 0), Memory(2000, 100, 25, 5, 0)})};
  EXPECT_EQ(JointMemoryOf(processes).shared, PageCount(200));
}

TEST(JointMemory, CountsPagesThatAProcessMapsTwiceOnce) {
  const ProcessMemory processes[] = {
      Process(1, {Memory(1000, 40, 20, 5), Memory(2000, 40, 20, 5), Memory(3000, 8, 8, 5, 100)})};
  const JointMemory joint = JointMemoryOf(processes);
  EXPECT_EQ(joint.shared, PageCount(48));
  EXPECT_EQ(joint.elsewhere, PageCount(0));
}

TEST(JointMemory, SaysHowMuchOtherProcessesMapToo) {
  // Ten processes have each of 90 pages: a tenth of each counts for this one.
  const ProcessMemory processes[] = {
      Process(1, {Memory(1000, 50, 5), Memory(2000, 90, 9, 5), Memory(3000, 20, 20, 6)})};
  const JointMemory joint = JointMemoryOf(processes);
  EXPECT_EQ(joint.shared, PageCount(110));
  EXPECT_EQ(joint.elsewhere, PageCount(81)) << "pages of private mappings do not count";
}

TEST(JointMemory, AddsUpMappingsOfDevicesThatAreNotReserved) {
  MappedMemory device = Memory(1000, 0, 0);
  device.of_device = true;
  MappedMemory reserved = Memory(2000, 0, 0);
  reserved.of_device = true;
  reserved.mapping.accessible = false;
  const ProcessMemory processes[] = {Process(1, {device, reserved})};
  EXPECT_EQ(JointMemoryOf(processes).device, kPages);
}

ProcessMemory Relative(std::uint32_t id, std::int32_t root, std::vector<MappedMemory> mappings) {
  ProcessMemory process = Process(id, std::move(mappings));
  process.family = Pid(root);
  return process;
}

// Of 90 pages of a parent, its two children still have 80 each.
TEST(JointMemory, CountsPagesThatRelativesShareOnce) {
  const std::vector<ProcessMemory> relatives = {
      Relative(1, 50, {Memory(1000, 90, 80.0 / 3 + 10)}),
      Relative(2, 50, {Memory(1000, 90, 80.0 / 3 + 10), Memory(2000, 7, 7)}),
      Relative(3, 50, {Memory(1000, 90, 80.0 / 3 + 10)})};
  const JointMemory joint = JointMemoryOf(relatives);
  EXPECT_EQ(joint.apart, PageCount(3 * 90 + 7));
  // The last page is the rest that the shares were rounded down by.
  EXPECT_NEAR(static_cast<double>(joint.apart_distinct.value()), 80 + 3 * 10 + 7, 1);
  EXPECT_EQ(joint.HeldIf(joint.counted, true), joint.apart_distinct);
}

TEST(JointMemory, CountsPrivatePagesOfStrangersForEach) {
  const std::vector<ProcessMemory> strangers = {Process(1, {Memory(1000, 90, 45)}),
                                                Relative(2, 50, {Memory(1000, 90, 45)}),
                                                Relative(3, 60, {Memory(1000, 90, 45)})};
  EXPECT_EQ(JointMemoryOf(strangers).apart_distinct, PageCount(3 * 90));
}

// Other processes have the pages, too: of a library, or relatives that are no targets.
TEST(JointMemory, CountsTheMostThatOneRelativeHasOfPagesThatOthersMapToo) {
  const std::vector<ProcessMemory> relatives = {Relative(1, 50, {Memory(1000, 90, 9)}),
                                                Relative(2, 50, {Memory(1000, 70, 7)})};
  EXPECT_EQ(JointMemoryOf(relatives).apart_distinct, PageCount(90));
}

TEST(JointMemory, LeavesSharedMemoryAsItIsWhileTheRestGrows) {
  JointMemory joint;
  EXPECT_EQ(joint.HeldIf(PageCount(7), false), PageCount(7))
      << "nothing is known of what is shared";
  joint.counted = PageCount(300);
  joint.apart = PageCount(30);
  joint.apart_distinct = PageCount(15);
  joint.shared = PageCount(90);
  EXPECT_EQ(joint.HeldIf(PageCount(300), false), PageCount(120));
  EXPECT_EQ(joint.HeldIf(PageCount(600), false), PageCount(150));
  EXPECT_EQ(joint.HeldIf(PageCount(600), true), PageCount(120));
  EXPECT_EQ(joint.HeldIf(PageCount(80), false), PageCount(80));
}

}  // namespace joint_memory_test
}  // namespace tmprof
