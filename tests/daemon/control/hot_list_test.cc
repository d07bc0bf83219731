// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/hot_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/apps/program.h"
#include "tests/daemon/control/hot_lists.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace hot_list_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HotListAsJson, HasWhatIsKnownOfEachSpan) {
  EXPECT_EQ(AsJson(SmallHotList()), (Json{{"epoch", {{"index", 12}, {"length_s", 1.5}}},
                                          {"by", "memory"},
                                          {"rank_weight", "memory"},
                                          {"model", "rate"},
                                          {"score_unit", "accesses to memory"},
                                          {"spans", 3000},
                                          {"rows",
                                           {{{"rank", 1},
                                             {"target", 3},
                                             {"pid", 4711},
                                             {"name", "redis-server"},
                                             {"start", "0x7f0012345000"},
                                             {"span", 1},
                                             {"score", 1250.5},
                                             {"relative_sd", 0.25},
                                             {"assumed", false},
                                             {"joint", true},
                                             {"node", 1},
                                             {"tier", 2},
                                             {"age_s", 2.5}},
                                            {{"rank", 2},
                                             {"target", 4},
                                             {"pid", nullptr},
                                             {"name", nullptr},
                                             {"start", "0x200000"},
                                             {"span", 512},
                                             {"score", 7.0},
                                             {"relative_sd", nullptr},
                                             {"assumed", true},
                                             {"joint", false},
                                             {"node", nullptr},
                                             {"tier", nullptr},
                                             {"age_s", nullptr}}}}}));
}

TEST(HotListAsText, NamesUnknownsAndFitsTheTerminal) {
  const std::string text = AsText(SmallHotList());
  EXPECT_THAT(text, StartsWith("hottest spans by accesses to memory in epoch 12 (1.5 s)\n"));
  EXPECT_THAT(text,
              ContainsRegex(" 4711  redis-server  0x7f0012345000  4 KiB  +1250  +25 %  +2  +1  "
                            "2\\.5 s ago\n"));
  EXPECT_THAT(text, ContainsRegex("unknown  unknown  +0x200000  +2 MiB  +7  assumed  unknown  "
                                  "unknown  +unknown\n"));
  EXPECT_THAT(text, HasSubstr("2 of 3 000 spans shown\n"));
  EXPECT_THAT(text, HasSubstr("because nobody looked at these lately"));
  EXPECT_THAT(AsText(SmallHotList(), 60), AllOf(HasSubstr("--wide"), HasSubstr("0x200000")));
}

TEST(HotListAsText, SaysThatThereAreNone) {
  HotList list = SmallHotList();
  list.spans.clear();
  list.ranked = 0;
  EXPECT_THAT(AsText(list), AllOf(HasSubstr("0 of 0 spans shown\n"), Not(HasSubstr("pid"))));
}

TEST(HotList, NamesTheUnitOfItsScores) {
  HotList list = SmallHotList();
  const auto unit = [&list](RankModel model, RankSource by) {
    list.model = model;
    list.by = by;
    return ScoreUnit(list);
  };
  EXPECT_EQ(unit(RankModel::kRate, RankSource::kCombined), "accesses");
  EXPECT_EQ(unit(RankModel::kRate, RankSource::kMemory), "accesses to memory");
  EXPECT_EQ(unit(RankModel::kRate, RankSource::kSamples), "samples");
  EXPECT_EQ(unit(RankModel::kSum, RankSource::kCombined), "references and samples");
  EXPECT_EQ(unit(RankModel::kSum, RankSource::kMemory), "samples");
  EXPECT_EQ(unit(RankModel::kSum, RankSource::kReferences), "references");
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

TEST(HotListAsBinary, HasAHeaderAndARecordForEachSpan) {
  EXPECT_EQ(Hex(AsBinary(SmallHotList())),
            // header
            "544d50524f464854"
            "01000000"
            "48000000"
            "28000000"
            "00000000"
            "0200000000000000"
            "b80b000000000000"
            "0c00000000000000"
            "002f685900000000"
            "6d656d6f727900000000000000000000"
            // the span of which all is known
            "67120000"
            "01000000"
            "00503412007f0000"
            "00000000008a9340"
            "0000803e"
            "02"
            "02"
            "0100"
            "00f9029500000000"
            // the other one
            "00000000"
            "00020000"
            "0000200000000000"
            "0000000000001c40"
            "0000c07f"
            "00"
            "01"
            "ffff"
            "ffffffffffffffff");
}

TEST(HotListAsBinary, IsTheExampleOfTheDocument) {
  HotList list = SmallHotList();
  list.spans.resize(1);
  std::string page = ReadFile(TMPROF_SOURCE_DIR "/docs/monitoring.md");
  std::erase_if(page, [](char c) { return c == ' ' || c == '\n'; });
  EXPECT_THAT(page, HasSubstr(Hex(AsBinary(list))));
}

}  // namespace hot_list_test
}  // namespace tmprof::test
