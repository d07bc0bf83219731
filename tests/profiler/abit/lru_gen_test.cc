// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/lru_gen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tmprof::abit {
namespace lru_gen_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Debian's kernel 6.12 prints it this way.
constexpr char kText[] =
    "memcg     1 /\n"
    " node     0\n"
    "          0       8908          0           0 \n"
    "          1       8908          0           0 \n"
    "          2       8908      11080           0 \n"
    "          3       8908         63           0 \n"
    "memcg     2 /a b\n"
    " node     0\n"
    "          9       3548          0           0 \n"
    "         10         88          0           0 \n"
    " node     1\n"
    "          4       3548          0           0 \n"
    "          5       3548       8276           0 \n";

std::vector<std::uint64_t> Youngest(const LruGenGroup& group) {
  std::vector<std::uint64_t> numbers;
  for (const LruGenGroup::Node& node : group.nodes) numbers.push_back(node.youngest);
  return numbers;
}

TEST(ParseLruGen, TellsGroupsWithTheYoungestGenerationOfEachNode) {
  const std::vector<LruGenGroup> groups = ParseLruGen(kText);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].id, 1u);
  EXPECT_EQ(groups[0].path, "/");
  EXPECT_THAT(Youngest(groups[0]), ElementsAre(3u));
  EXPECT_EQ(groups[1].id, 2u);
  EXPECT_EQ(groups[1].path, "/a b");
  EXPECT_THAT(Youngest(groups[1]), ElementsAre(10u, 5u));
  EXPECT_EQ(groups[1].nodes[1].number, 1);
}

TEST(ParseLruGen, SumsThePagesOfAllGenerationsAndNodes) {
  const auto groups = ParseLruGen(
      "memcg 2 /a\n node 0\n 9 1 10 200 \n 10 1 3 0 \n node 1\n 5 1 4 50 \n"
      "memcg 3 /b\n node 0\n 2 1 7 0 \n");
  EXPECT_EQ(groups[0].anonymous, PageCount(17));
  EXPECT_EQ(groups[0].file, PageCount(250));
  EXPECT_EQ(groups[1].anonymous, PageCount(7));
}

TEST(ParseLruGen, OrdersGroupsByPath) {
  std::vector<std::string> paths;
  for (const LruGenGroup& group :
       ParseLruGen("memcg 3 /s/b\n node 0\n 2 1 0 0\nmemcg 1 /\nmemcg 8 /a\nmemcg 9 /s\n"))
    paths.push_back(group.path);
  EXPECT_THAT(paths, ElementsAre("/", "/a", "/s", "/s/b"));
}

TEST(ParseLruGen, ReadsNothingFromALineThatIsCut) {
  const std::string text(kText);
  for (std::size_t length = 0; length < text.size(); ++length) {
    for (const LruGenGroup& group : ParseLruGen(text.substr(0, length))) {
      EXPECT_TRUE(group.path == "/" || group.path == "/a b") << group.path;
      for (const LruGenGroup::Node& node : group.nodes) EXPECT_LE(node.youngest, 10u);
    }
  }
  const auto cut = ParseLruGen("memcg     2 /a\n node     0\n          9   1 0 0\n         1");
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_THAT(Youngest(cut[0]), ElementsAre(9u));
}

TEST(ParseLruGen, PassesOverWhatItDoesNotKnow) {
  EXPECT_THAT(ParseLruGen(""), IsEmpty());
  EXPECT_THAT(ParseLruGen(" node 0\n  7  1  0 0\n"), IsEmpty());
  const auto groups = ParseLruGen(
      "memcg x /bad\n node 0\n  7  1  0 0\n"
      "memcg 3 /good\n node 0\n  2  1  0 0\n            0r  1r 2e 3p\n  3  1 0 4 \n"
      " node x\n  9  1  0 0\n");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].path, "/good");
  EXPECT_THAT(Youngest(groups[0]), ElementsAre(3u));
}

TEST(ParseLruGen, TakesTheLaterOfTwoGroupsOfOnePath) {
  const auto groups =
      ParseLruGen("memcg 3 /s\n node 0\n  2  1  0 0\nmemcg 8 /s\n node 0\n  4  1  0 0\n");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].id, 8u);
}

TEST(ParseLruGen, TakesAKernelWithoutMemoryCgroupsForOneRoot) {
  const auto groups = ParseLruGen("memcg     0 \n node     0\n          2       1 0 0 \n");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].path, "/");
}

TEST(ChargedGroup, IsOfTheNearestCgroupThatHasMemoryOfItsOwn) {
  const auto groups = ParseLruGen(
      "memcg 1 /\n node 0\n 2 1 0 0\nmemcg 2 /a\n node 0\n 2 1 0 0\nmemcg 3 /a/b\n node 0\n 2 1 0 "
      "0\n");
  EXPECT_EQ(ChargedGroup(groups, "/a/b/c/d")->path, "/a/b");
  EXPECT_EQ(ChargedGroup(groups, "/a/bc")->path, "/a");
  EXPECT_EQ(ChargedGroup(groups, "/ab")->path, "/");
  EXPECT_EQ(ChargedGroup(groups, "/")->path, "/");
  EXPECT_EQ(ChargedGroup({}, "/a"), nullptr);
}

// It ages as kernels do: the youngest generation gets a younger one. They differ in what they do if
// an older number is given.
enum class OlderNumber { kIgnored, kAges, kRefused };

class FakeLruGen final : public LruGenFile {
 public:
  std::uint64_t id = 7;
  bool is_there = true;
  std::map<std::int32_t, std::uint64_t> youngest{{0, 3}};
  int aged_by_others = 0;       // number of times, between a read and the next write
  std::uint64_t by_others = 2;  // generations each time
  OlderNumber older = OlderNumber::kIgnored;
  std::vector<int> refusals;  // errno, of the next writes
  std::vector<std::string> written;
  int aged = 0;

  Result<std::string> Read() override {
    std::string text = "memcg 1 /\n node 0\n 0 1 0 0\n 1 1 0 0\n";
    if (is_there) {
      text += "memcg " + std::to_string(id) + " /s\n";
      for (const auto& [node, number] : youngest) {
        text += " node " + std::to_string(node) + "\n " + std::to_string(number - 1) + " 9 0 0\n " +
                std::to_string(number) + " 1 0 0\n";
      }
    }
    return text;
  }

  int Write(std::string_view command) override {
    written.emplace_back(command);
    if (aged_by_others > 0) {
      --aged_by_others;
      for (auto& [node, number] : youngest) number += by_others;
    }
    if (!refusals.empty()) {
      const int refusal = refusals.front();
      refusals.erase(refusals.begin());
      if (refusal != 0) return refusal;
    }
    unsigned long group = 0;
    int node = 0;
    unsigned long number = 0;
    if (std::sscanf(written.back().c_str(), "+ %lu %d %lu 1 1", &group, &node, &number) != 3)
      return EINVAL;
    if (group != id || !youngest.contains(node) || number > youngest[node]) return EINVAL;
    if (number < youngest[node]) {
      if (older == OlderNumber::kIgnored) return 0;
      if (older == OlderNumber::kRefused) return EEXIST;
    }
    ++youngest[node];
    ++aged;
    return 0;
  }
};

TEST(AgeGroup, AgesEachNodeOnce) {
  FakeLruGen file;
  file.youngest = {{0, 3}, {2, 11}};
  EXPECT_TRUE(AgeGroup(file, "/s"));
  EXPECT_THAT(file.written, ElementsAre("+ 7 0 3 1 1\n", "+ 7 2 11 1 1\n"));
  EXPECT_EQ(file.aged, 2);
}

TEST(AgeGroup, LooksTheNumberUpAgainWhereAnotherWasFaster) {
  FakeLruGen file;
  file.aged_by_others = 2;
  EXPECT_TRUE(AgeGroup(file, "/s"));
  EXPECT_EQ(file.aged, 1);
  EXPECT_EQ(file.youngest[0], 8u);
}

// A caller has to look if bits have gone: no call reports who has aged.
TEST(AgeGroup, SucceedsIfAnotherWasFasterOnce) {
  for (const OlderNumber older :
       {OlderNumber::kIgnored, OlderNumber::kAges, OlderNumber::kRefused}) {
    FakeLruGen file;
    file.older = older;
    file.aged_by_others = 1;
    file.by_others = 1;
    EXPECT_TRUE(AgeGroup(file, "/s"));
    EXPECT_EQ(file.aged > 0, older == OlderNumber::kAges);
  }
}

TEST(AgeGroup, GivesUpWhereAnotherIsAlwaysFaster) {
  FakeLruGen file;
  file.aged_by_others = 1000;
  const Status aged = AgeGroup(file, "/s");
  ASSERT_FALSE(aged);
  EXPECT_EQ(aged.error().system_error, EBUSY);
  EXPECT_EQ(file.aged, 0);
  EXPECT_EQ(file.written.size(), 4u);
}

TEST(AgeGroup, TriesAgainWhereNoGenerationWasFree) {
  FakeLruGen file;
  file.refusals = {ERANGE, ERANGE};
  EXPECT_TRUE(AgeGroup(file, "/s"));
  EXPECT_EQ(file.aged, 1);
}

TEST(AgeGroup, SaysWhatTheKernelRefusesEachTime) {
  FakeLruGen file;
  file.refusals = std::vector<int>(10, ERANGE);
  const Status aged = AgeGroup(file, "/s");
  ASSERT_FALSE(aged);
  EXPECT_THAT(aged.error().Message(), ::testing::AllOf(HasSubstr("/s"), HasSubstr("ERANGE")));
  EXPECT_EQ(file.written.size(), 4u);
}

TEST(AgeGroup, FailsWhereTheGroupHasGone) {
  FakeLruGen file;
  file.is_there = false;
  EXPECT_EQ(AgeGroup(file, "/s").error().system_error, ENOENT);
  EXPECT_THAT(file.written, IsEmpty());
}

TEST(AgeGroup, FailsIfOneNodeIsRefused) {
  FakeLruGen file;
  file.youngest = {{0, 3}, {1, 3}};
  file.refusals = {0, EINVAL, EINVAL, EINVAL, EINVAL};
  EXPECT_EQ(AgeGroup(file, "/s").error().system_error, EINVAL);
  EXPECT_EQ(file.aged, 1) << "and not the other again";
}

}  // namespace lru_gen_test
}  // namespace tmprof::abit
