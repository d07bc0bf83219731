// SPDX-License-Identifier: Apache-2.0

#include "objects/format/allocations_codec.h"

#include <sys/resource.h>

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects/format/allocations.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace allocations_codec_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AllocationsCodecTest : public TraceTest {
 protected:
  // An epoch of one target, 0, with these bytes as its extension and no pages.
  ReadBack ReadExtension(const std::string& bytes) {
    const std::string epoch = Bytes(6, Number(1, 0)) + Bytes(7, "") + Bytes(8, bytes);
    WriteFile(path(), EmptyTrace() + FrameOf(2, epoch));
    return ReadTrace(path(), &AllocationsCodec());
  }
};

TEST_F(AllocationsCodecTest, AllocationsComeBackAndNoneStayUnknown) {
  std::vector<EpochProfile> epochs(3);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].index = i;
    epochs[i].start = MonotonicTime(std::chrono::seconds(10 + i));
    epochs[i].end = epochs[i].start + std::chrono::seconds(1);
    epochs[i].targets.resize(1);
  }
  const std::uint64_t far = 0x7fff'ffff'f000;
  SetAllocations(epochs[1]) = {
      .sites = {{.id = 3,
                 .frames = {{.function = "make", .file = "/a.c", .line = 7, .module = "/a"},
                            {.module = "/lib/b.so", .offset = 0x10}}},
                {.id = 4, .frames = {}},
                {.id = 5, .frames = {{.module = "/a", .offset = 64}}, .name = "table"},
                {.id = 6, .frames = {}, .name = "worker", .thread = Tid(42)}},
      .events = {{.kind = AllocationKind::kMapped,
                  .address = far,
                  .bytes = 4096,
                  .time = MonotonicTime(std::chrono::seconds(2)),  // before it was a target
                  .site = 3,
                  .weight = 1},
                 {.kind = AllocationKind::kAllocated,
                  .address = 0x1000,
                  .bytes = 24,
                  .time = epochs[1].start,
                  .site = kUnknownSite,
                  .weight = 100},
                 {.kind = AllocationKind::kAllocated,
                  .address = 0x2000,
                  .bytes = 2500,
                  .time = epochs[1].start,
                  .site = kUnknownSite,
                  .weight = 1.25},
                 {.kind = AllocationKind::kFreed, .address = 0x1000, .time = epochs[1].end},
                 {.kind = AllocationKind::kUnmapped,
                  .address = far,
                  .bytes = 4096,
                  .time = epochs[1].end}},
      .fixed = {{.kind = FixedKind::kVariable,
                 .address = 0x5000,
                 .bytes = 640,
                 .time = MonotonicTime(std::chrono::seconds(2)),
                 .site = 5},
                {.kind = FixedKind::kStack,
                 .address = far,
                 .bytes = 8 << 20,
                 .time = epochs[1].start,
                 .site = 6},
                {.kind = FixedKind::kStack, .ends = true, .address = far, .time = epochs[1].end}},
      .lost = 5,
      .files = {{.path = "/a", .build_id = std::string("\0\xff", 2)},
                {.path = "/lib/b.so", .build_id = "id"}}};
  SetAllocations(epochs[2]) = {.sites = {},
                               .events = {{.kind = AllocationKind::kAllocated,
                                           .address = 0x3000,
                                           .bytes = 8192,
                                           .time = epochs[2].start,
                                           .site = 3,
                                           .weight = 1}},
                               .all_from_bytes = 4096};
  WriteTrace(path(), TraceInfo(), epochs);
  const ReadBack back = ReadTrace(path(), &AllocationsCodec());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, epochs);
  EXPECT_EQ(AllocationsOf(back.epochs[0]), nullptr);
}

TEST_F(AllocationsCodecTest, TheyPassThroughAProgramThatCannotDecodeThem) {
  std::vector<EpochProfile> epochs(1);
  epochs[0].targets.resize(1);
  SetAllocations(epochs[0]) = {
      .sites = {{.id = 1, .frames = {{.function = "make"}}}},
      .events = {{.address = 4096, .bytes = 64, .time = epochs[0].start, .site = 1, .weight = 1}}};
  const std::string bytes = TraceBytes(path(), epochs);
  const ReadBack undecoded = ReadTrace(path());
  ASSERT_EQ(undecoded.epochs.size(), 1U) << undecoded.error;
  EXPECT_EQ(AllocationsOf(undecoded.epochs[0]), nullptr);
  EXPECT_NE(undecoded.epochs, epochs);
  EXPECT_EQ(TraceBytes(path(), undecoded.epochs), bytes);
  EXPECT_EQ(ReadTrace(path(), &AllocationsCodec()).epochs, epochs);
}

TEST_F(AllocationsCodecTest, RefusesBytesThatDoNotGoWithTheEpoch) {
  // The pages are read after an extension that is sound, and this epoch has none.
  const auto is_sound = HasSubstr("column 'gap_pages' is missing");
  EXPECT_THAT(ReadExtension("").error, is_sound);
  EXPECT_THAT(ReadExtension("\x07").error,
              AllOf(HasSubstr("frame at byte offset"), HasSubstr("not a protobuf message")));
  const auto events = [](std::uint64_t target, std::uint64_t kind, std::uint64_t weights) {
    std::string columns = Packed(2, {target}) + Packed(3, {kind});
    for (const int column : {4, 5, 6, 7}) columns += Packed(column, {0});
    return weights == 0 ? columns : columns + Packed(8, {1});
  };
  EXPECT_THAT(ReadExtension(events(0, 1, 1)).error, is_sound);
  EXPECT_THAT(ReadExtension(events(9, 1, 1)).error,
              HasSubstr("allocations of target 9, which is not listed"));
  EXPECT_THAT(ReadExtension(events(0, 77, 1)).error, HasSubstr("unknown kind 77"));
  EXPECT_THAT(ReadExtension(events(0, 1, 0)).error, HasSubstr("columns of 1 and 0 allocations"));
  EXPECT_THAT(ReadExtension(Bytes(1, "")).error, HasSubstr("the ID of unknown ones"));
}

TEST_F(AllocationsCodecTest, EmptySitesAreRefusedBeforeTheyAreDecoded) {
  std::string sites;
  for (int i = 0; i < 1 << 20; ++i) sites += Bytes(1, "");
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(ReadExtension(sites).error,
              AllOf(HasSubstr("frame at byte offset " + std::to_string(EmptyTrace().size())),
                    HasSubstr("the epoch would take 256 MiB of memory")));
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024);
}

}  // namespace allocations_codec_test
}  // namespace tmprof
