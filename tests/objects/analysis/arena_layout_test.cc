// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/arena_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/objects/analysis/profiles.h"

namespace tmprof {
namespace arena_layout_test {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// 32 objects with their headers fill a page.
constexpr std::uint64_t kBytes = 112;

std::vector<LiveObject> Objects(std::size_t number, std::uint64_t accesses,
                                milliseconds birth = milliseconds(0)) {
  return std::vector<LiveObject>(number, {.bytes = kBytes, .birth = birth, .accesses = accesses});
}

std::vector<double> AccessesOf(const std::vector<ArenaPart>& parts) {
  std::vector<double> accesses;
  for (const ArenaPart& part : parts) accesses.push_back(part.accesses);
  return accesses;
}

bool All(std::size_t /*profile*/, std::uint32_t /*site*/) { return true; }

TEST(ArenaLayout, HasObjectsInTheOrderOfTheirBirth) {
  // The second site's came between those of the first.
  std::vector<LiveObject> first = Objects(32, 10, milliseconds(0));
  for (const LiveObject& object : Objects(48, 1, milliseconds(20))) first.push_back(object);
  const ObjectProfiles profiles =
      ProfileOf({{.live = first}, {.live = Objects(32, 5, milliseconds(10))}});
  const std::vector<ArenaPart> parts = LayOut(profiles.Sites(), All, 4);
  EXPECT_THAT(AccessesOf(parts), ElementsAre(320, 160, 32, 16));
  EXPECT_DOUBLE_EQ(parts.at(2).bytes, 4096);
  EXPECT_DOUBLE_EQ(parts.at(3).bytes, 2048);
  EXPECT_THAT(AccessesOf(LayOut(profiles.Sites(), All, 100)), ElementsAre(320, 160, 32, 16))
      << "a page is not divided";
}

TEST(ArenaLayout, HasOtherSitesObjectsOfOneTickBetweenEachOther) {
  // Three of one to one of the other, which a page has 24 and 8 of.
  const ObjectProfiles profiles = ProfileOf({{.live = Objects(48, 1)}, {.live = Objects(16, 100)}});
  EXPECT_THAT(AccessesOf(LayOut(profiles.Sites(), All, 2)), ElementsAre(824, 824));
}

TEST(ArenaLayout, HasOnlyWhatIsThere) {
  const ObjectProfiles profiles =
      ProfileOf({{.accesses = 7, .live = Objects(32, 1)}, {.live = Objects(32, 2)}});
  const auto second = [](std::size_t profile, std::uint32_t site) {
    return profile == 0 && site == 2;
  };
  EXPECT_THAT(AccessesOf(LayOut(profiles.Sites(), second, 1)), ElementsAre(64));
  const auto none = [](std::size_t /*profile*/, std::uint32_t /*site*/) { return false; };
  EXPECT_THAT(LayOut(profiles.Sites(), none, 1), IsEmpty());
  const ObjectProfiles huge =
      ProfileOf({{.live = {{.bytes = std::uint64_t{1} << 62, .accesses = 9}}}});
  EXPECT_THAT(LayOut(huge.Sites(), All, 1), IsEmpty()) << "it is never placed";
}

TEST(ArenaLayout, SharesALargeObjectsAccessesOutByItsBytes) {
  // 8192 bytes and a header: a page has 4096 of the 8208.
  const ObjectProfiles profiles = ProfileOf({{.live = {{.bytes = 8192, .accesses = 8208}}}});
  EXPECT_THAT(AccessesOf(LayOut(profiles.Sites(), All, 3)), ElementsAre(4096, 4096, 16));
}

TEST(ArenaLayout, TakesMoreForAPartWhereMoreWasCountedThanHasRoom) {
  const ObjectProfiles profiles = ProfileOf(
      {{.live = Objects(32, 10, milliseconds(0))}, {.live = Objects(96, 1, milliseconds(10))}});
  const std::vector<ArenaPart> parts = LayOut(profiles.Sites(), All, 2);
  EXPECT_THAT(AccessesOf(parts), ElementsAre(352, 64));
  EXPECT_DOUBLE_EQ(parts.at(0).bytes, 8192);
}

TEST(ArenaLayout, HasOneProfileAfterTheOther) {
  ObjectProfiles profiles = ProfileOf({{.live = Objects(32, 10, milliseconds(5))}});
  AddProfile(profiles, "child.objects", {{.live = Objects(32, 1, milliseconds(0))}});
  EXPECT_THAT(AccessesOf(LayOut(profiles.Sites(), All, 2)), ElementsAre(320, 32));
}

}  // namespace arena_layout_test
}  // namespace tmprof
