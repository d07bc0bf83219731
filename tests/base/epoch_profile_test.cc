// SPDX-License-Identifier: Apache-2.0

#include "base/epoch_profile.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tmprof {
namespace epoch_profile_test {

PageRecord Record(std::uint32_t target, std::uint64_t vpn, std::uint64_t span = 1) {
  return {.key = {TargetId(target), Vpn(vpn)}, .span = PageCount(span), .load_samples = 1};
}

TEST(PageColumns, GiveBackEveryFieldOfARow) {
  const PageRecord record{.key = {TargetId(3), Vpn(0x1000)},
                          .span = PageCount(512),
                          .looks = 7,
                          .references = 5,
                          .first_accesses = 2,
                          .time_at_risk = LogDuration::FromCode(200),
                          .first_read_finds = 1,
                          .first_read_time = LogDuration::FromCode(150),
                          .later_read_time = LogDuration::FromCode(160),
                          .load_samples = 11,
                          .store_samples = 13,
                          .node = NodeId(1),
                          .fast_looks = 6,
                          .fast_found = 4,
                          .fast_time = LogDuration::FromCode(300),
                          .fast_earlier = 8,
                          .fast_earlier_time = LogDuration::FromCode(310)};
  PageColumns columns;
  Append(columns, record);
  ASSERT_EQ(columns.size(), 1u);
  const PageRecord row = RecordAt(columns, 0);
  EXPECT_EQ(row.key, record.key);
  EXPECT_EQ(row.span, record.span);
  EXPECT_EQ(row.looks, 7u);
  EXPECT_EQ(row.references, 5u);
  EXPECT_EQ(row.first_accesses, 2u);
  EXPECT_EQ(row.time_at_risk, LogDuration::FromCode(200));
  EXPECT_EQ(row.first_read_finds, 1u);
  EXPECT_EQ(row.first_read_time, LogDuration::FromCode(150));
  EXPECT_EQ(row.later_read_time, LogDuration::FromCode(160));
  EXPECT_EQ(row.load_samples, 11u);
  EXPECT_EQ(row.store_samples, 13u);
  EXPECT_EQ(row.node, NodeId(1));
  EXPECT_EQ(row.fast_looks, 6u);
  EXPECT_EQ(row.fast_found, 4u);
  EXPECT_EQ(row.fast_time, LogDuration::FromCode(300));
  EXPECT_EQ(row.fast_earlier, 8u);
  EXPECT_EQ(row.fast_earlier_time, LogDuration::FromCode(310));
}

TEST(PageColumns, KeepAnUnknownNodeApartFromNodeZero) {
  PageColumns columns;
  Append(columns, Record(0, 1));
  PageRecord on_node_zero = Record(0, 2);
  on_node_zero.node = NodeId(0);
  Append(columns, on_node_zero);
  EXPECT_EQ(RecordAt(columns, 0).node, std::nullopt);
  EXPECT_EQ(RecordAt(columns, 1).node, NodeId(0));
}

TEST(Append, AccessesOfOneRecordSayThatTheOthersHadNone) {
  PageColumns columns;
  Append(columns, Record(0, 1));
  EXPECT_EQ(RecordAt(columns, 0).accesses, std::nullopt);
  PageRecord counted = Record(0, 2);
  counted.accesses =
      AccessCounts{.loads = 5'000'000'000, .stores = 3, .llc_misses = 2, .stall_ns = 9};
  Append(columns, counted);
  Append(columns, Record(0, 3));
  const AccessCounts none{.loads = 0, .stores = 0, .llc_misses = 0, .stall_ns = 0};
  EXPECT_EQ(RecordAt(columns, 0).accesses, none);
  EXPECT_EQ(RecordAt(columns, 1).accesses, counted.accesses);
  EXPECT_EQ(RecordAt(columns, 2).accesses, none);
  EXPECT_EQ(columns.accesses->dtlb_misses, std::nullopt) << "no TLB was modelled";
  EXPECT_EQ(columns.accesses->hidden_misses, std::nullopt) << "no prefetcher was modelled";
}

TEST(Append, ReadsThatFoundOneRecordLeaveThoseOfTheOthersUntold) {
  PageColumns columns;
  Append(columns, Record(0, 1));
  EXPECT_EQ(columns.finding_reads, std::nullopt);
  PageRecord by_first = Record(0, 2);
  by_first.first_accesses = 3;
  by_first.first_read_finds = 2;
  by_first.first_read_time = LogDuration::FromCode(290);
  by_first.later_read_time = LogDuration::FromCode(300);
  Append(columns, by_first);
  PageRecord by_later = Record(0, 3);
  by_later.first_accesses = 1;
  by_later.later_read_time = LogDuration::FromCode(310);
  Append(columns, by_later);
  EXPECT_EQ(columns.finding_reads,
            (PageColumns::FindingReads{
                .first_reads = {0, 2, 0},
                .first_time = {{}, LogDuration::FromCode(290), {}},
                .later_time = {{}, LogDuration::FromCode(300), LogDuration::FromCode(310)}}));
  EXPECT_FALSE(TellsFindingReads(RecordAt(columns, 0)));
  EXPECT_TRUE(TellsFindingReads(RecordAt(columns, 1)));
  EXPECT_TRUE(TellsFindingReads(RecordAt(columns, 2)));
}

TEST(Append, NewVisitsOfOneRecordSayThatNoneIsKnownOfTheOthers) {
  PageColumns columns;
  Append(columns, Record(0, 1));
  EXPECT_EQ(columns.new_visits, std::nullopt);
  PageRecord visited = Record(0, 2);
  visited.first_accesses = 3;
  visited.time_at_risk = LogDuration::FromCode(330);
  visited.later_read_time = LogDuration::FromCode(320);
  visited.new_first_accesses = 2;
  visited.new_time_at_risk = LogDuration::FromCode(290);
  visited.new_later_read_time = LogDuration::FromCode(280);
  Append(columns, visited);
  Append(columns, Record(0, 3));
  EXPECT_EQ(columns.new_visits,
            (PageColumns::NewVisits{.first_accesses = {0, 2, 0},
                                    .time_at_risk = {{}, LogDuration::FromCode(290), {}},
                                    .later_time = {{}, LogDuration::FromCode(280), {}}}));
  const PageRecord back = RecordAt(columns, 1);
  EXPECT_EQ(back.new_first_accesses, 2u);
  EXPECT_EQ(back.new_time_at_risk, LogDuration::FromCode(290));
  EXPECT_EQ(back.new_later_read_time, LogDuration::FromCode(280));
}

TEST(Append, FastTriesOfOneRecordSayThatTheOthersWereNotTried) {
  PageColumns columns;
  Append(columns, Record(0, 1));
  EXPECT_EQ(columns.fast_tries, std::nullopt);
  PageRecord tried = Record(0, 2);
  tried.fast_looks = 2;
  tried.fast_found = 1;
  tried.fast_time = LogDuration::FromCode(200);
  tried.fast_earlier = 4;
  tried.fast_earlier_time = LogDuration::FromCode(210);
  Append(columns, tried);
  Append(columns, Record(0, 3));
  EXPECT_EQ(columns.fast_tries,
            (PageColumns::FastTries{.looks = {0, 2, 0},
                                    .found = {0, 1, 0},
                                    .time = {{}, LogDuration::FromCode(200), {}},
                                    .earlier = {0, 4, 0},
                                    .earlier_time = {{}, LogDuration::FromCode(210), {}}}));
}

TEST(Append, AcceptsASpanThatBeginsWhereTheLastEnds) {
  PageColumns columns;
  Append(columns, Record(0, 0, 512));
  Append(columns, Record(0, 512));
  EXPECT_EQ(columns.size(), 2u);
}

TEST(Append, AcceptsALowerPageOfALaterTarget) {
  PageColumns columns;
  Append(columns, Record(0, 1000));
  Append(columns, Record(1, 3));
  EXPECT_EQ(columns.key(1), (PageKey{TargetId(1), Vpn(3)}));
}

TEST(AppendDeathTest, RefusesARowInsideTheLastSpan) {
  PageColumns columns;
  Append(columns, Record(0, 0, 512));
  EXPECT_DEATH(Append(columns, Record(0, 511)), "broken invariant");
}

TEST(AppendDeathTest, RefusesARepeatedKey) {
  PageColumns columns;
  Append(columns, Record(0, 5));
  EXPECT_DEATH(Append(columns, Record(0, 5)), "broken invariant");
}

TEST(AppendDeathTest, RefusesAnEarlierTarget) {
  PageColumns columns;
  Append(columns, Record(2, 5));
  EXPECT_DEATH(Append(columns, Record(1, 900)), "broken invariant");
}

TEST(AppendDeathTest, RefusesMoreReferencesThanLooks) {
  PageColumns columns;
  PageRecord record = Record(0, 5);
  record.looks = 1;
  record.references = 2;
  EXPECT_DEATH(Append(columns, record), "broken invariant");
}

TEST(AppendDeathTest, RefusesMoreFindsThanFastTries) {
  PageColumns columns;
  PageRecord record = Record(0, 5);
  record.fast_looks = 1;
  record.fast_found = 2;
  EXPECT_DEATH(Append(columns, record), "broken invariant");
}

TEST(AppendDeathTest, RefusesAnEmptySpanAndOneBeyondItsColumn) {
  PageColumns columns;
  EXPECT_DEATH(Append(columns, Record(0, 5, 0)), "broken invariant");
  EXPECT_DEATH(Append(columns, Record(0, 0, std::uint64_t{1} << 32)), "broken invariant");
}

TEST(FindMapping, FindsTheOneThatHoldsThePage) {
  const Target target{.mappings = {{.range = {Vpn(10), Vpn(20)}, .path = "a"},
                                   {.range = {Vpn(20), Vpn(21)}, .path = "b"},
                                   {.range = {Vpn(30), Vpn(40)}, .path = "c"}}};
  const auto path_at = [&](std::uint64_t vpn) -> std::string {
    const Mapping* mapping = FindMapping(target, Vpn(vpn));
    return mapping == nullptr ? "none" : mapping->path;
  };
  EXPECT_EQ(path_at(0), "none");
  EXPECT_EQ(path_at(9), "none");
  EXPECT_EQ(path_at(10), "a");
  EXPECT_EQ(path_at(19), "a");
  EXPECT_EQ(path_at(20), "b");
  EXPECT_EQ(path_at(21), "none");
  EXPECT_EQ(path_at(29), "none");
  EXPECT_EQ(path_at(39), "c");
  EXPECT_EQ(path_at(40), "none");
}

TEST(FindMapping, FindsNothingInATargetWithoutMappings) {
  EXPECT_EQ(FindMapping(Target{}, Vpn(0)), nullptr);
}

TEST(Names, AreTheWordsOfTheVocabulary) {
  EXPECT_EQ(Name(SourceRole::kReferences), "references");
  EXPECT_EQ(Name(SourceRole::kSamples), "samples");
  EXPECT_EQ(Name(SourceRole::kTruth), "truth");
  EXPECT_EQ(Name(SourceState::kActive), "active");
  EXPECT_EQ(Name(SourceState::kGated), "gated");
  EXPECT_EQ(Name(SourceState::kUnavailable), "unavailable");
  EXPECT_EQ(Name(SampleSubject::kMemory), "memory");
  EXPECT_EQ(Name(SampleSubject::kTime), "time");
  EXPECT_EQ(Name(MappingKind::kAnonymous), "anon");
  EXPECT_EQ(Name(MappingKind::kHeap), "heap");
  EXPECT_EQ(Name(MappingKind::kStack), "stack");
  EXPECT_EQ(Name(MappingKind::kFile), "file");
  EXPECT_EQ(Name(MappingKind::kShared), "shared");
  EXPECT_EQ(Name(MappingKind::kSpecial), "special");
}

}  // namespace epoch_profile_test
}  // namespace tmprof
