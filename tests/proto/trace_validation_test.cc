// SPDX-License-Identifier: Apache-2.0
// Frames that are sound as frames but hold messages no writer makes. Their bytes are put together
// by hand, so these tests also pin the field numbers of trace.proto.

#include <array>

#include "base/kept_groups.h"
#include "proto/frame.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace trace_validation_test {

using testing::HasSubstr;

// Field numbers of PageColumns.
enum ColumnField {
  kGap = 3,
  kSpan,
  kLooks,
  kReferences,
  kFirstAccesses,
  kTimeAtRisk,
  kLoads,
  kStores,
  kNode
};

std::string Constant(std::uint64_t value) { return Number(1, 1) + Number(2, value); }
std::string Codes(std::initializer_list<unsigned char> codes,
                  std::initializer_list<std::uint64_t> dictionary = {},
                  std::initializer_list<std::uint64_t> overflow = {}) {
  return Number(1, 2) + Bytes(3, std::string(codes.begin(), codes.end())) + Packed(4, dictionary) +
         Packed(5, overflow);
}
std::string Runs(std::initializer_list<std::uint64_t> values,
                 std::initializer_list<std::uint64_t> lengths) {
  return Number(1, 3) + Packed(6, values) + Packed(7, lengths);
}

// An epoch of targets 0 and 2 with two and one page records, which a test then spoils.
struct EpochByHand {
  std::string targets = Bytes(6, Number(1, 0)) + Bytes(6, Number(1, 2));
  std::string groups = Packed(1, {0, 2}) + Packed(2, {2, 1});
  std::array<std::string, 12> columns = [] {
    std::array<std::string, 12> all;
    for (int field = kGap; field <= kNode; ++field) all[field] = Constant(0);
    all[kGap] = Codes({5, 0, 7});
    all[kSpan] = Codes({1, 2, 1});
    all[kLooks] = Runs({4, 9}, {2, 1});
    all[kReferences] = Codes({0, 1, 0}, {3, 4});
    all[kTimeAtRisk] = Codes({255, 1, 255}, {}, {1025, 255});
    all[kNode] = Codes({1, 255, 2}, {}, {65536});
    return all;
  }();
  std::string extra;  // appended to the epoch's message

  std::string Message() const {
    std::string pages = groups;
    for (int field = kGap; field <= kNode; ++field) {
      if (!columns[field].empty()) pages += Bytes(field, columns[field]);
    }
    return targets + Bytes(7, pages) + extra;
  }
};

class TraceValidation : public TraceTest {
 protected:
  ReadBack ReadMessage(std::string_view message) {
    WriteFile(path(), EmptyTrace() + FrameOf(2, message));
    return ReadTrace(path());
  }
  // Returns the fault; fails unless file and offset are named.
  std::string Complaint(std::string_view message) {
    const std::string prefix = "cannot read trace file '" + path().string() +
                               "': frame at byte offset " + std::to_string(EmptyTrace().size()) +
                               ": ";
    const ReadBack back = ReadMessage(message);
    EXPECT_TRUE(back.epochs.empty());
    EXPECT_THAT(back.error, testing::StartsWith(prefix));
    return back.error.substr(std::min(prefix.size(), back.error.size()));
  }
  std::string Complaint(int field, std::string_view column) {
    EpochByHand epoch;
    epoch.columns[static_cast<std::size_t>(field)] = column;
    return Complaint(epoch.Message());
  }
};

TEST_F(TraceValidation, MessageByHandDecodesToWhatTheManualSays) {
  EpochProfile expected;
  expected.targets.resize(2);
  expected.targets[1].id = TargetId(2);
  Append(expected.pages, {.key = {TargetId(0), Vpn(5)},
                          .span = PageCount(1),
                          .looks = 4,
                          .references = 3,
                          .time_at_risk = LogDuration::FromCode(1025),
                          .node = NodeId(0)});
  Append(expected.pages, {.key = {TargetId(0), Vpn(6)},
                          .span = PageCount(2),
                          .looks = 4,
                          .references = 4,
                          .time_at_risk = LogDuration::FromCode(1),
                          .node = NodeId(65535)});
  Append(expected.pages, {.key = {TargetId(2), Vpn(7)},
                          .span = PageCount(1),
                          .looks = 9,
                          .references = 3,
                          .time_at_risk = LogDuration::FromCode(255),
                          .node = NodeId(1)});
  const ReadBack back = ReadMessage(EpochByHand().Message());
  EXPECT_EQ(back.error, "");
  EXPECT_THAT(back.epochs, testing::ElementsAre(expected));
}

TEST_F(TraceValidation, FieldsOfALaterVersionAreSkipped) {
  EpochByHand epoch;
  epoch.extra = Number(1000, 5) + Bytes(1001, "later");
  epoch.targets = Bytes(6, Number(1, 0) + Bytes(999, "later")) + Bytes(6, Number(1, 2));
  epoch.groups += Bytes(998, Constant(1));
  const ReadBack back = ReadMessage(epoch.Message());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, ReadMessage(EpochByHand().Message()).epochs);
}

TEST_F(TraceValidation, HeadersWithoutSoundTiersAreRefused) {
  const auto complaint = [&](const std::string& header) {
    WriteFile(path(), EncodePreamble(kTraceFormat.magic, kTraceFormat.version) +
                          FrameOf(1, header) + FrameOf(2, EpochByHand().Message()));
    return ReadTrace(path()).error;
  };
  const std::string node0 = Bytes(15, Packed(1, {0}));
  EXPECT_EQ(complaint(node0), "") << "all memory is of one class";
  EXPECT_EQ(ReadTrace(path()).info.tiers, (std::vector<std::vector<NodeId>>{{NodeId(0)}}));
  EXPECT_EQ(complaint(node0 + Bytes(15, Packed(1, {3, 2}))), "");
  EXPECT_THAT(complaint(node0 + node0), HasSubstr("named twice"));
  EXPECT_THAT(complaint(Bytes(15, Packed(1, {0, 2, 0}))), HasSubstr("node 0 is named twice"));
  EXPECT_THAT(complaint(node0 + Bytes(15, "")), HasSubstr("tier 2"));
  EXPECT_THAT(complaint(Bytes(15, "")), HasSubstr("tier 1 has no node"));
  EXPECT_THAT(complaint(Bytes(15, Packed(1, {65536}))), HasSubstr("node 65536 is above 65535"));
}

TEST_F(TraceValidation, ColumnsOfAnotherLengthAreRefused) {
  EXPECT_EQ(Complaint(kLoads, Codes({1, 1})), "column 'load_samples' has 2 values for 3 records");
  EXPECT_EQ(Complaint(kStores, Codes({1, 1, 1, 1})),
            "column 'store_samples' has 4 values for 3 records");
  EXPECT_EQ(Complaint(kFirstAccesses, Runs({0, 1}, {1, 1})),
            "column 'first_accesses' has 2 values for 3 records");
  EXPECT_EQ(Complaint(kFirstAccesses, Runs({0, 1}, {2, 2})),
            "column 'first_accesses' has more values than the 3 records");
  EXPECT_EQ(Complaint(kFirstAccesses, Runs({0, 1}, {3, ~0ull})),
            "column 'first_accesses' has more values than the 3 records");
  EXPECT_EQ(Complaint(kFirstAccesses, Runs({0, 1, 2}, {2, 1})),
            "column 'first_accesses' has 3 run values and 2 run lengths");
  EXPECT_EQ(Complaint(kFirstAccesses, Runs({0, 1, 2}, {2, 0, 1})),
            "column 'first_accesses' has an empty run");
  EXPECT_EQ(Complaint(kLooks, ""), "column 'looks' is missing");
}

TEST_F(TraceValidation, CodesThatStandForNothingAreRefused) {
  EXPECT_EQ(Complaint(kLoads, Codes({1, 255, 1})),
            "column 'load_samples' has too few overflow values");
  EXPECT_EQ(Complaint(kLoads, Codes({1, 255, 1}, {}, {300, 300})),
            "column 'load_samples' has too many overflow values");
  EXPECT_EQ(Complaint(kLoads, Codes({1, 2, 1}, {7, 8})),
            "column 'load_samples' has a code that is not in its dictionary");
  EXPECT_EQ(Complaint(kLoads, Number(1, 4)), "column 'load_samples' has the unknown coding 4");
  EXPECT_EQ(Complaint(kLoads, Number(2, 1)), "column 'load_samples' has the unknown coding 0");
  const std::string dictionary_of_256 = Bytes(4, std::string(256, '\x01'));
  EXPECT_EQ(Complaint(kLoads, Number(1, 2) + Bytes(3, "\x01\x01\x01") + dictionary_of_256),
            "column 'load_samples' has a dictionary of 256 values");
}

TEST_F(TraceValidation, ValuesOutsideTheirTypeAreRefused) {
  EXPECT_EQ(Complaint(kLoads, Constant(1ull << 32)),
            "column 'load_samples' has the value 4294967296, above 4294967295");
  EXPECT_EQ(Complaint(kStores, Runs({1ull << 32, 0}, {1, 2})),
            "column 'store_samples' has the value 4294967296, above 4294967295");
  EXPECT_EQ(Complaint(kTimeAtRisk, Codes({1, 255, 1}, {}, {1026})),
            "column 'time_at_risk' has the value 1026, above 1025");
  EXPECT_EQ(Complaint(kNode, Codes({0, 0, 0}, {65537})),
            "column 'node' has the value 65537, above 65536");
  EXPECT_EQ(Complaint(kGap, Constant(1ull << 52)),
            "column 'gap_pages' has the value 4503599627370496, above 4503599627370495");
}

TEST_F(TraceValidation, SpansThatAreEmptyOrLeaveMemoryAreRefused) {
  EXPECT_EQ(Complaint(kSpan, Codes({1, 0, 1})), "record 1 has a span of 0 pages");
  EXPECT_EQ(Complaint(kGap, Runs({0, (1ull << 52) - 1, 0}, {1, 1, 1})),
            "pages of target 0 are past the end of memory");
  EXPECT_EQ(Complaint(kGap, Runs({0, (1ull << 52) - 2, 0}, {1, 1, 1})),
            "pages of target 0 are past the end of memory");
  EpochByHand at_the_end;
  at_the_end.columns[kGap] = Runs({0, (1ull << 52) - 3, (1ull << 52) - 1}, {1, 1, 1});
  const ReadBack back = ReadMessage(at_the_end.Message());
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].pages.vpn[1], Vpn((1ull << 52) - 2));
  EXPECT_EQ(back.epochs[0].pages.vpn[2], Vpn((1ull << 52) - 1));
}

TEST_F(TraceValidation, MoreReferencesThanLooksAreRefused) {
  EXPECT_EQ(Complaint(kReferences, Codes({4, 5, 1})), "record 1 has 5 references in 4 looks");
}

TEST_F(TraceValidation, FindingReadsNeedAllTheirColumnsAndFindNoMoreThanWasFound) {
  const auto with = [](const std::string& columns) {
    EpochByHand epoch;
    epoch.columns[kFirstAccesses] = Codes({0, 2, 1});
    epoch.groups += columns;
    return epoch.Message();
  };
  const std::string finds = Bytes(23, Codes({0, 2, 0}));
  const std::string first = Bytes(24, Codes({0, 200, 0}));
  const std::string later = Bytes(25, Codes({0, 0, 210}));
  const ReadBack back = ReadMessage(with(finds + first + later));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].pages.finding_reads,
            (PageColumns::FindingReads{.first_reads = {0, 2, 0},
                                       .first_time = {{}, LogDuration::FromCode(200), {}},
                                       .later_time = {{}, {}, LogDuration::FromCode(210)}}));
  EXPECT_EQ(Complaint(with(finds + first)), "column 'later_read_time' is missing");
  EXPECT_EQ(Complaint(with(finds + later)), "column 'first_read_time' is missing");
  EXPECT_EQ(Complaint(with(first + later)), "column 'first_read_finds' is missing");
  EXPECT_EQ(Complaint(with(Bytes(23, Codes({0, 3, 0})) + first + later)),
            "record 1 has 3 finds by first reads in 2 first accesses");
}

TEST_F(TraceValidation, NewVisitsNeedAllTheirColumnsAndAreNoMoreThanAllVisits) {
  const auto with = [](const std::string& columns) {
    EpochByHand epoch;
    epoch.columns[kFirstAccesses] = Codes({0, 2, 1});
    epoch.groups += columns;
    return epoch.Message();
  };
  const std::string older = Bytes(28, Codes({0, 2, 0}));
  const std::string time = Bytes(29, Codes({0, 1, 201}));
  const std::string later = Bytes(30, Codes({0, 0, 211}));
  const ReadBack back = ReadMessage(with(older + time + later));
  ASSERT_EQ(back.error, "");
  const PageColumns::NewVisits expected{
      .first_accesses = {0, 0, 1},
      .time_at_risk = {LogDuration::FromCode(1025), {}, LogDuration::FromCode(200)},
      .later_time = {{}, {}, LogDuration::FromCode(210)}};
  EXPECT_EQ(back.epochs[0].pages.new_visits, expected);
  // Without time of new visits, all is of older ones.
  const std::string implied = Bytes(28, Codes({0, 0, 0}));
  EXPECT_EQ(ReadMessage(with(implied + time + later)).epochs[0].pages.new_visits, expected);
  EXPECT_EQ(Complaint(with(older + time)), "column 'new_later_read_time' is missing");
  EXPECT_EQ(Complaint(with(older + later)), "column 'new_time_at_risk' is missing");
  EXPECT_EQ(Complaint(with(time + later)), "column 'older_first_accesses' is missing");
  EXPECT_EQ(Complaint(with(Bytes(28, Codes({0, 3, 0})) + time + later)),
            "record 1 has 3 finds of older visits in 2 first accesses");
  EXPECT_EQ(Complaint(with(older + Bytes(29, Codes({0, 255, 0}, {}, {1027})) + later)),
            "column 'new_time_at_risk' has the value 1027, above 1026");
  EXPECT_EQ(Complaint(with(older + time + Bytes(30, Codes({255, 0, 0}, {}, {70000})))),
            "column 'new_later_read_time' has the value 70000, above 1026");
}

// Two blocks of target 0, of a ladder of two rungs, which a test then spoils.
struct RungsByHand {
  std::string ladder = Packed(1, {1000, 4000}) + Packed(10, {900, 0});
  std::string groups = Packed(2, {0}) + Packed(3, {2});
  std::string gaps = Bytes(4, Codes({5, 1}));
  std::string pages = Bytes(5, Codes({2, 3}));
  std::string read = Bytes(6, Codes({4, 0, 9, 2}));
  std::string found = Bytes(7, Codes({4, 0, 1, 0}));
  std::string older_read = Bytes(8, Codes({0, 7, 0, 0}));
  std::string older_found = Bytes(9, Codes({0, 6, 0, 0}));

  std::string Message() const {
    EpochByHand epoch;
    epoch.extra =
        Bytes(9, ladder + groups + gaps + pages + read + found + older_read + older_found);
    return epoch.Message();
  }
};

TEST_F(TraceValidation, RungsByHandDecodeToWhatTheManualSays) {
  const ReadBack back = ReadMessage(RungsByHand().Message());
  ASSERT_EQ(back.error, "");
  using std::chrono::nanoseconds;
  const RungCounts expected{.delay = {nanoseconds(1000), nanoseconds(4000)},
                            .window = {nanoseconds(900), nanoseconds(0)},
                            .target = {TargetId(0), TargetId(0)},
                            .start = {Vpn(5), Vpn(8)},
                            .pages = {2, 3},
                            .new_visits = {.read = {4, 0, 9, 2}, .found = {4, 0, 1, 0}},
                            .older_visits = {.read = {0, 7, 0, 0}, .found = {0, 6, 0, 0}}};
  EXPECT_THAT(back.epochs[0].rungs, testing::ElementsAre(expected));
}

TEST_F(TraceValidation, DamagedRungsAreRefused) {
  const auto complaint = [this](auto&& spoil) {
    RungsByHand rungs;
    spoil(rungs);
    return Complaint(rungs.Message());
  };
  const auto without = [&](std::string RungsByHand::* field, const std::string& text) {
    return complaint([&](RungsByHand& rungs) { rungs.*field = text; });
  };
  EXPECT_EQ(without(&RungsByHand::ladder, ""), "a ladder of 0 rungs, not 1 to 64");
  EXPECT_EQ(without(&RungsByHand::ladder, Packed(1, {1000, 4000}) + Packed(10, {900})),
            "2 rungs and 1 windows");
  EXPECT_EQ(without(&RungsByHand::ladder, Packed(1, {1000, 1000}) + Packed(10, {900, 0})),
            "rung 1 is at 1000 ns, not after the one before");
  EXPECT_EQ(without(&RungsByHand::ladder, Packed(1, {1000, ~0ull}) + Packed(10, {900, 0})),
            "rung 1 is at 18446744073709551615 ns, after 0 ns");
  EXPECT_EQ(without(&RungsByHand::groups, Packed(2, {0}) + Packed(3, {2, 1})),
            "1 group targets and 2 group sizes of blocks");
  EXPECT_EQ(without(&RungsByHand::groups, Packed(2, {1}) + Packed(3, {2})),
            "blocks of target 1, which is not listed");
  EXPECT_EQ(without(&RungsByHand::groups, Packed(2, {2, 0}) + Packed(3, {1, 1})),
            "blocks of target 0 do not ascend");
  EXPECT_EQ(without(&RungsByHand::groups, Packed(2, {0}) + Packed(3, {0})),
            "target 0 has an empty group of blocks");
  EXPECT_EQ(without(&RungsByHand::groups, Packed(2, {0}) + Packed(3, {1 << 17 | 1})),
            "blocks with more than 262144 values");
  EXPECT_EQ(without(&RungsByHand::pages, Bytes(5, Codes({2, 0}))), "block 1 has 0 pages");
  EXPECT_EQ(without(&RungsByHand::pages, ""), "column 'block_pages' of rungs is missing");
  EXPECT_EQ(without(&RungsByHand::gaps, Bytes(4, Runs({5, (1ull << 52) - 8}, {1, 1}))),
            "blocks of target 0 are past the end of memory");
  EXPECT_EQ(without(&RungsByHand::read, Bytes(6, Codes({4, 0, 9}))),
            "column 'pages_read' of rungs has 3 values for 4 records");
  EXPECT_EQ(without(&RungsByHand::found, Bytes(7, Codes({4, 0, 1, 3}))),
            "block 1 has 3 pages found at rung 1, of 2 that were read");
  EXPECT_EQ(without(&RungsByHand::older_found, Bytes(9, Codes({1, 6, 0, 0}))),
            "block 0 has 1 pages found at rung 0, of 0 that were read");
  EXPECT_EQ(without(&RungsByHand::older_read, ""), "column 'older_pages_read' of rungs is missing");
}

// Each of two messages alone claims as many values as a short message may.
TEST_F(TraceValidation, RungsOfAnEpochClaimNoMoreValuesTogetherThanItsMessageMay) {
  RungsByHand rungs;
  rungs.groups = Packed(2, {0}) + Packed(3, {1 << 17});
  rungs.gaps = Bytes(4, Constant(0));
  rungs.pages = Bytes(5, Constant(1));
  rungs.read = Bytes(6, Constant(0));
  rungs.found = Bytes(7, Constant(0));
  rungs.older_read = Bytes(8, Constant(0));
  rungs.older_found = Bytes(9, Constant(0));
  EXPECT_EQ(ReadMessage(rungs.Message()).error, "");
  const std::string one = rungs.ladder + rungs.groups + rungs.gaps + rungs.pages + rungs.read +
                          rungs.found + rungs.older_read + rungs.older_found;
  EpochByHand epoch;
  epoch.extra = Bytes(9, one) + Bytes(9, one);
  EXPECT_EQ(Complaint(epoch.Message()), "blocks with more than 0 values");
}

TEST_F(TraceValidation, FastTriesNeedAllTheirColumnsAndFindNoMoreThanTheyWere) {
  const auto with = [](const std::string& columns) {
    EpochByHand epoch;
    epoch.groups += columns;
    return epoch.Message();
  };
  const std::string looks = Bytes(16, Codes({0, 2, 0}));
  const std::string found = Bytes(17, Codes({0, 1, 0}));
  const std::string time = Bytes(18, Codes({0, 200, 0}));
  const ReadBack back = ReadMessage(with(looks + found + time));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].pages.fast_tries,
            (PageColumns::FastTries{.looks = {0, 2, 0},
                                    .found = {0, 1, 0},
                                    .time = {{}, LogDuration::FromCode(200), {}},
                                    .earlier = {0, 0, 0},
                                    .earlier_time = {{}, {}, {}}}));
  EXPECT_EQ(Complaint(with(looks + found)), "column 'fast_time' is missing");
  EXPECT_EQ(Complaint(with(looks + time)), "column 'fast_found' is missing");
  EXPECT_EQ(Complaint(with(found + time)), "column 'fast_looks' is missing");
  EXPECT_EQ(Complaint(with(looks + Bytes(17, Codes({0, 3, 0})) + time)),
            "record 1 has 3 finds of fast tries in 2 looks");
}

TEST_F(TraceValidation, EarlierFastTriesNeedBothTheirColumnsAndTheLastOnes) {
  const auto with = [](const std::string& columns) {
    EpochByHand epoch;
    epoch.groups += columns;
    return epoch.Message();
  };
  const std::string last =
      Bytes(16, Codes({0, 2, 0})) + Bytes(17, Codes({0, 1, 0})) + Bytes(18, Codes({0, 200, 0}));
  const std::string earlier = Bytes(21, Codes({0, 4, 0}));
  const std::string time = Bytes(22, Codes({0, 210, 0}));
  const ReadBack back = ReadMessage(with(last + earlier + time));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].pages.fast_tries->earlier, (std::vector<std::uint32_t>{0, 4, 0}));
  EXPECT_EQ(back.epochs[0].pages.fast_tries->earlier_time[1], LogDuration::FromCode(210));
  EXPECT_EQ(Complaint(with(last + earlier)), "column 'fast_earlier_time' is missing");
  EXPECT_EQ(Complaint(with(last + time)), "column 'fast_earlier' is missing");
  EXPECT_EQ(Complaint(with(earlier + time)), "earlier fast tries without the last ones");
  EXPECT_EQ(Complaint(with(last + Bytes(21, Codes({4, 0, 0})) + time)),
            "record 0 has earlier fast tries without last ones");
}

// The first and the last of its three records have 1 page.
TEST_F(TraceValidation, RecordsOfTheSamePagesNameTheFirstOfThem) {
  const auto with = [](const std::string& column) {
    EpochByHand epoch;
    epoch.groups += Bytes(19, column);
    return epoch.Message();
  };
  const ReadBack back = ReadMessage(with(Codes({0, 0, 1})));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].pages.same_as, (std::vector<std::uint32_t>{0, 1, 0}));
  const ReadBack none = ReadMessage(with(Constant(0)));
  ASSERT_EQ(none.error, "");
  EXPECT_EQ(none.epochs[0].pages.same_as, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(ReadMessage(EpochByHand().Message()).epochs[0].pages.same_as, std::nullopt);

  EXPECT_EQ(Complaint(with(Codes({0, 0, 4}))),
            "record 2 is of the same pages as record 3, but there are 3");
  const ReadBack left_out = ReadMessage(with(Codes({255, 0, 255}, {}, {0xffff'ffff, 0xffff'ffff})));
  ASSERT_EQ(left_out.error, "");
  EXPECT_EQ(left_out.epochs[0].pages.same_as,
            (std::vector<std::uint32_t>{kNotCompared, 1, kNotCompared}));
  EXPECT_EQ(Complaint(with(Codes({0, 0, 255}, {}, {0xffff'fffe}))),
            "record 2 is of the same pages as record 4294967293, but there are 3");
  EXPECT_EQ(Complaint(with(Codes({0, 0, 3}))), "record 2 is of the same pages as itself");
  EXPECT_EQ(Complaint(with(Codes({3, 0, 1}))),
            "record 0 is of the same pages as record 2, which is after it");
  EXPECT_EQ(Complaint(with(Codes({0, 1, 0}))),
            "record 1 of 2 pages is of the same pages as record 0 of 1");
  EXPECT_EQ(Complaint(with(Codes({0, 0, 255}, {}, {0x1'0000'0000}))),
            "column 'same_as' has the value 4294967296, above 4294967295");
  EXPECT_EQ(Complaint(with(Codes({0, 0}))), "column 'same_as' has 2 values for 3 records");
  EpochByHand alike;
  alike.columns[kSpan] = Constant(1);
  alike.groups += Bytes(19, Codes({0, 1, 2}));
  EXPECT_EQ(Complaint(alike.Message()),
            "record 2 is of the same pages as record 1, which is not the first of them: record 0 "
            "is");
}

TEST_F(TraceValidation, GroupsThatDoNotAscendOrNameNoTargetAreRefused) {
  const auto complaint = [&](const std::string& groups) {
    EpochByHand epoch;
    epoch.groups = groups;
    return Complaint(epoch.Message());
  };
  EXPECT_EQ(complaint(Packed(1, {2, 0}) + Packed(2, {2, 1})), "pages of target 0 do not ascend");
  EXPECT_EQ(complaint(Packed(1, {0, 0}) + Packed(2, {2, 1})), "pages of target 0 do not ascend");
  EXPECT_EQ(complaint(Packed(1, {0, 1}) + Packed(2, {2, 1})),
            "pages of target 1, which is not listed");
  EXPECT_EQ(complaint(Packed(1, {0, 2}) + Packed(2, {3, 0})), "target 2 has an empty group");
  EXPECT_EQ(complaint(Packed(1, {0, 2}) + Packed(2, {3})), "2 group targets and 1 group sizes");
  EXPECT_EQ(complaint(Packed(1, {0, 2}) + Packed(2, {2, 2})),
            "column 'gap_pages' has 3 values for 4 records");
}

TEST_F(TraceValidation, TargetsOutOfOrderAreRefused) {
  EpochByHand epoch;
  epoch.targets = Bytes(6, Number(1, 2)) + Bytes(6, Number(1, 0));
  EXPECT_EQ(Complaint(epoch.Message()), "target 0 is not in ascending order");
}

TEST_F(TraceValidation, TargetsBeyondTheirNumbersAreRefused) {
  EpochByHand epoch;
  epoch.targets += Bytes(6, Number(1, (1ull << 31) - 1));
  EXPECT_EQ(ReadMessage(epoch.Message()).error, "");
  epoch.targets += Bytes(6, Number(1, 1ull << 31));
  EXPECT_EQ(Complaint(epoch.Message()), "target 2147483648 is above 2147483647");
}

TEST_F(TraceValidation, MappingsThatLeaveMemoryOrHaveNoKindAreRefused) {
  const auto complaint = [&](std::string_view mappings) {
    EpochByHand epoch;
    epoch.targets = Bytes(6, Number(1, 0) + std::string(mappings)) + Bytes(6, Number(1, 2));
    return Complaint(epoch.Message());
  };
  const std::string sound = Bytes(9, Number(1, 1) + Number(2, 1) + Number(3, 1));
  EXPECT_EQ(complaint(sound + Bytes(9, Number(1, 1) + Number(2, 1))),
            "mapping 1 of target 0 has the unknown kind 0");
  EXPECT_EQ(complaint(Bytes(9, Number(1, 1) + Number(2, 1) + Number(3, 7))),
            "mapping 0 of target 0 has the unknown kind 7");
  EXPECT_EQ(complaint(sound + Bytes(9, Number(1, (1ull << 52) - 2) + Number(2, 1) + Number(3, 1))),
            "mapping 1 of target 0 is past the end of memory");
  EXPECT_EQ(complaint(sound + Bytes(9, Number(1, ~0ull) + Number(2, 1) + Number(3, 1))),
            "mapping 1 of target 0 is past the end of memory");
  EXPECT_EQ(complaint(sound + Bytes(9, Number(1, 1) + Number(2, ~0ull) + Number(3, 1))),
            "mapping 1 of target 0 is past the end of memory");
  EXPECT_EQ(complaint(Number(8, 1)), "target 0 repeats mappings that it did not have before");
}

TEST_F(TraceValidation, PlacesOfAFileAreRefusedUnlessTheyAreWhole) {
  const auto read = [&](const std::string& place) {
    EpochByHand epoch;
    const std::string mapping = Number(1, 1) + Number(2, 16) + Number(3, 5) + place;
    epoch.targets = Bytes(6, Number(1, 0) + Bytes(9, mapping)) + Bytes(6, Number(1, 2));
    return epoch.Message();
  };
  const std::uint64_t last = (1ull << 52) - 16;
  const ReadBack back = ReadMessage(read(Number(5, 0) + Number(6, 9) + Number(7, last)));
  ASSERT_EQ(back.error, "");
  EXPECT_EQ(back.epochs[0].targets[0].mappings[0].file,
            (FilePlace{.device = 0, .inode = 9, .offset = PageCount(last)}));
  const std::string part =
      "mapping 0 of target 0 names a part of a file's place, not device, "
      "inode and offset";
  EXPECT_EQ(Complaint(read(Number(6, 9) + Number(7, 0))), part);
  EXPECT_EQ(Complaint(read(Number(5, 1) + Number(7, 0))), part);
  EXPECT_EQ(Complaint(read(Number(5, 1) + Number(6, 9))), part);
  EXPECT_EQ(Complaint(read(Number(5, 1) + Number(6, 0) + Number(7, 0))), part);
  EXPECT_EQ(Complaint(read(Number(5, 1) + Number(6, 9) + Number(7, last + 1))),
            "mapping 0 of target 0 is at page 4503599627370481 of a file, past the end of any");
}

// Parts that version 2 lays out for later writers are no reason to refuse a trace, and do not
// change what is read.
TEST_F(TraceValidation, PartsOfTheFormatThatNobodyReadsYetAreSkipped) {
  EpochByHand epoch;
  epoch.targets =
      Bytes(6, Number(1, 0) + Bytes(12, Bytes(1, Constant(3)))) + Bytes(6, Number(1, 2));
  epoch.groups += Bytes(20, Constant(4));
  epoch.extra = Bytes(10, Number(2, 4096)) + Bytes(11, "") + Bytes(12, Packed(2, {0}));
  const ReadBack back = ReadMessage(epoch.Message());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, ReadMessage(EpochByHand().Message()).epochs);
}

TEST_F(TraceValidation, SourcesOutsideTheirRangesAreRefused) {
  const auto complaint = [&](const std::string& rest) {
    EpochByHand epoch;
    epoch.extra = Bytes(5, Bytes(1, "clock") + rest);
    return Complaint(epoch.Message());
  };
  EXPECT_EQ(complaint(Number(3, 4) + Number(4, 1)), "source 'clock' has the unknown role 4");
  EXPECT_EQ(complaint(Number(4, 1)), "source 'clock' has the unknown role 0");
  EXPECT_EQ(complaint(Number(3, 1) + Number(4, 9)), "source 'clock' has the unknown state 9");
  // Field 5, wire type 1: a little-endian IEEE 754 double. 1.5 and NaN.
  const std::string known = Number(3, 1) + Number(4, 1);
  EXPECT_EQ(complaint(known + std::string("\x29\0\0\0\0\0\0\xf8\x3f", 9)),
            "source 'clock' has the duty cycle 1.5, outside [0, 1]");
  EXPECT_THAT(complaint(known + std::string("\x29\0\0\0\0\0\0\xf8\x7f", 9)),
              HasSubstr("duty cycle nan"));
  EXPECT_EQ(complaint(known + Number(10, 1)),
            "source 'clock' tells what its samples are of and takes none");
  const std::string sampler = Number(3, 2) + Number(4, 1);
  EXPECT_EQ(complaint(sampler + Number(10, 3)),
            "source 'clock' has samples of the unknown subject 3");
  EXPECT_EQ(complaint(sampler + Number(10, 0)),
            "source 'clock' has samples of the unknown subject 0");
  EXPECT_EQ(complaint(sampler + Number(10, 2) + Number(11, 16)),
            "source 'clock' tells of 16 accesses to memory for each sample");
  EXPECT_EQ(complaint(sampler + Number(10, 1) + Number(11, 0)),
            "source 'clock' tells of 0 accesses to memory for each sample");
}

TEST_F(TraceValidation, SamplesWithoutASubjectAreOfTimeOnlyIfTheClockTookThem) {
  const auto source = [&](const std::string& name, const std::string& rest) {
    EpochByHand epoch;
    epoch.extra = Bytes(5, Bytes(1, name) + Number(3, 2) + Number(4, 1) + rest);
    const ReadBack back = ReadMessage(epoch.Message());
    EXPECT_EQ(back.error, "");
    return back.epochs.at(0).sources.at(0);
  };
  EXPECT_EQ(source("clock", "").samples_of, SampleSubject::kTime);
  EXPECT_EQ(source("pebs", "").samples_of, SampleSubject::kMemory);
  EXPECT_EQ(source("clock", Number(10, 1)).samples_of, SampleSubject::kMemory);
  EXPECT_EQ(source("pebs", Number(10, 2)).samples_of, SampleSubject::kTime);
  EXPECT_EQ(source("pebs", "").accesses_per_sample, std::nullopt);
  EXPECT_EQ(source("pebs", Number(11, 4096)).accesses_per_sample, 4096u);
}

TEST_F(TraceValidation, EpochsWithoutPagesOrEndOfTimeAreRefused) {
  EXPECT_EQ(Complaint(""), "the page columns are missing");
  EpochByHand epoch;
  epoch.extra = Number(2, 1) + Number(3, 0x7fffffffffffffff);
  EXPECT_EQ(Complaint(epoch.Message()), "the epoch ends past the end of time");
  epoch.extra = Number(3, ~0ull);
  EXPECT_EQ(Complaint(epoch.Message()), "the epoch ends past the end of time");
}

// No clock since boot shows a negative time, and the length of an epoch has to fit 63 bits.
TEST_F(TraceValidation, TimesBeforeBootAreRefused) {
  constexpr std::uint64_t kEarliest = 1ull << 63;  // the lowest int64
  EpochByHand epoch;
  epoch.extra = Number(2, kEarliest) + Number(3, ~0ull);
  EXPECT_EQ(Complaint(epoch.Message()), "the epoch starts before the machine did");
  epoch.extra = Number(2, ~0ull) + Number(3, 1);
  EXPECT_EQ(Complaint(epoch.Message()), "the epoch starts before the machine did");

  WriteFile(path(), EncodePreamble(kTraceFormat.magic, kTraceFormat.version) +
                        FrameOf(1, Number(6, kEarliest)));
  EXPECT_THAT(ReadTrace(path()).error,
              HasSubstr("frame at byte offset 16: the trace starts before the machine did"));
}

TEST_F(TraceValidation, BytesThatAreNoMessageAreRefused) {
  EXPECT_EQ(Complaint("\xff\xff\xff"), "the epoch is not a protobuf message");
}

}  // namespace trace_validation_test
}  // namespace tmprof
