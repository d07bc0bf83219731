// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <random>
#include <utility>

#include "base/kept_groups.h"
#include "proto/frame.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace trace_round_trip_test {

class TraceRoundTrip : public TraceTest {};

TEST_F(TraceRoundTrip, EveryFieldComesBackAsItWasWritten) {
  WriteTrace(path(), SmallInfo(), SmallEpochs());
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.info, SmallInfo());
  EXPECT_EQ(back.epochs, SmallEpochs());
  EXPECT_TRUE(back.finished);
}

TEST_F(TraceRoundTrip, UnknownStaysApartFromZero) {
  std::vector<EpochProfile> epochs(2);
  epochs[1].index = 1;
  epochs[0].sources.resize(1);
  epochs[1].sources = {{.duty_cycle = 0.0, .observations = 0, .lost = 0, .details = {}}};
  epochs[0].targets.resize(1);
  epochs[1].targets.resize(1);
  epochs[1].targets[0].cpu_time = std::chrono::nanoseconds(0);
  Append(epochs[0].pages, {.node = std::nullopt});
  Append(epochs[1].pages, {.node = NodeId(0)});
  TraceInfo info;
  info.calibration.ns_per_sample = 0.0;
  info.calibration.assumed_ns_per_point = 0.0;
  WriteTrace(path(), info, epochs);
  const ReadBack back = ReadTrace(path());
  ASSERT_EQ(back.epochs.size(), 2u) << back.error;
  EXPECT_EQ(back.info.calibration.ns_per_set, std::nullopt);
  EXPECT_EQ(back.info.calibration.ns_per_sample, 0.0);
  EXPECT_EQ(back.info.calibration.ns_per_point, std::nullopt);
  EXPECT_EQ(back.info.calibration.assumed_ns_per_point, 0.0);
  EXPECT_EQ(back.epochs[0].sources[0].duty_cycle, std::nullopt);
  EXPECT_EQ(back.epochs[0].sources[0].observations, std::nullopt);
  EXPECT_EQ(back.epochs[0].sources[0].lost, std::nullopt);
  EXPECT_EQ(back.epochs[0].targets[0].cpu_time, std::nullopt);
  EXPECT_EQ(back.epochs[0].pages.node[0], std::nullopt);
  EXPECT_EQ(back.epochs, epochs);
}

TEST_F(TraceRoundTrip, ExtensionsComeBackAsTheirBytesWithoutACodec) {
  std::vector<EpochProfile> epochs(3);
  for (std::size_t i = 0; i < epochs.size(); ++i) epochs[i].index = i;
  const auto set = [](EpochProfile& epoch, std::string bytes) {
    epoch.extension = ExtensionSlot(std::make_unique<UndecodedExtension>(std::move(bytes), 0));
  };
  set(epochs[1], std::string("\0\xff not ours", 11));
  set(epochs[2], "");
  WriteTrace(path(), TraceInfo(), epochs);
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, epochs);
  EXPECT_FALSE(back.epochs[0].extension) << "none is not an empty one";
  set(epochs[1], "other bytes");
  EXPECT_NE(back.epochs, epochs);
}

// The bytes compress to next to nothing, and the frame has to make up for that.
TEST_F(TraceRoundTrip, AReaderMayDecodeAnExtensionThatWasPassedOn) {
  EpochProfile epoch;
  const std::string bytes(std::size_t{4} << 20, '\0');
  epoch.extension = ExtensionSlot(std::make_unique<UndecodedExtension>(bytes, bytes.size() * 128));
  WriteTrace(path(), TraceInfo(), {epoch});
  const std::string written = ReadFile(path());
  WriteTrace(path(), TraceInfo(), ReadTrace(path()).epochs);
  EXPECT_EQ(ReadFile(path()), written) << "passed on, and no longer than before";
  class Greedy final : public ExtensionCodec {
    std::uint64_t MemoryToDecode(std::string_view encoded) const override {
      return encoded.size() * 128;
    }
    Verdict Decode(std::string_view, EpochProfile&) const override { return {}; }
  };
  const Greedy codec;
  EXPECT_EQ(ReadTrace(path(), &codec).error, "");
}

TEST_F(TraceRoundTrip, ExactAccessesComeBackBesideSamplesOrAlone) {
  std::vector<EpochProfile> epochs(4);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].index = i;
    epochs[i].targets.resize(1);
    Append(epochs[i].pages, {.key = {TargetId(0), Vpn(7)}, .load_samples = 9});
  }
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const PageRecord both{
      .key = {TargetId(0), Vpn(8)},
      .accesses = AccessCounts{.loads = most, .stores = 1, .llc_misses = 0, .dtlb_misses = most}};
  PageRecord llc_alone = both;
  llc_alone.accesses->dtlb_misses.reset();
  PageRecord none = both;
  none.accesses = AccessCounts{.loads = 4};
  Append(epochs[0].pages, both);
  Append(epochs[1].pages, llc_alone);
  Append(epochs[2].pages, none);
  PageRecord waited = both;
  waited.accesses->llc_misses = 3;
  waited.accesses->hidden_misses = 3;
  waited.accesses->stall_ns = most;
  Append(epochs[3].pages, waited);
  WriteTrace(path(), SmallInfo(), epochs);
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, epochs);
}

TEST_F(TraceRoundTrip, TraceWithoutEpochsIsComplete) {
  WriteTrace(path(), SmallInfo(), {});
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(back.epochs.empty());
  EXPECT_TRUE(back.finished);
  EXPECT_EQ(back.end.finished, true);
  EXPECT_EQ(back.end.byte_offset, std::nullopt);
}

TEST_F(TraceRoundTrip, OutcomeComesBackAndOneThatWasNotToldStaysUnknown) {
  WriteTrace(path(), SmallInfo(), SmallEpochs());
  EXPECT_EQ(ReadTrace(path()).end.outcome, std::nullopt);
  const RecordingOutcome told{.saw_enough = false, .text = "t.data: saw \xff"};
  // Each number is written, but one that is 0, and one that is unknown.
  const RecordingOutcome numbers{.saw_enough = true,
                                 .text = "t.data: saw",
                                 .looked_at = PageCount(5),
                                 .accessed = PageCount(4),
                                 .resident = PageCount(~std::uint64_t{0}),
                                 .unobservable = {.refused = PageCount(7),
                                                  .device = PageCount(0),
                                                  .locked = PageCount(8),
                                                  .hugetlb = std::nullopt},
                                 .filtered = FilteredChildren{}};
  RecordingOutcome others = numbers;
  others.looked_at = others.accessed = others.resident = std::nullopt;
  others.unobservable = {.hugetlb = PageCount(9)};
  others.filtered = {.processes = 3, .resident = PageCount(10), .cpu_share = 0.25};
  for (const RecordingOutcome& outcome : {told, numbers, others}) {
    Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
    ASSERT_TRUE(writer && writer->Finish(outcome));
    const ReadBack back = ReadTrace(path());
    EXPECT_EQ(back.error, "");
    EXPECT_EQ(back.end.outcome, outcome);
  }
}

TEST_F(TraceRoundTrip, TimesAndIndexesAtTheirLimitsComeBack) {
  using std::chrono::nanoseconds;
  EpochProfile epoch;
  epoch.index = 0xffff'ffff'ffff'ffff;
  epoch.start = MonotonicTime();
  epoch.end = MonotonicTime(nanoseconds::max());
  epoch.profiler_cpu_time = nanoseconds::max();
  TraceInfo info;
  info.wall_start = std::chrono::system_clock::time_point(nanoseconds(-1));
  WriteTrace(path(), info, {epoch});
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.info, info);
  EXPECT_THAT(back.epochs, testing::ElementsAre(epoch));
}

// Draws profiles that vary what the column codings care about: constant, sparse, dense and large
// values, long and short runs, one and many targets.
class RandomProfiles {
 public:
  explicit RandomProfiles(std::uint64_t seed) : random_(seed) {}

  EpochProfile Next() {
    EpochProfile epoch;
    epoch.index = next_index_;
    next_index_ += 1 + Below(2);
    epoch.start = MonotonicTime(std::chrono::nanoseconds(Below(1'000'000'000'000)));
    epoch.end = epoch.start + std::chrono::nanoseconds(Below(2'000'000'000));
    const std::uint64_t targets = Below(4);
    for (std::uint64_t i = 0; i < targets; ++i) {
      Target target;
      target.id = TargetId(static_cast<std::uint32_t>(2 * i + Below(2)));
      target.name = Text();
      if (Below(2) == 0) target.cpu_time = std::chrono::nanoseconds(Below(1u << 30));
      if (Below(3) > 0) {  // most often the same as in the epoch before
        target.mappings = {{.range = {Vpn(i), Vpn(i + 10)}, .kind = MappingKind::kHeap, .path = ""},
                           {.range = {Vpn(100), Vpn(100)}, .path = "empty"}};
      }
      epoch.targets.push_back(target);
      AppendPages(target.id, epoch.pages);
    }
    for (std::uint64_t i = Below(3); i > 0; --i) AppendRungs(epoch);
    return epoch;
  }

 private:
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  std::string Text() {
    std::string text(Below(8), '\0');
    for (char& c : text) c = static_cast<char>(Below(256));
    return text;
  }
  // One of a few distributions that a column sticks to within one call of AppendPages().
  std::uint32_t Draw(std::uint64_t shape) {
    switch (shape) {
      case 0:
        return 0;
      case 1:
        return static_cast<std::uint32_t>(Below(8));
      case 2:
        return Below(100) == 0 ? static_cast<std::uint32_t>(random_()) : 0;
      case 3:
        return static_cast<std::uint32_t>(250 + Below(10));
      case 4:
        return static_cast<std::uint32_t>(256 + 16 * Below(30));
      default:
        return static_cast<std::uint32_t>(random_() >> Below(64));
    }
  }
  void AppendPages(TargetId target, PageColumns& pages) {
    const std::uint64_t records = Below(2) == 0 ? Below(4) : Below(3000);
    const std::uint64_t shape[7] = {Below(6), Below(6), Below(6), Below(6),
                                    Below(6), Below(6), Below(6)};
    const std::uint64_t tried_one_in = Below(2) == 0 ? 3 : 10'000;
    const std::uint64_t told_one_in = Below(2) == 0 ? 2 : 100'000;
    const std::uint64_t new_one_in = Below(2) == 0 ? 2 : 100'000;
    Vpn end(Below(2) == 0 ? 0 : Below(1ull << 40));
    for (std::uint64_t i = 0; i < records; ++i) {
      PageRecord record;
      record.key = {target, end + PageCount(Draw(shape[0]))};
      record.span = PageCount(std::max(1u, Draw(shape[1])));
      end = record.key.vpn + record.span;
      record.looks = Draw(shape[2]);
      record.references = record.looks - static_cast<std::uint32_t>(Below(record.looks + 1ull));
      record.first_accesses = Draw(shape[3]);
      record.time_at_risk = LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
      if (Below(told_one_in) == 0) {
        record.first_read_finds = static_cast<std::uint32_t>(Below(record.first_accesses + 1ull));
        record.first_read_time = LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
        record.later_read_time = LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
      }
      if (Below(new_one_in) == 0 && record.time_at_risk > LogDuration()) {
        const bool all = Below(2) == 0;
        record.new_first_accesses =
            all ? record.first_accesses
                : static_cast<std::uint32_t>(Below(record.first_accesses + 1ull));
        record.new_time_at_risk =
            all ? record.time_at_risk
                : LogDuration::FromCode(static_cast<std::uint16_t>(1 + Draw(shape[4]) % 1000));
        record.new_later_read_time =
            all ? record.later_read_time
                : LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
      }
      record.load_samples = Draw(shape[5]);
      record.store_samples = Draw(shape[6]);
      if (const std::uint32_t node = Draw(shape[3]) % 65537; node > 0) {
        record.node = NodeId(static_cast<std::uint16_t>(node - 1));
      }
      if (record.looks > 0 && Below(tried_one_in) == 0) {
        record.fast_looks = std::max(1u, Draw(shape[5]));
        record.fast_found = static_cast<std::uint32_t>(Below(record.fast_looks + 1ull));
        record.fast_time = LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
        record.fast_earlier = Draw(shape[5]);  // some tries were made, see fast_looks
        record.fast_earlier_time =
            LogDuration::FromCode(static_cast<std::uint16_t>(Draw(shape[4])));
      }
      Append(pages, record);
    }
  }

  void AppendRungs(EpochProfile& epoch) {
    RungCounts counts;
    const std::uint64_t rungs = 1 + Below(64);
    for (std::uint64_t rung = 0; rung < rungs; ++rung) {
      counts.delay.emplace_back(1'000 * rung + Below(1'000));
      counts.window.emplace_back(Below(1'000));
    }
    const std::uint64_t shape = Below(6);
    for (const Target& target : epoch.targets) {
      Vpn end(Below(1ull << 40));
      for (std::uint64_t block = Below(40); block > 0; --block) {
        counts.target.push_back(target.id);
        counts.start.push_back(end + PageCount(Below(3) == 0 ? Below(1000) : 0));
        counts.pages.push_back(1 + static_cast<std::uint32_t>(Below(512)));
        end = counts.start.back() + PageCount(counts.pages.back());
        for (std::uint64_t rung = 0; rung < rungs; ++rung) {
          for (RungCounts::Counts* of : {&counts.new_visits, &counts.older_visits}) {
            of->read.push_back(Draw(shape));
            of->found.push_back(static_cast<std::uint32_t>(Below(of->read.back() + 1ull)));
          }
        }
      }
    }
    epoch.rungs.push_back(std::move(counts));
  }

  std::mt19937_64 random_;
  std::uint64_t next_index_ = 0;
};

TEST_F(TraceRoundTrip, RandomProfilesComeBackAsTheyWereWritten) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomProfiles profiles(seed);
    std::vector<EpochProfile> epochs;
    for (int i = 0; i < 8; ++i) epochs.push_back(profiles.Next());
    WriteTrace(path(), SmallInfo(), epochs);
    const ReadBack back = ReadTrace(path());
    ASSERT_EQ(back.error, "") << "seed " << seed;
    ASSERT_TRUE(back.epochs == epochs) << "seed " << seed;
    ASSERT_TRUE(back.finished) << "seed " << seed;
  }
}

// A message with 2^18 records need not be as long as its record count. A message that compresses
// beyond 1 : 64 is padded. Both matter only here, because everything is constant.
TEST_F(TraceRoundTrip, MoreIdenticalRecordsThanAnyMessageMayClaimComeBack) {
  constexpr std::size_t kRecords = 3'000'000;
  EpochProfile epoch;
  epoch.targets.resize(1);
  PageColumns& pages = epoch.pages;
  for (std::size_t i = 0; i < kRecords; ++i) pages.vpn.push_back(Vpn(i));
  pages.target.resize(kRecords);
  pages.span_pages.assign(kRecords, 1);
  pages.looks.assign(kRecords, 1);
  pages.references.resize(kRecords);
  pages.first_accesses.resize(kRecords);
  pages.time_at_risk.resize(kRecords);
  pages.load_samples.resize(kRecords);
  pages.store_samples.resize(kRecords);
  pages.node.resize(kRecords);
  WriteTrace(path(), SmallInfo(), {epoch});
  const ReadBack back = ReadTrace(path());
  ASSERT_EQ(back.error, "");
  EXPECT_TRUE(back.epochs[0] == epoch);
  EXPECT_LT(std::filesystem::file_size(path()), kRecords / 32);
}

// Idle memory, visited part by part, and mappings at even distances need fewer bytes than a reader
// believes: the writer pads.
TEST_F(TraceRoundTrip, AnEpochOfNextToNoBytesComesBack) {
  constexpr std::uint64_t kEpochs = 6;
  constexpr std::uint64_t kPages = 1 << 18;
  constexpr std::uint64_t kMappings = 550'000;
  EpochProfile epoch;
  epoch.targets.resize(1);
  for (std::uint64_t i = 0; i < kMappings; ++i) {
    epoch.targets[0].mappings.push_back({.range = {Vpn(2 * i), Vpn(2 * i + 1)}, .path = ""});
  }
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  for (epoch.index = 0; epoch.index < kEpochs; ++epoch.index) {
    epoch.pages = {};
    for (std::uint64_t i = 0; i < kPages; ++i) {
      Append(epoch.pages, {.key = {TargetId(0), Vpn(epoch.index * kPages + i)}, .looks = 1});
    }
    ASSERT_TRUE(writer->Write(epoch));
  }
  ASSERT_TRUE(writer->Finish());
  EXPECT_LT(writer->bytes_written(), 250'000u);

  Result<TraceReader> reader = TraceReader::Open(path());
  ASSERT_TRUE(reader);
  for (std::uint64_t i = 0; i < kEpochs; ++i) {
    const Result<bool> more = reader->Next(epoch);
    ASSERT_TRUE(more) << more.error().Message();
    ASSERT_EQ(epoch.pages.size(), kPages);
    ASSERT_EQ(epoch.targets[0].mappings.size(), kMappings);
  }
  EXPECT_FALSE(reader->Next(epoch).value());
}

// More values of rungs than any message may claim: the message is as long as they are many.
TEST_F(TraceRoundTrip, RungsOfATebibyteComeBack) {
  constexpr std::size_t kBlocks = std::size_t{1} << 19;
  EpochProfile epoch;
  epoch.targets.resize(1);
  RungCounts& counts = epoch.rungs.emplace_back();
  for (int rung = 0; rung < 9; ++rung) {
    counts.delay.emplace_back(1'000 << rung);
    counts.window.emplace_back(1'000);
  }
  for (std::size_t block = 0; block < kBlocks; ++block) counts.start.emplace_back(512 * block);
  counts.target.resize(kBlocks);
  counts.pages.assign(kBlocks, 512);
  for (RungCounts::Counts* of : {&counts.new_visits, &counts.older_visits}) {
    of->read.assign(9 * kBlocks, 1);
    of->found.resize(9 * kBlocks);
  }
  WriteTrace(path(), SmallInfo(), {epoch});
  const ReadBack back = ReadTrace(path());
  ASSERT_EQ(back.error, "");
  EXPECT_TRUE(back.epochs[0] == epoch);
}

TEST_F(TraceRoundTrip, UnchangedMappingsAreNotWrittenAgain) {
  EpochProfile epoch;
  epoch.targets.resize(1);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    epoch.targets[0].mappings.push_back(
        {.range = {Vpn(2 * i * i), Vpn(2 * i * i + 1)}, .path = "/lib/" + std::to_string(i * i)});
  }
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->Write(epoch));
  const std::uint64_t after_first = writer->bytes_written();
  epoch.index = 1;
  ASSERT_TRUE(writer->Write(epoch));
  const std::uint64_t after_second = writer->bytes_written();
  EXPECT_GT(after_first, 2000u);
  EXPECT_LT(after_second - after_first, 200u);
  EXPECT_EQ(ReadTrace(path()).epochs[1], epoch);
}

TEST_F(TraceRoundTrip, MappingsOfTargetThatWasAwayAreItsNewOnes) {
  EpochProfile with;
  with.targets.resize(1);
  with.targets[0].mappings = {{.range = {Vpn(1), Vpn(2)}, .path = ""}};
  EpochProfile without;
  without.index = 1;
  EpochProfile again = with;
  again.index = 2;
  EpochProfile bare = with;
  bare.index = 3;
  bare.targets[0].mappings.clear();
  WriteTrace(path(), SmallInfo(), {with, without, again, bare});
  EXPECT_THAT(ReadTrace(path()).epochs, testing::ElementsAre(with, without, again, bare));
}

TEST_F(TraceRoundTrip, ReaderKeepsTheCapacityItHas) {
  EpochProfile large = SmallEpochs()[0];
  large.pages = PageColumns();
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Append(large.pages, {.key = {TargetId(0), Vpn(i * i)}, .looks = 1});
  }
  EpochProfile small = SmallEpochs()[1];
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EpochProfile& epoch = i % 2 == 0 ? large : small;
    epoch.index = i;
    ASSERT_TRUE(writer->Write(epoch));
  }
  Result<TraceReader> reader = TraceReader::Open(path());
  ASSERT_TRUE(reader);
  EpochProfile epoch;
  ASSERT_TRUE(reader->Next(epoch).value());
  const Vpn* vpns = epoch.pages.vpn.data();
  const std::size_t capacity = epoch.pages.vpn.capacity();
  for (int i = 1; i < 1000; ++i) {
    ASSERT_TRUE(reader->Next(epoch).value());
    ASSERT_EQ(epoch.pages.vpn.data(), vpns);
    ASSERT_EQ(epoch.pages.node.capacity(), capacity);
  }
}

TEST_F(TraceRoundTrip, EpochIsReadableAsSoonAsItIsWritten) {
  const std::vector<EpochProfile> epochs = SmallEpochs();
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    ASSERT_TRUE(writer->Write(epochs[i]));
    EXPECT_EQ(writer->bytes_written(), std::filesystem::file_size(path()));
    const ReadBack back = ReadTrace(path());
    EXPECT_EQ(back.error, "");
    EXPECT_FALSE(back.finished);
    ASSERT_EQ(back.epochs.size(), i + 1);
    EXPECT_EQ(back.epochs[i], epochs[i]);
  }
}

TEST_F(TraceRoundTrip, DestroyedWriterLeavesTraceThatSaysItEndsEarly) {
  {
    Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
    ASSERT_TRUE(writer && writer->Write(SmallEpochs()[0]));
  }
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs.size(), 1u);
  EXPECT_FALSE(back.finished);
  EXPECT_EQ(back.end.finished, false);
  EXPECT_EQ(back.end.byte_offset, std::filesystem::file_size(path()));
}

TEST_F(TraceRoundTrip, TraceIsReadableThroughPipe) {
  const std::string bytes = TraceBytes(path(), SmallEpochs());
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ::close(ends[1]);
  const ReadBack back = ReadTrace("/proc/self/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, SmallEpochs());
  EXPECT_TRUE(back.finished);
}

TEST_F(TraceRoundTrip, KeepsWhichRecordsWereNotCompared) {
  std::vector<EpochProfile> epochs = {SmallEpochs()[0]};
  epochs[0].pages.same_as = {0, kNotCompared, 2, 3, 2};
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->Write(epochs[0]));
  ASSERT_TRUE(writer->Finish());
  EXPECT_EQ(ReadTrace(path()).epochs, epochs);
}

using TraceRoundTripDeathTest = TraceRoundTrip;

TEST_F(TraceRoundTripDeathTest, KilledRecorderLosesNoEpochItHadWritten) {
  const std::vector<EpochProfile> epochs = SmallEpochs();
  const auto record_until_killed = [&] {
    Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
    if (writer && writer->Write(epochs[0]) && writer->Write(epochs[1])) ::raise(SIGKILL);
  };
  EXPECT_EXIT(record_until_killed(), testing::KilledBySignal(SIGKILL), "");
  const ReadBack back = ReadTrace(path());
  EXPECT_EQ(back.error, "");
  EXPECT_THAT(back.epochs, testing::ElementsAre(epochs[0], epochs[1]));
  EXPECT_FALSE(back.finished);
}

TEST_F(TraceRoundTripDeathTest, ProfileThatBreaksItsRulesIsNotWritten) {
  Result<TraceWriter> writer = TraceWriter::Create(path(), SmallInfo());
  ASSERT_TRUE(writer);
  EpochProfile more_references = SmallEpochs()[0];
  more_references.pages.references[0] = more_references.pages.looks[0] + 1;
  EXPECT_DEATH((void)writer->Write(more_references), "broken invariant");
  EpochProfile more_found = SmallEpochs()[0];
  ++more_found.pages.fast_tries->looks.front();
  more_found.pages.fast_tries->found.front() = 2;
  EXPECT_DEATH((void)writer->Write(more_found), "broken invariant");
  for (const std::uint32_t first : {3u, 1u, 5u}) {  // not before, of other pages, nowhere
    EpochProfile not_the_first = SmallEpochs()[0];
    not_the_first.pages.same_as->at(2) = first;
    EXPECT_DEATH((void)writer->Write(not_the_first), "broken invariant");
  }
  EpochProfile overlapping = SmallEpochs()[0];
  overlapping.pages.span_pages[1] = 0x201;
  EXPECT_DEATH((void)writer->Write(overlapping), "broken invariant");
  EpochProfile nameless = SmallEpochs()[0];
  nameless.targets.pop_back();
  EXPECT_DEATH((void)writer->Write(nameless), "broken invariant");
  EpochProfile uneven = SmallEpochs()[0];
  uneven.pages.node.pop_back();
  EXPECT_DEATH((void)writer->Write(uneven), "broken invariant");
  ASSERT_TRUE(writer->Write(SmallEpochs()[1]));
  EXPECT_DEATH((void)writer->Write(SmallEpochs()[0]), "broken invariant");
}

}  // namespace trace_round_trip_test
}  // namespace tmprof
