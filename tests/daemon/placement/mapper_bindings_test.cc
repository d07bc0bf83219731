// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/mapper_bindings.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/shared_pages.h"

namespace tmprof {
namespace mapper_bindings_test {

constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};

Mapping Shared(std::uint64_t start, std::uint64_t pages) {
  return {.range = {Vpn(start), Vpn(start + pages)},
          .kind = MappingKind::kShared,
          .path = "/dev/shm/ring",
          .file = FilePlace{.device = 1, .inode = 7, .offset = PageCount(0)}};
}

// Targets 1 and 2 map the first 100 pages of a file, target 3 the first 10.
class MapperBindingsTest : public testing::Test {
 protected:
  MapperBindingsTest() {
    SharedPages shared;
    shared.Add({{.id = TargetId(1), .mappings = {Shared(1000, 100)}},
                {.id = TargetId(2), .mappings = {Shared(5000, 100)}},
                {.id = TargetId(3), .mappings = {Shared(7000, 10)}}});
    owners_.Follow(shared,
                   std::vector<PageOwners::Mapper>{{TargetId(1)}, {TargetId(2)}, {TargetId(3)}});
    for (const std::uint32_t id : {1U, 2U, 3U}) {
      targets_.push_back({.id = TargetId(id), .pid = Pid(10), .binding = &free_});
    }
  }
  static PageOwners::Pages Pages(std::uint64_t first, std::uint64_t pages) {
    return {{TargetId(1), Vpn(first)}, PageCount(pages)};
  }
  MapperBindings Ask() const { return {targets_, tiers_, owners_}; }

  const Tiers tiers_ = *Tiers::Make({{kFast}, {kSlow}});
  const MemoryBinding free_{std::nullopt, std::nullopt, {}};
  PageOwners owners_;
  std::vector<PlacedTarget> targets_;
};

TEST_F(MapperBindingsTest, WithoutPoliciesAllMayGo) {
  MapperBindings mappers = Ask();
  EXPECT_FALSE(mappers.MayBind(Pages(1000, 100)));
  EXPECT_TRUE(mappers.AreKnown(Pages(1000, 100)));
  EXPECT_TRUE(mappers.Let(Pages(1000, 100), kSlow, kFast));
}

TEST_F(MapperBindingsTest, AMapperBindsThePagesThatItMapsAndNoOther) {
  const MemoryBinding slow(std::vector{kSlow}, std::nullopt, {});
  targets_[2].binding = &slow;
  MapperBindings mappers = Ask();
  EXPECT_TRUE(mappers.MayBind(Pages(1009, 2)));
  EXPECT_FALSE(mappers.MayBind(Pages(1010, 90)));
  EXPECT_FALSE(mappers.Let(Pages(1009, 1), kSlow, kFast));
  EXPECT_FALSE(mappers.Let(Pages(1009, 2), kSlow, kFast));
  EXPECT_TRUE(mappers.Let(Pages(1010, 90), kSlow, kFast));
  EXPECT_TRUE(mappers.Let(Pages(1009, 1), kFast, kSlow));
  EXPECT_TRUE(mappers.Let(Pages(900, 10), kSlow, kFast)) << "in no file";
}

TEST_F(MapperBindingsTest, APolicyOfAPartOfAMappingBindsThatPart) {
  const MemoryBinding part(std::nullopt, std::nullopt,
                           {{{Vpn(5050), Vpn(5051)}, std::vector{kSlow}}});
  targets_[1].binding = &part;
  MapperBindings mappers = Ask();
  for (const std::uint64_t page : {1049U, 1050U, 1051U}) {
    EXPECT_EQ(mappers.Let(Pages(page, 1), kSlow, kFast), page != 1050) << page;
  }
  EXPECT_FALSE(mappers.Let(Pages(1000, 100), kSlow, kFast));
}

TEST_F(MapperBindingsTest, PagesOfAMapperThatCannotBeReadStay) {
  targets_[2].binding = nullptr;
  MapperBindings mappers = Ask();
  EXPECT_FALSE(mappers.AreKnown(Pages(1005, 10)));
  EXPECT_TRUE(mappers.AreKnown(Pages(1010, 10)));
  EXPECT_TRUE(mappers.AreKnown(Pages(900, 10)));
}

TEST_F(MapperBindingsTest, PagesOfAMappingThatIsYetToBeReadStay) {
  const VpnRange newer[] = {{Vpn(5050), Vpn(5051)}};
  const MemoryBinding binding = free_.WithUnread(newer);
  targets_[1].binding = &binding;
  MapperBindings mappers = Ask();
  EXPECT_FALSE(mappers.AreKnown(Pages(1050, 1)));
  EXPECT_TRUE(mappers.AreKnown(Pages(1051, 49)));
  EXPECT_TRUE(mappers.Let(Pages(1051, 49), kSlow, kFast));
}

}  // namespace mapper_bindings_test
}  // namespace tmprof
