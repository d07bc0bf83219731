// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/elements.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace tmprof::objtrace {
namespace elements_test {

// Headers that begin to be looked for at one place, by the hash of elements.cc. Nothing is there.
std::vector<const Header*> HeadersAt(std::uint64_t place, std::size_t count) {
  std::vector<const Header*> headers;
  for (std::uint64_t address = 0x1000; headers.size() < count; address += 16) {
    if (address * 0x9E3779B97F4A7C15 >> 48 == place) {
      headers.push_back(reinterpret_cast<const Header*>(address));
    }
  }
  return headers;
}

class ElementTableTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void Add(const Header* header, std::uint64_t elements) {
    ASSERT_EQ(table_.Add(header, 0, elements * 8, 8), 0);
  }
  std::uint64_t ElementsOf(const Header* header) const {
    const Elements* found = table_.Find(header);
    return found != nullptr ? found->elements : 0;
  }

  // Four that belong in one place, and one of the next.
  const std::vector<const Header*> here_ = HeadersAt(GetParam(), 4);
  const Header* next_ = HeadersAt((GetParam() + 1) % ElementTable::kPlaces, 1)[0];
  ElementTable table_;
};

TEST_P(ElementTableTest, FindsElementsPastARemovedOne) {
  for (std::size_t i = 0; i < 3; ++i) Add(here_[i], i + 1);
  Add(next_, 4);  // pushed on
  table_.Remove(here_[0]);
  table_.Remove(here_[1]);
  EXPECT_EQ(table_.Find(here_[0]), nullptr);
  EXPECT_EQ(table_.Find(here_[1]), nullptr);
  EXPECT_EQ(ElementsOf(here_[2]), 3U);
  EXPECT_EQ(ElementsOf(next_), 4U);
  EXPECT_EQ(table_.Add(here_[2], 0, 8, 8), EEXIST) << "not once more in a removed one's place";
}

TEST_P(ElementTableTest, ARemovedOnesPlaceIsUsedAgain) {
  for (std::size_t i = 0; i < 3; ++i) Add(here_[i], i + 1);
  const Elements* place = table_.Find(here_[1]);
  table_.Remove(here_[1]);
  Add(here_[3], 9);
  EXPECT_EQ(table_.Find(here_[3]), place);
  EXPECT_EQ(ElementsOf(here_[0]), 1U);
  EXPECT_EQ(ElementsOf(here_[2]), 3U);
}

TEST_P(ElementTableTest, WithTheLastOfARunTheRemovedBeforeItGo) {
  for (std::size_t i = 0; i < 3; ++i) Add(here_[i], i + 1);
  const Elements* first = table_.Find(here_[0]);
  const Elements* middle = table_.Find(here_[1]);
  const Elements* last = table_.Find(here_[2]);
  table_.Remove(here_[1]);
  EXPECT_NE(middle->header.load(), nullptr) << "the last one is past it";
  table_.Remove(here_[2]);
  EXPECT_EQ(last->header.load(), nullptr);
  EXPECT_EQ(middle->header.load(), nullptr);
  EXPECT_EQ(first->header.load(), here_[0]);
  EXPECT_EQ(ElementsOf(here_[0]), 1U);
}

// In the middle, and where a run goes on at the table's begin.
INSTANTIATE_TEST_SUITE_P(Places, ElementTableTest,
                         ::testing::Values(1000, ElementTable::kPlaces - 2,
                                           ElementTable::kPlaces - 1));

}  // namespace elements_test
}  // namespace tmprof::objtrace
