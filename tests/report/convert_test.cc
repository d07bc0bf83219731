// SPDX-License-Identifier: Apache-2.0

#include "report/convert.h"

#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/traces.h"

namespace tmprof {
namespace convert_test {

class ConvertTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/convert.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Output() const { return folder_ / "out"; }
  std::string Read() const {
    std::ifstream file(Output(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path folder_;
};

struct Request {
  std::uint32_t clock = 0;
  std::uint64_t object = 0;
  std::uint32_t bytes = 0;
  std::int64_t next = 0;
  bool operator==(const Request&) const = default;
};

std::vector<Request> Requests(const std::string& file) {
  std::vector<Request> requests;
  for (std::size_t at = 0; at + 24 <= file.size(); at += 24) {
    Request request;
    std::memcpy(&request.clock, &file[at], 4);
    std::memcpy(&request.object, &file[at + 4], 8);
    std::memcpy(&request.bytes, &file[at + 12], 4);
    std::memcpy(&request.next, &file[at + 16], 8);
    requests.push_back(request);
  }
  return requests;
}

constexpr std::uint64_t Object(std::uint64_t target, std::uint64_t vpn) {
  return target << 44 | vpn;
}

TEST_F(ConvertTest, CsvHasALinePerRecordAndLeavesTheUnknownEmpty) {
  EpochProfile epoch = MakeEpoch(2, {MakeTarget(0, 10, "a,\"b\"\n")});
  See(epoch, 0, {{.vpn = 1, .loads = 3}});
  Append(epoch.pages, {.key = {TargetId(0), Vpn(512)},
                       .span = PageCount(512),
                       .looks = 4,
                       .references = 2,
                       .first_accesses = 1,
                       .time_at_risk = LogDuration::FromCode(1),  // 1 ns
                       .first_read_finds = 1,
                       .first_read_time = LogDuration::FromCode(17),
                       .node = NodeId(1),
                       .fast_looks = 3,
                       .fast_found = 2,
                       .fast_time = LogDuration::FromCode(1),
                       .fast_earlier = 4,
                       .fast_earlier_time = LogDuration::FromCode(1),
                       .new_time_at_risk = LogDuration::FromCode(1)});
  const Result<ConvertStats> stats = ConvertToCsv(TraceOf({epoch}), Output());
  ASSERT_TRUE(stats.has_value()) << stats.error().Message();
  EXPECT_EQ(stats->records, 2u);
  EXPECT_EQ(Read(),
            "epoch,start_s,end_s,target,pid,name,start,span_pages,looks,references,first_accesses,"
            "at_risk_s,load_samples,store_samples,node,loads,stores,llc_misses,dtlb_misses,"
            "fast_looks,fast_found,fast_s,fast_earlier,fast_earlier_s,"
            "first_read_finds,first_read_s,later_read_s,hidden_misses,stall_ns,"
            "new_first_accesses,new_at_risk_s,new_later_read_s\n"
            "2,2,3,0,10,\"a,\"\"b\"\"\n\",0x1000,1,0,,,,3,0,,,,,,,,,,,,,,,,,,\n"
            "2,2,3,0,10,\"a,\"\"b\"\"\n\",0x200000,512,4,2,1,1e-09,0,0,1,,,,,3,2,1e-09,4,1e-09,"
            "1,2e-09,0,,,0,1e-09,0\n");
}

TEST_F(ConvertTest, CsvHasExactCountsAndLeavesMissesOfNoModelEmpty) {
  EpochProfile modelled = MakeEpoch(0, {MakeTarget(0, 10, "a")});
  Append(modelled.pages, {.key = {TargetId(0), Vpn(1)},
                          .accesses = AccessCounts{.loads = 5'000'000'000,
                                                   .stores = 2,
                                                   .llc_misses = 3,
                                                   .hidden_misses = 2,
                                                   .stall_ns = 700}});
  EpochProfile both = MakeEpoch(1, {MakeTarget(0, 10, "a")});
  Append(both.pages, {.key = {TargetId(0), Vpn(1)},
                      .accesses = AccessCounts{.stores = 1, .llc_misses = 0, .dtlb_misses = 1}});
  EpochProfile unmodelled = MakeEpoch(2, {MakeTarget(0, 10, "a")});
  Append(unmodelled.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = AccessCounts{.loads = 4}});
  ASSERT_TRUE(ConvertToCsv(TraceOf({modelled, both, unmodelled}), Output()).has_value());
  const std::string csv = Read();
  EXPECT_THAT(csv, testing::HasSubstr("0x1000,1,0,,,,0,0,,5000000000,2,3,,,,,,,,,,2,700,,,\n"));
  EXPECT_THAT(csv, testing::HasSubstr("0x1000,1,0,,,,0,0,,0,1,0,1,,,,,,,,,,,,,\n"));
  EXPECT_THAT(csv, testing::HasSubstr("0x1000,1,0,,,,0,0,,4,0,,,,,,,,,,,,,,,\n"));
}

constexpr OracleGeneralOptions kCounts{.model = RankModel::kSum};

TEST_F(ConvertTest, OracleGeneralHasARequestForEachAccessAndNamesTheNextOne) {
  const std::vector targets = {MakeTarget(0, 10, "a"), MakeTarget(3, 11, "b")};
  EpochProfile zero = MakeEpoch(0, targets);
  See(zero, 0,
      {{.vpn = 1, .looks = 9, .references = 1},
       {.vpn = 2, .looks = 9, .references = 5},
       {.vpn = 3, .looks = 9}});  // not accessed: no request
  See(zero, 3, {{.vpn = 512, .looks = 50, .references = 40, .span = 16}});
  EpochProfile two = MakeEpoch(2, targets);
  See(two, 0, {{.vpn = 1, .loads = 1}, {.vpn = 4, .loads = 2}});
  const Result<ConvertStats> stats =
      ConvertToOracleGeneral(TraceOf({zero, two}), kCounts, Output());
  ASSERT_TRUE(stats.has_value()) << stats.error().Message();
  EXPECT_EQ(stats->epochs, 2u);
  EXPECT_EQ(stats->records, 49u);
  EXPECT_EQ(stats->weight, 49);
  EXPECT_EQ(stats->ratio, 1);
  std::map<std::pair<std::uint32_t, std::uint64_t>, int> requests;
  for (const Request& request : Requests(Read())) {
    EXPECT_EQ(request.bytes, 4096u) << "an object is a page and never changes its size";
    const std::uint64_t vpn = request.object & ((std::uint64_t{1} << 44) - 1);
    ++requests[{request.clock, request.object >> 44 == 3 && vpn >= 512 && vpn < 528
                                   ? Object(3, 512)
                                   : request.object}];
  }
  using testing::Pair;
  EXPECT_THAT(requests, testing::ElementsAre(
                            Pair(Pair(0, Object(0, 1)), 1),  //
                            Pair(Pair(0, Object(0, 2)), 5), Pair(Pair(0, Object(3, 512)), 40),
                            Pair(Pair(2, Object(0, 1)), 1), Pair(Pair(2, Object(0, 4)), 2)));
}

TEST_F(ConvertTest, OracleGeneralSamplesByWeightWithASeedAndTellsTheRatio) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "a")});
  for (std::uint64_t page = 0; page < 100; ++page) {
    Append(epoch.pages, {.key = {TargetId(0), Vpn(page)},
                         .accesses = AccessCounts{.loads = page < 4 ? 900'000u : 4'000u}});
  }
  const Trace trace = TraceOf({epoch});
  OracleGeneralOptions options{.most_requests = 10'000};
  const Result<ConvertStats> stats = ConvertToOracleGeneral(trace, options, Output());
  ASSERT_TRUE(stats.has_value()) << stats.error().Message();
  EXPECT_EQ(stats->basis.source, RankSource::kTruth);
  EXPECT_EQ(stats->weight, 4 * 900'000 + 96 * 4'000);
  EXPECT_DOUBLE_EQ(stats->ratio, 10'000 / stats->weight);
  EXPECT_NEAR(static_cast<double>(stats->records), 10'000, 50);
  const std::string first = Read();
  std::uint64_t hot = 0;
  for (const Request& request : Requests(first)) hot += request.object < 4 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(hot) / static_cast<double>(stats->records), 3.6 / 3.984, 0.01);
  ASSERT_TRUE(ConvertToOracleGeneral(trace, options, Output()).has_value());
  EXPECT_EQ(Read(), first);
  options.seed = 2;
  ASSERT_TRUE(ConvertToOracleGeneral(trace, options, Output()).has_value());
  EXPECT_NE(Read(), first);
}

TEST_F(ConvertTest, OracleGeneralAgreesWithASearchForwardOverManyEpochs) {
  std::vector<EpochProfile> epochs;
  std::uint64_t state = 1;
  for (std::uint64_t index = 0; index < 40; ++index) {
    epochs.push_back(MakeEpoch(index, {MakeTarget(0, 10, "t")}));
    for (std::uint64_t page = 0; page < 3000; ++page) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if (state >> 62 == 0) See(epochs.back(), 0, {{.vpn = page, .loads = 1}});
    }
  }
  ASSERT_TRUE(ConvertToOracleGeneral(TraceOf(std::move(epochs)), kCounts, Output()));
  const std::vector<Request> requests = Requests(Read());
  ASSERT_GT(requests.size(), 20000u);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::int64_t next = -1;
    for (std::size_t j = i + 1; j < requests.size() && next < 0; ++j) {
      if (requests[j].object == requests[i].object) next = static_cast<std::int64_t>(j + 1);
    }
    ASSERT_EQ(requests[i].next, next) << "request " << i + 1;
  }
}

TEST_F(ConvertTest, KeepsWhatCameBeforeTheDamage) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = 1, .loads = 1}});
  const Trace trace = TraceOf({epoch}, BadInput("read trace", "x.data", "checksum differs"));
  const Result<ConvertStats> stats = ConvertToOracleGeneral(trace, kCounts, Output());
  ASSERT_TRUE(stats.has_value());
  EXPECT_TRUE(stats->end.damage.has_value());
  EXPECT_EQ(Requests(Read()).size(), 1u);
}

TEST_F(ConvertTest, ReportsAFullDiskAndAPlaceThatCannotBeWritten) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  const Result<ConvertStats> full = ConvertToCsv(TraceOf({epoch}), "/dev/full");
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().system_error, ENOSPC);
  const Result<ConvertStats> nowhere = ConvertToCsv(TraceOf({epoch}), Output() / "no" / "where");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().system_error, ENOENT);
}

TEST_F(ConvertTest, RefusesTheTraceItselfAsOutputByAnyNameAndLeavesItAsItIs) {
  std::ofstream(Output()) << "the trace";
  Trace trace = TraceOf({MakeEpoch(0, {MakeTarget(0, 10, "t")})});
  trace.path = Output();
  const std::filesystem::path soft = Output().concat(".soft");
  const std::filesystem::path hard = Output().concat(".hard");
  std::filesystem::create_symlink(Output(), soft);
  std::filesystem::create_hard_link(Output(), hard);
  for (const std::filesystem::path& name : {Output(), soft, hard}) {
    const Result<ConvertStats> csv = ConvertToCsv(trace, name);
    ASSERT_FALSE(csv.has_value()) << name;
    EXPECT_EQ(csv.error().kind, ErrorKind::kBadInput);
    EXPECT_FALSE(ConvertToOracleGeneral(trace, kCounts, name).has_value()) << name;
  }
  EXPECT_EQ(Read(), "the trace");
  EXPECT_TRUE(ConvertToCsv(trace, Output().concat(".csv")).has_value());
}

TEST_F(ConvertTest, RefusesAnOracleGeneralOutputThatIsNotARegularFile) {
  const Result<ConvertStats> stats = ConvertToOracleGeneral(TraceOf({}), kCounts, "/dev/null");
  ASSERT_FALSE(stats.has_value());
  EXPECT_EQ(stats.error().kind, ErrorKind::kBadInput);
}

TEST_F(ConvertTest, RefusesASpanThatTheFormatCannotHold) {
  EpochProfile epoch = MakeEpoch(0, {MakeTarget(0, 10, "t")});
  See(epoch, 0, {{.vpn = std::uint64_t{1} << 44, .loads = 1}});
  const Result<ConvertStats> stats = ConvertToOracleGeneral(TraceOf({epoch}), kCounts, Output());
  ASSERT_FALSE(stats.has_value());
  EXPECT_THAT(stats.error().Message(), testing::HasSubstr("does not fit"));
}

}  // namespace convert_test
}  // namespace tmprof
