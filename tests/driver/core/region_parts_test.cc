// SPDX-License-Identifier: Apache-2.0
#include "driver/core/region_parts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace tmprof {
namespace region_parts_test {

tmprof_region_unseen Unseen(const std::vector<tmprof_area>& areas) {
  tmprof_region_unseen unseen{};
  for (const tmprof_area& area : areas) tmprof_region_leave_out(&unseen, area.start, area.end);
  return unseen;
}

tmprof_region Region(std::uint64_t start, std::uint64_t end, std::uint32_t looks,
                     std::uint32_t references, std::uint64_t at_risk_ns) {
  tmprof_region region = tmprof_region_make(start, end, 7);
  region.looks = looks;
  region.references = references;
  region.at_risk_ns = at_risk_ns;
  return region;
}

// The fields of a region. Those of tmprof_region are not aligned, so that tests cannot refer to
// them.
struct Part {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t at_risk_ns;
  std::uint32_t looks;
  std::uint32_t references;
  std::uint32_t count;
};

std::vector<Part> Parts(const tmprof_region& region, const tmprof_region_unseen& unseen) {
  std::vector<Part> parts;
  const std::uint64_t end = region.end;
  for (std::uint64_t from = region.start; from < end; from = parts.back().end) {
    tmprof_region part{};
    tmprof_region_part(&region, &unseen, from, &part);
    parts.push_back(
        {part.start, part.end, part.at_risk_ns, part.looks, part.references, part.count});
  }
  return parts;
}

void ExpectPart(const Part& part, std::uint64_t end, std::uint32_t looks, std::uint32_t references,
                std::uint64_t at_risk_ns) {
  EXPECT_EQ(part.end, end);
  EXPECT_EQ(part.looks, looks);
  EXPECT_EQ(part.references, references);
  EXPECT_EQ(part.at_risk_ns, at_risk_ns);
}

TEST(RegionPartsTest, RegionWithoutUnseenMemoryIsOnePartWithAllEvidence) {
  const tmprof_region region = Region(100, 200, 10, 4, 1000);
  const auto parts = Parts(region, Unseen({{10, 100}, {200, 300}}));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].start, 100U);
  ExpectPart(parts[0], 200, 10, 4, 1000);
  EXPECT_EQ(parts[0].count, 7U);
}

TEST(RegionPartsTest, UnseenMemoryInTheMiddleHasNoEvidence) {
  // 30 pages before, 50 unseen, 10 behind: three quarters and one quarter of what was seen.
  const auto parts = Parts(Region(100, 190, 20, 8, 4000), Unseen({{130, 180}}));
  ASSERT_EQ(parts.size(), 3U);
  ExpectPart(parts[0], 130, 15, 6, 3000);
  ExpectPart(parts[1], 180, 0, 0, 0);
  ExpectPart(parts[2], 190, 5, 2, 1000);
}

TEST(RegionPartsTest, RegionWithinUnseenMemoryHasNoEvidence) {
  const auto parts = Parts(Region(100, 200, 5, 0, 10), Unseen({{50, 300}}));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].end, 200U);
  EXPECT_EQ(parts[0].looks, 0U);
  EXPECT_EQ(parts[0].at_risk_ns, 0U);
}

TEST(RegionPartsTest, AdjoiningAreasBecomeOne) {
  const tmprof_region_unseen unseen = Unseen({{1, 5}, {5, 9}, {10, 11}});
  ASSERT_EQ(unseen.count, 2U);
  EXPECT_EQ(unseen.areas[0].end, 9U);
}

TEST(RegionPartsTest, LargestAreasAreKept) {
  std::vector<tmprof_area> areas;
  for (std::uint64_t i = 0; i < TMPROF_REGION_UNSEEN; ++i)
    areas.push_back({1000 * i, 1000 * i + 10 + i});
  areas.push_back({50000, 50005});  // smaller than all
  areas.push_back({60000, 60999});
  const tmprof_region_unseen unseen = Unseen(areas);
  ASSERT_EQ(unseen.count, TMPROF_REGION_UNSEEN);
  EXPECT_EQ(unseen.areas[0].start, 1000U);
  EXPECT_EQ(unseen.areas[TMPROF_REGION_UNSEEN - 1].start, 60000U);
}

TEST(RegionPartsTest, PartsAddUpToTheirRegionForAnyCuts) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<tmprof_area> areas;
    std::uint64_t at = random() % 50;
    for (auto left = random() % 6; left > 0; --left) {
      areas.push_back({at, at + 1 + random() % 40});
      at = areas.back().end + random() % 60;
    }
    const std::uint64_t start = random() % 100;
    const auto looks = static_cast<std::uint32_t>(random() % 50);
    const tmprof_region region =
        Region(start, start + 1 + random() % 300, looks,
               looks > 0 ? static_cast<std::uint32_t>(random() % (looks + 1)) : 0,
               looks > 0 ? random() : 0);
    const tmprof_region_unseen unseen = Unseen(areas);
    std::uint64_t expected_at = region.start;
    std::uint64_t sum_looks = 0;
    std::uint64_t sum_references = 0;
    std::uint64_t sum_at_risk_ns = 0;
    bool any_seen = false;
    for (const Part& part : Parts(region, unseen)) {
      ASSERT_EQ(part.start, expected_at);
      ASSERT_LT(part.start, part.end);
      ASSERT_LE(part.references, part.looks);
      const std::uint64_t seen = tmprof_region_seen_pages(&unseen, part.start, part.end);
      ASSERT_TRUE(seen == 0 || seen == part.end - part.start);
      ASSERT_TRUE(seen > 0 || part.looks == 0);
      any_seen |= seen > 0;
      expected_at = part.end;
      sum_looks += part.looks;
      sum_references += part.references;
      sum_at_risk_ns += part.at_risk_ns;
    }
    ASSERT_EQ(expected_at, std::uint64_t{region.end});
    ASSERT_EQ(sum_looks, any_seen ? region.looks : 0);
    ASSERT_EQ(sum_references, any_seen ? region.references : 0);
    ASSERT_EQ(sum_at_risk_ns, any_seen ? region.at_risk_ns : 0);
  }
}

}  // namespace region_parts_test
}  // namespace tmprof
