// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/region_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "profiler/sources/abit/page_table_reader.h"

namespace tmprof::abit {
namespace region_evidence_test {

using std::chrono::nanoseconds;

tmprof_region Region(std::uint64_t start, std::uint64_t end) {
  return tmprof_region_make(start, end, 0);
}

constexpr tmprof_tally kSeen{
    .looks = 10, .references = 6, .first_accesses = 4, .at_risk_ns = 8'000};

class RegionEvidenceTest : public ::testing::Test {
 protected:
  void Follow(std::vector<tmprof_region> regions) { table_.Follow(regions); }
  std::vector<RegionEvidence> Take(std::vector<VpnRange> clearable = {{Vpn(0), Vpn(1 << 30)}},
                                   std::vector<VpnRange> unclearable = {}) {
    std::vector<RegionEvidence> out;
    table_.Take(TargetId(3), clearable, unclearable, out);
    return out;
  }

  RegionEvidenceTable table_;
};

TEST_F(RegionEvidenceTest, TimeAtRiskIsThatOfOnePageOverAllOfTheSpan) {
  Follow({Region(100, 140)});
  table_.Add(0, kSeen, PageCount(1), 0);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].target, TargetId(3));
  EXPECT_EQ(records[0].start, Vpn(100));
  EXPECT_EQ(records[0].span, PageCount(40));
  EXPECT_EQ(records[0].looks, 10U);
  EXPECT_EQ(records[0].references, 6U);
  EXPECT_EQ(records[0].first_accesses, 4U);
  EXPECT_EQ(records[0].time_at_risk, nanoseconds(200));
}

TEST_F(RegionEvidenceTest, MakesNoRecordOfRegionsThatWereNotLookedAt) {
  Follow({Region(0, 10), Region(10, 20)});
  table_.Add(1, kSeen, PageCount(1), 0);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].start, Vpn(10));
  EXPECT_TRUE(Take().empty()) << "what was taken is forgotten";
}

TEST_F(RegionEvidenceTest, PartsOfARegionShareItsAccessesAndWereLookedAtAsOften) {
  Follow({Region(0, 40)});
  table_.Add(0, kSeen, PageCount(1), 0);
  Follow({Region(0, 10), Region(10, 40)});
  const auto records = Take();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].looks, 10U);
  EXPECT_EQ(records[0].references, 6U);
  EXPECT_EQ(records[0].first_accesses, 1U);
  EXPECT_EQ(records[0].time_at_risk, nanoseconds(200));
  EXPECT_EQ(records[1].looks, 10U);
  EXPECT_EQ(records[1].first_accesses, 3U);
  EXPECT_EQ(records[1].time_at_risk, nanoseconds(200));
}

TEST_F(RegionEvidenceTest, JoinedRegionsAddUpTheirAccessesAndWereLookedAtAsOftenAsTheirMean) {
  Follow({Region(0, 10), Region(10, 40)});
  table_.Add(0, kSeen, PageCount(1), 0);
  table_.Add(1, {.looks = 2, .references = 2, .first_accesses = 1, .at_risk_ns = 0}, PageCount(1),
             0);
  Follow({Region(0, 40)});
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].looks, 4U);       // (10 * 10 + 30 * 2) / 40
  EXPECT_EQ(records[0].references, 3U);  // (10 * 6 + 30 * 2) / 40
  EXPECT_EQ(records[0].first_accesses, 5U);
  EXPECT_EQ(records[0].time_at_risk, nanoseconds(200));
}

TEST_F(RegionEvidenceTest, ARegionIsCutToWhatIsMapped) {
  Follow({Region(0, 100)});
  table_.Add(0, kSeen, PageCount(1), 0);
  const auto records = Take({{Vpn(10), Vpn(20)}, {Vpn(50), Vpn(80)}, {Vpn(90), Vpn(90)}});
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].start, Vpn(10));
  EXPECT_EQ(records[0].span, PageCount(10));
  EXPECT_EQ(records[0].first_accesses, 1U);
  EXPECT_EQ(records[0].time_at_risk, nanoseconds(200)) << "over the 40 pages that are mapped";
  EXPECT_EQ(records[1].start, Vpn(50));
  EXPECT_EQ(records[1].first_accesses, 3U);
}

TEST_F(RegionEvidenceTest, PagesThatAreNotThereCountAsNotAccessed) {
  Follow({Region(0, 40)});
  table_.Add(0, kSeen, PageCount(1), 0);
  table_.Pick(0, 2, 6);
  EXPECT_EQ(Take()[0].time_at_risk, nanoseconds(800)) << "8000 ns over 10 pages";
}

TEST_F(RegionEvidenceTest, TheShareOfPagesThatAreThereGoesWithTheRegions) {
  Follow({Region(0, 10), Region(10, 40)});
  table_.Add(0, kSeen, PageCount(1), 0);
  table_.Pick(0, 5, 0);
  table_.Pick(1, 1, 2);
  Follow({Region(0, 40)});
  // 10 pages, and a third of 30.
  EXPECT_EQ(Take()[0].time_at_risk, nanoseconds(400)) << "8000 ns over 20 pages";
}

TEST_F(RegionEvidenceTest, RecordsOfUnclearableMemoryShowOnlyThatItWasAccessed) {
  Follow({Region(0, 100)});
  table_.Add(0, kSeen, PageCount(1), 0x1000);
  table_.See(0, 0x2000);
  const auto records = Take({{Vpn(0), Vpn(10)}, {Vpn(30), Vpn(100)}}, {{Vpn(10), Vpn(30)}});
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].looks, 10U);
  EXPECT_FALSE(records[0].seen);
  EXPECT_EQ(records[1].start, Vpn(10));
  EXPECT_EQ(records[1].span, PageCount(20));
  EXPECT_TRUE(records[1].seen);
  EXPECT_EQ(records[1].looks, 0U);
  EXPECT_EQ(records[1].time_at_risk, nanoseconds(0));
  EXPECT_EQ(records[2].time_at_risk, nanoseconds(100)) << "over the 80 pages that can be cleared";
}

TEST_F(RegionEvidenceTest, ThatAPageWasAccessedAtSomeTimeGoesWithItsRegion) {
  Follow({Region(0, 40), Region(40, 60)});
  table_.See(0, 0x2000);
  Follow({Region(0, 20), Region(20, 60)});
  const auto records = Take();
  ASSERT_EQ(records.size(), 2U);
  for (const RegionEvidence& record : records) {
    EXPECT_TRUE(record.seen);
    EXPECT_EQ(record.looks, 0U);
  }
  EXPECT_TRUE(Take().empty());
}

TEST_F(RegionEvidenceTest, NoAccessIsLostToRounding) {
  std::vector<tmprof_region> parts;
  for (std::uint64_t i = 0; i < 9; ++i) parts.push_back(Region(10 * i, 10 * (i + 1)));
  Follow({Region(0, 90)});
  table_.Add(0, kSeen, PageCount(1), 0);
  Follow(parts);
  std::uint32_t sum = 0;
  for (const RegionEvidence& record : Take()) sum += record.first_accesses;
  EXPECT_EQ(sum, 4U);
}

TEST_F(RegionEvidenceTest, NoRecordHasTheSizeOfAHugePage) {
  Follow({Region(0, 512)});
  table_.Add(0, kSeen, PageCount(1), 0);
  const auto records = Take();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].span, PageCount(256));
  EXPECT_EQ(records[1].span, PageCount(256));
}

TEST_F(RegionEvidenceTest, ALookAtAHugePageWatchesAllOfIt) {
  Follow({Region(0, 1024)});
  table_.Add(0, kSeen, kTablePages, 0);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].time_at_risk, nanoseconds(4'000));
}

TEST_F(RegionEvidenceTest, TheFramesOfItsPagesGoWithARegionHoweverManyAreJoined) {
  Follow({Region(0, 10), Region(10, 20)});
  for (std::uint64_t i = 0; i < 100; ++i) {
    table_.Add(0, kSeen, PageCount(1), 0x1000);
    table_.Add(1, kSeen, PageCount(1), 0x2000);
  }
  Follow({Region(0, 20)});
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_THAT(records[0].frames, ::testing::Contains(0x1000));
  EXPECT_THAT(records[0].frames, ::testing::Contains(0x2000));
  EXPECT_LE(records[0].frames.size(), 16U) << "some are enough to tell the node";
}

}  // namespace region_evidence_test
}  // namespace tmprof::abit
