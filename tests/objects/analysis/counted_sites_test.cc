// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/counted_sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/objects/analysis/profiles.h"

namespace tmprof {
namespace counted_sites_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Frames = std::vector<SourceFrame>;

// The calls of the recorded build, and of the counted one, in whose folder all offsets differ.
SourceFrame Recorded(const std::string& function, int line, const std::string& file = "tree.c") {
  return {.function = function,
          .file = line > 0 ? "/home/build/" + file : "",
          .line = line,
          .module = "/bin/tree",
          .offset = 0x1000};
}
SourceFrame Counted(const std::string& function, int line, const std::string& file = "tree.c") {
  return {.function = function,
          .file = line > 0 ? "../src/" + file : "",
          .line = line,
          .module = "/tmp/tree.counted",
          .offset = 0x2000};
}

// Places are numbered as they are given, from 1 on.
class Sites {
 public:
  explicit Sites(std::vector<Frames> recorded) : recorded_(std::move(recorded)) {}

  SiteCounts Count(const ObjectProfiles& profiles) const {
    Result<SiteCounts> counts = Try(profiles);
    if (!counts) {
      ADD_FAILURE() << counts.error().Message();
      return {};
    }
    return *std::move(counts);
  }
  Result<SiteCounts> Try(const ObjectProfiles& profiles) const {
    std::vector<TracedSite> sites;
    for (const Frames& frames : recorded_) {
      sites.push_back({.place = static_cast<std::uint32_t>(sites.size() + 1), .frames = frames});
    }
    return CountSites(profiles, sites, "run.data");
  }

 private:
  std::vector<Frames> recorded_;
};

const Frames kNodes{Recorded("make_node", 10), Recorded("main", 20), Recorded("start", 5, "libc.c"),
                    Recorded("_start", 0)};
const Frames kLeaves{Recorded("make_leaf", 12), Recorded("main", 21),
                     Recorded("start", 5, "libc.c"), Recorded("_start", 0)};

TEST(CountedSites, AreThoseOfTheSameFunctionsAndLines) {
  const SiteCounts counts =
      Sites({kNodes, kLeaves})
          .Count(ProfileOf(
              {{{Counted("make_leaf", 12), Counted("main", 21), Counted("start", 5, "libc.c")},
                300},
               {{Counted("make_node", 10), Counted("main", 20), Counted("start", 5, "libc.c")},
                700},
               {{Counted("make_tree", 14), Counted("main", 22)}, 50},
               {{Counted("make_root", 16)}, 0}}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 700), Pair(2, 300)));
  EXPECT_EQ(counts.accesses, 1050U);
  EXPECT_EQ(counts.found, 1000U);
  EXPECT_DOUBLE_EQ(counts.FoundShare(), 1000.0 / 1050);
  EXPECT_EQ(counts.missing_sites, 1U) << "the tree; nobody accessed the root";
  EXPECT_EQ(counts.ambiguous_sites, 0U);
}

TEST(CountedSites, AddUpThatAreOneSiteOfTheTrace) {
  // The trace's stack is cut.
  const Sites cut({{Recorded("make_node", 10), Recorded("grow", 30)}});
  const std::vector<CountedStack> stacks{
      {{Counted("make_node", 10), Counted("grow", 30), Counted("main", 20)}, 5},
      {{Counted("make_node", 10), Counted("grow", 30), Counted("main", 21)}, 6}};
  EXPECT_THAT(cut.Count(ProfileOf(stacks)).by_place, ElementsAre(Pair(1, 11)));
  ObjectProfiles twice = ProfileOf(stacks);
  AddProfile(twice, "again.objects", stacks);
  const SiteCounts counts = cut.Count(twice);
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 22)));
  EXPECT_EQ(counts.accesses, 22U);
}

TEST(CountedSites, ThatMayBeOneOfSeveralAreNone) {
  const Sites sites({{Recorded("append", 40, "string.h"), Recorded("main", 20)},
                     {Recorded("append", 40, "string.h"), Recorded("main", 21)},
                     kNodes});
  const CountedStack nodes{{Counted("make_node", 10), Counted("main", 20)}, 7};
  const CountedStack first{{Counted("append", 40, "string.h"), Counted("main", 20)}, 8};
  const CountedStack cut{{Counted("append", 40, "string.h")}, 9};
  const SiteCounts counts = sites.Count(ProfileOf({nodes, cut}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(3, 7)));
  EXPECT_EQ(counts.ambiguous_sites, 1U);
  EXPECT_EQ(counts.missing_sites, 0U);
  EXPECT_EQ(counts.found, 7U);

  const SiteCounts more = sites.Count(ProfileOf({nodes, first, cut}));
  EXPECT_THAT(more.by_place, ElementsAre(Pair(3, 7))) << "how many of the 9 are the first's?";
  EXPECT_EQ(more.ambiguous_sites, 2U);

  const CountedStack none{{Counted("append", 40, "string.h")}, 0};
  EXPECT_THAT(sites.Count(ProfileOf({nodes, first, none})).by_place,
              ElementsAre(Pair(1, 8), Pair(3, 7)));
}

TEST(CountedSites, HaveNoAccessesWhereNoneWereCounted) {
  const SiteCounts counts =
      Sites({kNodes, kLeaves})
          .Count(ProfileOf({{{Counted("make_node", 10)}, 7}, {{Counted("make_leaf", 12)}, 0}}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 7), Pair(2, 0)));
}

TEST(CountedSites, AreThoseOfTheirFunctionsWhereLinesFindNothingAndNoOtherHasThem) {
  const Sites sites({kNodes, kLeaves});
  const CountedStack node{{Counted("make_node", 11), Counted("main", 20)}, 7};
  const CountedStack leaf{{Counted("make_leaf", 12), Counted("main", 21)}, 8};
  EXPECT_THAT(sites.Count(ProfileOf({node, leaf})).by_place, ElementsAre(Pair(1, 7), Pair(2, 8)));

  // Another one of the same function may as well be the trace's.
  const CountedStack other{{Counted("make_node", 14), Counted("main", 20)}, 9};
  const SiteCounts counts = sites.Count(ProfileOf({node, other, leaf}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(2, 8)));
  EXPECT_EQ(counts.ambiguous_sites, 2U) << "one of them is there";
  EXPECT_EQ(counts.missing_sites, 0U);

  // A site with the right line is the trace's, which then does not have the other.
  const CountedStack exact{{Counted("make_node", 10), Counted("main", 20)}, 9};
  const SiteCounts with_exact = sites.Count(ProfileOf({node, exact}));
  EXPECT_THAT(with_exact.by_place, ElementsAre(Pair(1, 9)));
  EXPECT_EQ(with_exact.missing_sites, 1U);
  EXPECT_EQ(with_exact.ambiguous_sites, 0U);

  const Sites two({kNodes, {Recorded("make_node", 13), Recorded("main", 20)}, kLeaves});
  EXPECT_THAT(two.Count(ProfileOf({node, leaf})).by_place, ElementsAre(Pair(3, 8)));
}

TEST(CountedSites, AreNotThoseOfFunctionsInAnotherFile) {
  const CountedStack main{{Counted("main", 10, "list.c")}, 7};
  const Result<SiteCounts> refused =
      Sites({{Recorded("main", 10)}, kLeaves}).Try(ProfileOf({main}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
}

TEST(CountedSites, AreKnownWhereLinesOfSomeCallsAre) {
  // Only one side has debug information of the C library.
  Frames nodes = kNodes;
  nodes[2] = Recorded("start", 0);
  const CountedStack node{
      {Counted("make_node", 10), Counted("main", 20), Counted("start", 5, "libc.c")}, 7};
  EXPECT_THAT(Sites({nodes, kLeaves}).Count(ProfileOf({node})).by_place, ElementsAre(Pair(1, 7)));

  // Without debug information of the program the site may be either.
  const Sites stripped({{Recorded("make_node", 0), Recorded("main", 0)}, kLeaves});
  const CountedStack leaf{{Counted("make_leaf", 12), Counted("main", 21)}, 8};
  EXPECT_THAT(stripped.Count(ProfileOf({node, leaf})).by_place,
              ElementsAre(Pair(1, 7), Pair(2, 8)));
  const CountedStack other{
      {Counted("make_node", 11), Counted("main", 20), Counted("start", 5, "libc.c")}, 9};
  const SiteCounts counts = stripped.Count(ProfileOf({node, other, leaf}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(2, 8)));
  EXPECT_EQ(counts.ambiguous_sites, 2U);
}

TEST(CountedSites, AreComparedFromWhatCallsTheAllocatorOn) {
  // The C++ library allocates by itself where nothing is counted.
  const SourceFrame allocates{
      .function = "operator new(unsigned long)", .module = "/lib/libstdc++.so.6", .offset = 0x10};
  const SourceFrame array{
      .function = "operator new[](unsigned long)", .module = "/lib/libstdc++.so.6", .offset = 0x20};
  const SourceFrame tracker{
      .function = "calloc", .module = "/lib/libtmprof_allocations.so", .offset = 0x30};
  const SourceFrame runtime{
      .function = "begin_thread", .module = "/lib/libtmprof_objects.so", .offset = 0x40};
  const Sites sites({{allocates, array, Recorded("make_node", 10), Recorded("main", 20)},
                     {tracker, Recorded("make_leaf", 12), tracker, Recorded("start", 0)}});
  const SiteCounts counts = sites.Count(
      ProfileOf({{{Counted("make_node", 10), Counted("main", 20)}, 7},
                 {{tracker, Counted("make_leaf", 12), runtime, Counted("start", 0)}, 8}}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 7), Pair(2, 8)));
}

TEST(CountedSites, AreOfOneFunctionHoweverCompilersSpellIt) {
  const std::vector<std::pair<std::string, std::string>> same{
      {"make", "make(int)"},  // g++, of one that is local and was inlined
      {"make", "(anonymous namespace)::make(int)"},
      {"make.constprop.0", "make"},
      {"start@@GLIBC_2.34", "start"},
      {"void tree::add<int>(int) [clone .isra.0]", "void tree::add<int>(int)"},
      {"operator()", "main::$_0::operator()(int) const"},
      {"main::{lambda(int)#1}::operator()(int) const", "main::$_0::operator()(int) const"},
      {"grow(int)::{lambda()#1}::operator()() const", "grow(int)::$_1::operator()() const"},
      {"operator()", "grow(int) const::{lambda()#1}::operator()() const"},
      {"add<long unsigned int>", "void tree::add<unsigned long>(unsigned long)"},
      {"operator<<", "(anonymous namespace)::operator<<(std::ostream&, node const&)"}};
  for (const auto& [recorded, counted] : same) {
    const Sites sites({{Recorded(recorded, 10), Recorded("main", 20)}, kLeaves});
    const CountedStack stack{{Counted(counted, 10), Counted("main", 20)}, 7};
    const CountedStack leaf{{Counted("make_leaf", 12)}, 8};
    EXPECT_THAT(sites.Count(ProfileOf({stack, leaf})).by_place, ElementsAre(Pair(1, 7), Pair(2, 8)))
        << recorded;
  }
  const std::vector<std::pair<std::string, std::string>> others{
      {"make", "make_all(int)"},
      {"list::make(int)", "tree::make(int)"},
      {"make(long)", "make(int)"},
      {"std::vector<int>::push_back(int const&)", "std::vector<long>::push_back(long const&)"},
      {"operator new", "renew"},
      {"operators", "operator"},
      {"", ""}};
  for (const auto& [recorded, counted] : others) {
    const Sites sites({{Recorded(recorded, 10), Recorded("main", 20)}, kLeaves});
    const CountedStack stack{{Counted(counted, 10), Counted("main", 20)}, 7};
    const CountedStack leaf{{Counted("make_leaf", 12)}, 8};
    EXPECT_THAT(sites.Count(ProfileOf({stack, leaf})).by_place, ElementsAre(Pair(2, 8)))
        << recorded;
  }
}

TEST(CountedSites, TypesTellSitesOfOneLineApart) {
  const Sites sites({{Recorded("void add<int>(int)", 10, "add.h"), Recorded("main", 20)},
                     {Recorded("void add<long>(long)", 10, "add.h"), Recorded("main", 20)}});
  EXPECT_THAT(sites
                  .Count(ProfileOf(
                      {{{Counted("void add<long>(long)", 10, "add.h"), Counted("main", 20)}, 7}}))
                  .by_place,
              ElementsAre(Pair(2, 7)));
}

TEST(CountedSites, ARecursionIsOneSiteHoweverDeep) {
  const SourceFrame recorded = Recorded("grow", 30);
  const SourceFrame counted = Counted("grow", 30);
  const Sites sites({{recorded, recorded, recorded, Recorded("main", 20)}, kLeaves});
  const SiteCounts counts = sites.Count(ProfileOf(
      {{{counted, Counted("main", 20)}, 7}, {{counted, counted, Counted("main", 20)}, 8}}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 15)));
}

TEST(CountedSites, AreKnownThoughFunctionsThatJumpToTheLastOneTheyCallAreNotInTheTrace) {
  // The recorded build jumps out of flush(); a build that counts returns from it.
  const Sites sites({{Recorded("allocate", 5), Recorded("write", 10), Recorded("main", 20)},
                     {Recorded("allocate", 5), Recorded("write", 10), Recorded("main", 21)},
                     kLeaves});
  const auto write = [](int jump, int line, std::uint64_t accesses) -> CountedStack {
    return {{Counted("allocate", 5), Counted("write", 10), Counted("flush", jump),
             Counted("main", line)},
            accesses};
  };
  EXPECT_THAT(sites.Count(ProfileOf({write(30, 20, 7), write(30, 21, 8)})).by_place,
              ElementsAre(Pair(1, 7), Pair(2, 8)));
  // The innermost one may be one of these.
  const CountedStack leaf{{Counted("copy", 2), Counted("make_leaf", 12), Counted("main", 21),
                           Counted("start", 5, "libc.c")},
                          9};
  EXPECT_THAT(sites.Count(ProfileOf({leaf})).by_place, ElementsAre(Pair(3, 9)));
  // Two sites may be the one in the trace, so that neither matches. A site that is known by all of
  // its lines does not either.
  const SiteCounts two = sites.Count(ProfileOf({write(30, 20, 7), write(31, 20, 7), leaf}));
  EXPECT_THAT(two.by_place, ElementsAre(Pair(3, 9)));
  EXPECT_EQ(two.ambiguous_sites, 2U);
  EXPECT_EQ(two.missing_sites, 0U);
  const CountedStack itself{{Counted("allocate", 5), Counted("write", 10), Counted("main", 20)}, 6};
  EXPECT_THAT(sites.Count(ProfileOf({write(30, 20, 7), itself})).by_place, ElementsAre(Pair(1, 6)));
  // A stack that ended before the trace's next call may be any.
  const CountedStack cut{{Counted("allocate", 5), Counted("grow", 40)}, 7};
  const SiteCounts other = sites.Count(ProfileOf({cut, leaf}));
  EXPECT_THAT(other.by_place, ElementsAre(Pair(3, 9)));
  EXPECT_EQ(other.missing_sites, 1U);
}

TEST(CountedSites, APartThatTheCompilerSplitOffIsItsFunction) {
  for (const char* part :
       {"make_node.part.0", "make_node.constprop.0.part.1", "make_node [clone .part.0]"}) {
    const Sites sites(
        {{Recorded(part, 10), Recorded("make_node", 3), Recorded("main", 20)},
         {Recorded("make_leaf", 12), Recorded("make_leaf", 3), Recorded("main", 20)}});
    const CountedStack node{{Counted("make_node", 10), Counted("main", 20)}, 7};
    const CountedStack leaf{{Counted("make_leaf", 12), Counted("main", 20)}, 8};
    const CountedStack recursive{
        {Counted("make_leaf", 12), Counted("make_leaf", 3), Counted("main", 20)}, 9};
    EXPECT_THAT(sites.Count(ProfileOf({node, leaf, recursive})).by_place,
                ElementsAre(Pair(1, 7), Pair(2, 9)))
        << part;
  }
}

TEST(CountedSites, AreComparedUpToACallThatNobodyCanName) {
  const SourceFrame unnamed{.module = "/lib/plugin.so", .offset = 0x99};
  const Sites sites({{Recorded("make_node", 10), unnamed, Recorded("main", 20)}, {unnamed}});
  const SiteCounts counts = sites.Count(ProfileOf(
      {{{Counted("make_node", 10), Counted("call", 9), Counted("main", 21)}, 7}, {{unnamed}, 8}}));
  EXPECT_THAT(counts.by_place, ElementsAre(Pair(1, 7)));
  EXPECT_EQ(counts.missing_sites, 1U);
}

TEST(CountedSites, SitesOfOnePlaceMatchThatPlace) {
  // Two sites of the trace that the tracker cannot tell apart, of two lines.
  const Frames first{Recorded("make_node", 10), Recorded("main", 20)};
  const Frames second{Recorded("make_node", 10), Recorded("main", 21)};
  const Result<SiteCounts> counts =
      CountSites(ProfileOf({{{Counted("make_node", 10)}, 7}}),
                 {{.place = 4, .frames = first}, {.place = 4, .frames = second}}, "run.data");
  ASSERT_TRUE(counts) << counts.error().Message();
  EXPECT_THAT(counts->by_place, ElementsAre(Pair(4, 7)));
}

TEST(CountedSites, AProfileOfWhichNothingIsFoundIsRefusedByName) {
  ObjectProfiles profiles = ProfileOf({{{Counted("make_node", 10)}, 7}});
  EXPECT_TRUE(Sites({kNodes}).Try(profiles));
  AddProfile(profiles, "other.objects",
             {{{Counted("parse", 3, "json.c")}, 5}, {{}, 6}, {{Counted("make_node", 10)}, 0}});
  const Result<SiteCounts> refused = Sites({kNodes}).Try(profiles);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(refused.error().Message(),
              AllOf(HasSubstr("other.objects"), HasSubstr("of its 2 allocation sites"),
                    HasSubstr("run.data"), HasSubstr("same sources"), HasSubstr("-g"),
                    HasSubstr("--objects")));

  const Result<SiteCounts> idle = Sites({kNodes}).Try(ProfileOf({{{Counted("make_node", 10)}, 0}}));
  ASSERT_FALSE(idle);
  EXPECT_THAT(idle.error().Message(), HasSubstr("counted no access"));

  EXPECT_FALSE(Sites({}).Try(ProfileOf({{{Counted("make_node", 10)}, 7}})));
}

}  // namespace counted_sites_test
}  // namespace tmprof
