// SPDX-License-Identifier: Apache-2.0

#include "objects/format/arena_advice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace arena_advice_test {

using ::testing::HasSubstr;

class AdviceFile : public TraceTest {
 protected:
  Result<ArenaAdvice> Read(const std::string& text) {
    std::ofstream(path()) << text;
    return ReadAdvice(path());
  }
  std::filesystem::path path() const { return folder() / "advice"; }
};

TEST_F(AdviceFile, IsReadAsItWasWritten) {
  const ArenaAdvice advice{
      .nodes = {{1, {2, 3}}},
      .room_bytes = {{0, 1 << 20}, {63, std::uint64_t{1} << 40}},
      .sites = {{.arena = 0, .calls = {{"/usr/bin/a program", 0x124d}, {"/lib/libc.so", 0x88}}},
                {.arena = 63, .calls = {{"/lib/libc.so", 0x88}}},
                {.arena = std::nullopt, .calls = {{"/usr/bin/a program", 0}}}},
      .build_ids = {{"/usr/bin/a program", std::string("\0\x7f\xff", 3)}}};
  const Result<ArenaAdvice> read = Read(AdviceText(advice, {"of a test", "site 0 is no line"}));
  ASSERT_TRUE(read) << read.error().Message();
  EXPECT_EQ(*read, advice);
}

TEST_F(AdviceFile, IsTextOfALineEach) {
  const ArenaAdvice advice{.nodes = {{1, {2, 3}}},
                           .room_bytes = {{0, 4096}},
                           .sites = {{.arena = 0, .calls = {{"/a", 0x10}, {"/b", 0xff}}},
                                     {.arena = std::nullopt, .calls = {{"/b", 1}}}},
                           .build_ids = {{"/b", "\x01\xab"}, {"/c", "nobody's"}}};
  EXPECT_EQ(
      AdviceText(advice, {"why"}),
      "tmprof-advice 1\n# why\nmodule 1 /a\nmodule 2 /b\nbuild 2 01ab\nbind 1 2,3\nroom 0 4096\n"
      "site 0 1+0x10 2+0xff\nsite - 2+0x1\n");
}

TEST_F(AdviceFile, ThatIsNotUnderstoodIsRefusedWithItsLine) {
  // After the first line.
  for (const auto& [lines, wrong] : std::vector<std::pair<std::string, std::string>>{
           {"# all is well\n\nplace 3\n", "line 4: it is none of"},
           {"module 0 /a\n", "line 2: a module has a number"},
           {"module 64 /a\n", "line 2: a module has a number"},
           {"module 1 /a\nmodule 1 /b\n", "line 3: a module has a number"},
           {"module 1\n", "line 2: a module has a path"},
           {"build 1 ab\n", "line 2: a build ID is of a module above"},
           {"module 1 /a\nbuild 2 ab\n", "line 3: a build ID is of a module above"},
           {"module 1 /a\nbuild 1\n", "line 3: a build ID is up to 64 bytes"},
           {"module 1 /a\nbuild 1 abc\n", "line 3: a build ID is up to 64 bytes"},
           {"module 1 /a\nbuild 1 ax\n", "line 3: a build ID is up to 64 bytes"},
           {"module 1 /a\nbuild 1 " + std::string(130, 'a') + "\n",
            "line 3: a build ID is up to 64 bytes"},
           {"bind 64 1\n", "line 2: an arena is a number"},
           {"bind 1 x\n", "line 2: nodes are numbers"},
           {"room 64 1\n", "line 2: an arena is a number"},
           {"room 1 0\n", "line 2: room is a number of bytes"},
           {"room 1\n", "line 2: room is a number of bytes"},
           {"bind 1 64\n", "line 2: nodes are numbers"},
           {"bind 1\n", "line 2: nodes are numbers"},
           {"module 1 /a\nsite 64 1+0x1\n", "line 3: an arena is a number"},
           {"module 1 /a\nsite 0\n", "line 3: a site has calls"},
           {"site 0 1+0x10\n", "line 2: a call is MODULE+0xOFFSET"},
           {"module 1 /a\nsite 0 1+10\n", "line 3: a call is MODULE+0xOFFSET"},
           {"module 1 /a\nsite 0 1+0x\n", "line 3: a call is MODULE+0xOFFSET"},
           {"module 1 /a\nsite 0 1\n", "line 3: a call is MODULE+0xOFFSET"}}) {
    const std::string text = fmt::format("{}\n{}", kAdviceFirstLine, lines);
    const Result<ArenaAdvice> read = Read(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().Message(), HasSubstr(wrong)) << text;
    EXPECT_THAT(read.error().Message(), HasSubstr(path().string())) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kBadInput);
  }
  EXPECT_THAT(Read("").error().Message(), HasSubstr("it is empty"));
  EXPECT_THAT(Read("other\n").error().Message(), HasSubstr("line 1: it is not 'tmprof-advice 1'"));
  EXPECT_EQ(ReadAdvice(folder() / "none").error().system_error, ENOENT);
}

TEST(AdviceRoom, EndsWhereAProgramHasNoMore) {
  AdviceRoom modules;
  for (int i = 1; i < 64; ++i) {
    EXPECT_TRUE(modules.Take({{"/module" + std::to_string(i), 1}})) << i;
  }
  EXPECT_FALSE(modules.Take({{"/module64", 1}}));
  EXPECT_TRUE(modules.Take({{"/module5", 2}})) << "it is there already";

  AdviceRoom calls;
  std::uint64_t taken = 0;
  while (calls.Take({{"/a", taken}})) ++taken;
  EXPECT_EQ(taken, (std::uint64_t{1} << 14) - 1);

  AdviceRoom unspelt;
  EXPECT_FALSE(unspelt.Take({}));
  EXPECT_FALSE(unspelt.Take({{"/a\nsite 0 1+0x1", 1}}));
}

}  // namespace arena_advice_test
}  // namespace tmprof
