// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/profiler/exact/stream_bytes.h"

namespace tmprof::exact {
namespace truth_decoder_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two epochs of one target, the second without pages.
StreamBytes Small() {
  return StreamBytes()
      .Header("a model")
      .Target(0, 42, "cmd")
      .Pages({PageEntry(9, 3, 1, 2), PageEntry(5, 1, 0)})
      .Pages({PageEntry(9, 10, 0)})
      .End(4, 100, 200, 14, 1, 6, 2)
      .End(5, 200, 300, 0, 0)
      .Finish(2);
}

std::vector<TruthEpoch> All(TruthDecoder& decoder) {
  std::vector<TruthEpoch> epochs;
  while (auto epoch = decoder.Next()) epochs.push_back(*std::move(epoch));
  return epochs;
}

std::string Complaint(const StreamBytes& stream) {
  TruthDecoder decoder("x");
  const Status fed = decoder.Feed(stream.bytes);
  EXPECT_FALSE(fed) << "it is refused";
  EXPECT_FALSE(decoder.Feed({})) << "for ever";
  return fed ? "" : fed.error().Message();
}

TEST(TruthDecoder, GivesTheEpochsThatWereWritten) {
  TruthDecoder decoder("x");
  ASSERT_TRUE(decoder.Feed(Small().bytes));
  EXPECT_EQ(decoder.origin()->llc_model, "a model");
  EXPECT_EQ(decoder.origin()->dtlb_model, "");
  EXPECT_FALSE(decoder.origin()->of_virtual_machine);
  const auto epochs = All(decoder);
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[0].index, 4u);
  EXPECT_EQ(epochs[0].start.time_since_epoch().count(), 100);
  EXPECT_EQ(epochs[0].end.time_since_epoch().count(), 200);
  EXPECT_EQ(epochs[0].lost_accesses, 6u);
  ASSERT_EQ(epochs[0].pages.size(), 3u);
  EXPECT_EQ(epochs[0].pages[0].vpn, Vpn(9));
  EXPECT_EQ(epochs[0].pages[0].counts, (AccessCounts{.loads = 3, .stores = 1, .llc_misses = 2}));
  EXPECT_EQ(epochs[0].pages[0].node, std::nullopt);
  EXPECT_EQ(epochs[0].pages[2].counts.loads, 10u);
  ASSERT_EQ(epochs[0].targets.size(), 1u);
  EXPECT_EQ(epochs[0].targets[0].pid, Pid(42));
  EXPECT_EQ(epochs[0].targets[0].start_time_ticks, 77u);
  EXPECT_EQ(epochs[0].targets[0].command, "cmd");
  EXPECT_THAT(epochs[1].pages, IsEmpty());
  EXPECT_EQ(epochs[1].targets.size(), 1u) << "it lives on";
  EXPECT_TRUE(decoder.finished());
}

// Pages that a CPU hands in late may belong to a process that has exited meanwhile.
TEST(TruthDecoder, KeepsATargetThatHasExitedUntilAnEpochWithoutPagesOfIt) {
  TruthDecoder decoder("x");
  StreamBytes stream;
  stream.Header().Target(0, 42, "cmd").Pages({PageEntry(9, 3, 0)}).End(0, 0, 1, 3, 0);
  stream.Target(0, 42, "cmd", TMPROF_TRUTH_TARGET_EXITED).Pages({PageEntry(9, 1, 0)});
  stream.End(1, 1, 2, 1, 0).Pages({PageEntry(8, 2, 0)}).End(2, 2, 3, 2, 0).End(3, 3, 4, 0, 0);
  stream.End(4, 4, 5, 0, 0).Finish(5);
  ASSERT_TRUE(decoder.Feed(stream.bytes));
  const auto epochs = All(decoder);
  ASSERT_EQ(epochs.size(), 5u);
  EXPECT_FALSE(epochs[0].targets[0].exited);
  EXPECT_TRUE(epochs[2].targets[0].exited);
  EXPECT_EQ(epochs[2].pages[0].vpn, Vpn(8));
  EXPECT_EQ(epochs[3].targets.size(), 1u);
  EXPECT_THAT(epochs[4].targets, IsEmpty());
}

TEST(TruthDecoder, TakesAStreamInPiecesOfAnySize) {
  const std::string bytes = Small().bytes;
  for (const std::size_t piece : {1, 7, 8, 100}) {
    TruthDecoder decoder("x");
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      ASSERT_TRUE(decoder.Feed(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))));
    EXPECT_EQ(All(decoder).size(), 2u) << piece;
    EXPECT_TRUE(decoder.finished());
  }
}

TEST(TruthDecoder, AStreamCutAnywhereKeepsTheEpochsThatHadEnded) {
  const std::string bytes = Small().bytes;
  const std::string first = StreamBytes()
                                .Header("a model")
                                .Target(0, 42, "cmd")
                                .Pages({PageEntry(9, 3, 1, 2), PageEntry(5, 1, 0)})
                                .Pages({PageEntry(9, 10, 0)})
                                .End(4, 100, 200, 14, 1, 6, 2)
                                .bytes;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    TruthDecoder decoder("x");
    ASSERT_TRUE(decoder.Feed(std::span(bytes).first(length))) << length;
    const std::size_t ended = length < first.size() ? 0 : length < first.size() + 80 ? 1 : 2;
    EXPECT_EQ(All(decoder).size(), ended) << length;
    EXPECT_FALSE(decoder.finished()) << length;
  }
}

TEST(TruthDecoder, SkipsWhatALaterVersionAdds) {
  StreamBytes stream = StreamBytes().Header();
  struct Longer {
    tmprof_truth_record record;
    std::uint64_t more[3];
  };
  stream.Record(99, Longer{}).Target(0, 1, "a");
  struct LongEnd {
    tmprof_truth_epoch_end end;
    std::uint64_t more;
  } end{};
  end.end.record = {.type = TMPROF_TRUTH_EPOCH_END, .bytes = sizeof end};
  stream.Add(end);
  TruthDecoder decoder("x");
  ASSERT_TRUE(decoder.Feed(stream.bytes));
  EXPECT_EQ(All(decoder).size(), 1u);
}

TEST(TruthDecoder, NamesProcessesThatWereNotFollowedOnceEach) {
  StreamBytes stream = StreamBytes().Header().Target(0, 1, "a");
  for (const auto& [processes, why] :
       {std::pair(2u, "b"), std::pair(1u, "c"), std::pair(3u, "b")}) {
    tmprof_truth_not_followed record{};
    record.processes = processes;
    record.text_bytes = 1;
    stream.Record(TMPROF_TRUTH_NOT_FOLLOWED, record, why);
  }
  stream.End(0, 1, 2, 0, 0);
  TruthDecoder decoder("x");
  ASSERT_TRUE(decoder.Feed(stream.bytes));
  const auto epochs = All(decoder);
  ASSERT_EQ(epochs.size(), 1u);
  EXPECT_EQ(epochs[0].processes_not_followed, 6u);
  EXPECT_THAT(epochs[0].not_followed, ElementsAre("b", "c"));
}

TEST(TruthDecoder, TellsHiddenMissesAndStallsWhereTheyWereModelled) {
  for (const std::string model : {"", "so"}) {
    tmprof_truth_page page = PageEntry(9, 5, 0, 3);
    page.hidden_misses = 2;
    page.stall_ns = 700;
    TruthDecoder decoder("x");
    ASSERT_TRUE(decoder.Feed(StreamBytes()
                                 .Header("a cache", 1, model)
                                 .Target(0, 42, "cmd")
                                 .Pages({page})
                                 .End(0, 1, 2, 5, 0, 0, 3)
                                 .bytes));
    EXPECT_EQ(decoder.origin()->l2_model, model);
    EXPECT_EQ(decoder.origin()->prefetcher_model, model);
    EXPECT_EQ(decoder.origin()->stall_model, model);
    const AccessCounts counts = All(decoder).at(0).pages.at(0).counts;
    EXPECT_EQ(counts.llc_misses, 3u);
    EXPECT_EQ(counts.hidden_misses, model.empty() ? std::nullopt : std::optional<std::uint64_t>(2));
    EXPECT_EQ(counts.stall_ns, model.empty() ? std::nullopt : std::optional<std::uint64_t>(700));
  }
}

class ShortPageEntries : public ::testing::TestWithParam<bool> {};

// The parameter: the header is short, too, as it was before there were further models.
TEST_P(ShortPageEntries, LeaveHiddenMissesAndStallsUnknown) {
  const bool short_header = GetParam();
  std::string bytes = StreamBytes().Header("a cache", 1, "so").bytes;
  if (short_header) bytes.resize(TMPROF_TRUTH_LEAST_HEADER_BYTES);
  const auto header_bytes = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data() + offsetof(tmprof_truth_header, header_bytes), &header_bytes,
              sizeof header_bytes);
  bytes += StreamBytes().Target(0, 42, "cmd").bytes;
  tmprof_truth_pages pages{};
  pages.record = {
      .type = TMPROF_TRUTH_PAGES,
      .bytes = static_cast<std::uint32_t>(sizeof pages + 2 * TMPROF_TRUTH_LEAST_PAGE_BYTES)};
  pages.count = 2;
  pages.entry_bytes = TMPROF_TRUTH_LEAST_PAGE_BYTES;
  bytes.append(reinterpret_cast<const char*>(&pages), sizeof pages);
  for (const tmprof_truth_page& page : {PageEntry(9, 5, 1, 3), PageEntry(10, 7, 2, 4)})
    bytes.append(reinterpret_cast<const char*>(&page), TMPROF_TRUTH_LEAST_PAGE_BYTES);
  bytes += StreamBytes().End(0, 1, 2, 12, 3, 0, 7).bytes;
  TruthDecoder decoder("x");
  const Status fed = decoder.Feed(bytes);
  ASSERT_TRUE(fed) << fed.error().Message();
  EXPECT_EQ(decoder.origin()->llc_model, "a cache");
  EXPECT_EQ(decoder.origin()->stall_model, short_header ? "" : "so");
  const auto epochs = All(decoder);
  ASSERT_EQ(epochs.size(), 1u);
  ASSERT_EQ(epochs[0].pages.size(), 2u);
  EXPECT_EQ(epochs[0].pages[1].vpn, Vpn(10));
  EXPECT_EQ(epochs[0].pages[1].counts, (AccessCounts{.loads = 7, .stores = 2, .llc_misses = 4}));
}

INSTANTIATE_TEST_SUITE_P(WithAShortOrAWholeHeader, ShortPageEntries, ::testing::Bool());

// The sanitizers say whether it reads past anything.
TEST(TruthDecoder, StandsAnyDamage) {
  std::mt19937 random(1);
  const std::string whole = Small().bytes;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (unsigned i = 0; i <= random() % 3; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    TruthDecoder decoder("x");
    (void)decoder.Feed(bytes);
    for (const TruthEpoch& epoch : All(decoder)) {
      EXPECT_LE(epoch.start, epoch.end);
      for (const TruthPage& page : epoch.pages) EXPECT_LT(page.vpn.value(), std::uint64_t{1} << 52);
    }
  }
}

TEST(TruthDecoder, RefusesWhatNoPluginWritesAndSaysWhere) {
  StreamBytes text;
  text.bytes = "{\"phases\": []}";
  EXPECT_THAT(Complaint(text), HasSubstr("it is not a truth stream at byte 0"));
  EXPECT_THAT(Complaint(StreamBytes().Header("", 2)), HasSubstr("version 2"));
  EXPECT_THAT(
      Complaint(
          StreamBytes().Header().Target(0, 1, "a").Pages({PageEntry(1, 1, 0)}).End(0, 1, 2, 2, 0)),
      HasSubstr("2 loads and 0 stores whose pages have 1 and 0 at byte 496"));
  EXPECT_THAT(Complaint(StreamBytes()
                            .Header("a model")
                            .Target(0, 1, "a")
                            .Pages({PageEntry(1, 1, 0, 1)})
                            .End(0, 1, 2, 1, 0, 0, 2)),
              HasSubstr("2 LLC and 0 dTLB misses whose pages have 1 and 0"));
  EXPECT_THAT(Complaint(StreamBytes().Header().Pages({PageEntry(1, 1, 0)})),
              HasSubstr("a page of target 0, of which nothing was said at byte 352"));
  EXPECT_THAT(Complaint(StreamBytes().Header().Target(0, 1, "a").Pages(
                  {PageEntry(std::uint64_t{1} << 52, 1, 0)})),
              HasSubstr("the page 0x10000000000000"));
  EXPECT_THAT(Complaint(StreamBytes().Header().End(3, 1, 2, 0, 0).End(3, 2, 3, 0, 0)),
              HasSubstr("epoch 3, which does not follow"));
  EXPECT_THAT(Complaint(StreamBytes().Header().End(3, 5, 9, 0, 0).End(4, 8, 10, 0, 0)),
              HasSubstr("epoch 4, which does not follow"));
  EXPECT_THAT(Complaint(StreamBytes().Header().Finish(1)), HasSubstr("0 epochs of the 1"));
  EXPECT_THAT(Complaint(StreamBytes().Header().Finish(0).End(0, 1, 2, 0, 0)),
              HasSubstr("a record after the last one"));
  StreamBytes odd = StreamBytes().Header();
  odd.Add(tmprof_truth_record{.type = 1, .bytes = 12});
  EXPECT_THAT(Complaint(odd), HasSubstr("a record of 12 bytes"));
  tmprof_truth_page hidden = PageEntry(9, 5, 0, 3);
  hidden.hidden_misses = 4;
  EXPECT_THAT(Complaint(StreamBytes().Header("a", 1, "b").Target(0, 1, "a").Pages({hidden})),
              HasSubstr("a page of 3 misses of which 4 were hidden"));
  StreamBytes many = StreamBytes().Header();
  tmprof_truth_pages pages{};
  pages.count = 0xffffffff;
  pages.entry_bytes = sizeof(tmprof_truth_page);
  EXPECT_THAT(Complaint(many.Record(TMPROF_TRUTH_PAGES, pages)),
              HasSubstr("4294967295 page entries"));
}

}  // namespace truth_decoder_test
}  // namespace tmprof::exact
