// SPDX-License-Identifier: Apache-2.0
// Tests the ledger's own rules; the framing is tested with traces.

#include "proto/ledger_file.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "proto/frame.h"
#include "tests/proto/ledgers.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace ledger_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct LedgerBack {
  std::vector<LedgerEpoch> epochs;
  StreamEnd end;
  std::string error;  // empty: none
};

LedgerBack ReadLedger(const std::filesystem::path& path) {
  LedgerBack back;
  Result<LedgerReader> reader = LedgerReader::Open(path);
  if (!reader) {
    back.error = reader.error().Message();
    return back;
  }
  LedgerEpoch epoch;
  while (true) {
    const Result<bool> more = reader->Next(epoch);
    if (!more) back.error = more.error().Message();
    if (!more || !*more) break;
    back.epochs.push_back(epoch);
  }
  back.end = reader->End();
  return back;
}

class LedgerTest : public TraceTest {
 protected:
  void WriteLedger(const std::vector<LedgerEpoch>& epochs) {
    Result<LedgerWriter> writer = LedgerWriter::Create(path(), SmallLedgerInfo());
    ASSERT_TRUE(writer) << writer.error().Message();
    for (const LedgerEpoch& epoch : epochs) {
      const Status status = writer->Write(epoch);
      ASSERT_TRUE(status) << status.error().Message();
    }
    const Status status = writer->Finish();
    ASSERT_TRUE(status) << status.error().Message();
  }
  LedgerBack ReadBytes(std::string_view bytes) {
    WriteFile(path(), bytes);
    return ReadLedger(path());
  }
};

TEST_F(LedgerTest, IsReadAsItWasWritten) {
  WriteLedger(SmallLedgerEpochs());
  const Result<LedgerReader> reader = LedgerReader::Open(path());
  ASSERT_TRUE(reader) << reader.error().Message();
  EXPECT_EQ(reader->info(), SmallLedgerInfo());
  EXPECT_EQ(reader->path(), path());
  const LedgerBack back = ReadLedger(path());
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.epochs, SmallLedgerEpochs());
  EXPECT_EQ(back.end.finished, true);
  EXPECT_EQ(back.end.byte_offset, std::nullopt);
}

TEST_F(LedgerTest, ReadsAnyMoveAsItWasWritten) {
  std::mt19937_64 random(5);
  std::vector<LedgerEpoch> epochs;
  for (std::uint64_t index = 0; index < 4; ++index) {
    LedgerEpoch epoch = LedgerEpochAt(index);
    if (index == 0) {
      for (std::uint32_t id = 0; id < 5; ++id) epoch.targets.push_back({.id = TargetId(id)});
    }
    for (int i = 0; i < 3000; ++i) {
      const auto node = [&random] { return static_cast<std::uint16_t>(random() % 4); };
      MoveOutcome outcome = Moved(static_cast<std::uint32_t>(random() % 5), random() % (1 << 30),
                                  node(), node(), static_cast<MoveReason>(random() % 3));
      if (random() % 8 == 0) outcome.move.span = PageCount(512);
      outcome.move.score = std::ldexp(static_cast<double>(random()), -40);
      outcome.error = random() % 8 == 0 ? static_cast<int>(random() % 200) : 0;
      outcome.attempts = static_cast<std::uint32_t>(random() % 4);
      outcome.latency = std::chrono::nanoseconds(random() % 1'000'000'000);
      epoch.moves.push_back(outcome);
      if (random() % 2 == 0) continue;
      const std::uint64_t known = random() % 3;
      epoch.settled.push_back({.key = outcome.move.key,
                               .span = outcome.move.span,
                               .from = outcome.move.from,
                               .to = outcome.move.to,
                               .moved_in = random() % (index + 1),
                               .cause = static_cast<SettledCause>(random() % 4),
                               .epochs = known + random() % 3,
                               .epochs_known = known,
                               .seen = known == 0 ? 0 : std::ldexp(double(random()), -50),
                               .weight = known == 0 ? 0 : std::ldexp(double(random()), -30)});
    }
    epochs.push_back(std::move(epoch));
  }
  WriteLedger(epochs);
  const LedgerBack back = ReadLedger(path());
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(back.epochs == epochs);
}

TEST_F(LedgerTest, IsForItsOwnerOnly) {
  const mode_t umask = ::umask(0);
  WriteLedger({});
  ::umask(umask);
  struct stat status{};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(LedgerTest, AKilledDaemonLosesItsOpenEpochOnly) {
  const std::vector<LedgerEpoch> epochs = SmallLedgerEpochs();
  {
    Result<LedgerWriter> writer = LedgerWriter::Create(path(), SmallLedgerInfo());
    ASSERT_TRUE(writer && writer->Write(epochs[0]) && writer->Write(epochs[1]));
    EXPECT_THAT(ReadLedger(path()).epochs, ElementsAre(epochs[0], epochs[1]))
        << "also while it is being written";
  }
  const LedgerBack back = ReadLedger(path());
  EXPECT_EQ(back.error, "");
  EXPECT_THAT(back.epochs, ElementsAre(epochs[0], epochs[1]));
  EXPECT_EQ(back.end.finished, false);
  EXPECT_EQ(back.end.byte_offset, std::filesystem::file_size(path()));
}

TEST_F(LedgerTest, CutAnywhereItIsReadUpToTheCutWhichIsTold) {
  const std::vector<LedgerEpoch> epochs = SmallLedgerEpochs();
  WriteLedger(epochs);
  const std::string sound = ReadFile(path());
  std::size_t most = 0;
  for (std::size_t length = 0; length < sound.size(); ++length) {
    const LedgerBack back = ReadBytes(std::string_view(sound).substr(0, length));
    ASSERT_TRUE(!back.error.empty() || back.end.finished == false) << length;
    ASSERT_LE(back.epochs.size(), epochs.size());
    ASSERT_GE(back.epochs.size(), most) << length;
    most = back.epochs.size();
    ASSERT_EQ(back.epochs,
              std::vector(epochs.begin(), epochs.begin() + static_cast<std::ptrdiff_t>(most)));
  }
  EXPECT_EQ(most, epochs.size());
}

TEST_F(LedgerTest, AFullDiskEndsTheLedgerAndIsTold) {
  const std::vector<LedgerEpoch> epochs = SmallLedgerEpochs();
  Result<LedgerWriter> writer = LedgerWriter::Create(path(), SmallLedgerInfo());
  ASSERT_TRUE(writer && writer->Write(epochs[0]));
  const std::uint64_t good = writer->bytes_written();
  Status refused;
  {
    const FileSizeLimit limit(good + 10);
    refused = writer->Write(epochs[1]);
  }
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(),
              AllOf(HasSubstr("write epoch 1 to ledger file"), HasSubstr(path().string()),
                    HasSubstr("EFBIG"), HasSubstr("free some space")));
  const Status again = writer->Write(epochs[2]);
  ASSERT_FALSE(again) << "a ledger has no holes";
  EXPECT_EQ(again.error().Message(), refused.error().Message());
  EXPECT_THAT(ReadLedger(path()).epochs, ElementsAre(epochs[0]));
  EXPECT_EQ(std::filesystem::file_size(path()), good);
}

TEST_F(LedgerTest, ALedgerIsNoTraceAndATraceNoLedger) {
  WriteLedger(SmallLedgerEpochs());
  EXPECT_THAT(ReadTrace(path()).error,
              AllOf(HasSubstr("cannot read trace file '" + path().string() + "'"),
                    HasSubstr("it is a tmprof ledger"), HasSubstr("and no trace"),
                    HasSubstr("--view moves")));
  WriteTrace(path(), SmallInfo(), SmallEpochs());
  EXPECT_THAT(ReadLedger(path()).error,
              AllOf(HasSubstr("cannot read ledger file '" + path().string() + "'"),
                    HasSubstr("it is a tmprof trace"), HasSubstr("and no ledger"),
                    HasSubstr("tmprof report")));
  EXPECT_THAT(ReadBytes("PERFILE2 and more than sixteen bytes").error,
              HasSubstr("not a tmprof ledger: wrong magic number at byte offset 0"));
  EXPECT_THAT(ReadBytes(EncodePreamble(kLedgerFormat.magic, 2)).error,
              HasSubstr("format version 2 at byte offset 8; this tmprof understands version 1"));
}

// Messages by hand: what no writer writes.
class LedgerValidation : public LedgerTest {
 protected:
  static std::string Preamble() {
    return EncodePreamble(kLedgerFormat.magic, kLedgerFormat.version);
  }
  static std::string Header() {
    return FrameOf(1, Bytes(6, Packed(1, {0})) + Bytes(6, Packed(1, {1})));
  }
  static std::string Constant(std::uint64_t value) { return Number(1, 1) + Number(2, value); }
  // A packed column of doubles.
  static std::string Doubles(int field, std::initializer_list<double> values) {
    std::string contents(8 * values.size(), '\0');
    std::memcpy(contents.data(), values.begin(), contents.size());
    return Bytes(field, contents);
  }
  // Columns of two moves or settled ones, of which `field` is replaced by `column`; empty: left
  // out.
  static std::string Columns(std::initializer_list<std::pair<int, std::uint64_t>> values, int field,
                             const std::string& column) {
    std::string message;
    for (const auto& [number, value] : values) {
      if (number != field) message += Bytes(number, Constant(value));
    }
    if (!column.empty()) message += Bytes(field, column);
    return message;
  }
  static std::string Moves(int field, const std::string& column) {
    return Bytes(12,
                 Columns({{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 0}, {7, 1}, {8, 0}, {9, 1}, {10, 5}},
                         field, column) +
                     Doubles(6, {1, 2}));
  }
  static std::string Settled(int field, const std::string& column) {
    return Bytes(
        13, Columns({{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 0}, {6, 0}, {7, 1}, {8, 2}, {9, 1}}, field,
                    column) +
                Doubles(10, {1, 0}) + Doubles(11, {3, 0}));
  }
  // Returns the fault of an epoch that has this beside a target 0.
  std::string Complaint(const std::string& rest, std::uint64_t index = 0) {
    const std::string start = Preamble() + Header();
    const LedgerBack back =
        ReadBytes(start + FrameOf(2, Number(1, index) + Bytes(4, Number(1, 0)) + rest));
    const std::string place = "frame at byte offset " + std::to_string(start.size()) + ": ";
    const std::size_t at = back.error.find(place);
    return at == std::string::npos ? back.error : back.error.substr(at + place.size());
  }
  std::string HeaderComplaint(const std::string& header) {
    return ReadBytes(Preamble() + FrameOf(1, header)).error;
  }
};

TEST_F(LedgerValidation, SoundMessagesPass) {
  EXPECT_EQ(Complaint(""), "");
  EXPECT_EQ(Complaint(Moves(0, "") + Settled(0, "")), "");
  const LedgerBack back = ReadLedger(path());
  ASSERT_EQ(back.epochs.size(), 1u);
  ASSERT_EQ(back.epochs[0].moves.size(), 2u);
  EXPECT_EQ(back.epochs[0].moves[1].move.key.vpn, Vpn(1));
  EXPECT_EQ(back.epochs[0].moves[1].move.score, 2);
  EXPECT_EQ(back.epochs[0].moves[1].latency, std::chrono::nanoseconds(5));
  ASSERT_EQ(back.epochs[0].settled.size(), 2u);
  EXPECT_EQ(back.epochs[0].settled[0].seen, 1);
  EXPECT_EQ(back.epochs[0].settled[0].weight, 3);
}

TEST_F(LedgerValidation, AMissingColumnIsRefused) {
  EXPECT_EQ(Complaint(Moves(1, "")), "column 'target' of moves is missing");
  EXPECT_EQ(Complaint(Moves(10, "")), "column 'latency_ns' of moves is missing");
  EXPECT_EQ(Complaint(Settled(6, "")), "column 'age' of settled moves is missing");
}

TEST_F(LedgerValidation, ValuesOutsideTheirTypeAreRefused) {
  EXPECT_EQ(Complaint(Moves(4, Constant(65536))),
            "column 'from' of moves has the value 65536, above 65535");
  EXPECT_EQ(Complaint(Moves(8, Constant(1ull << 31))),
            "column 'error' of moves has the value 2147483648, above 2147483647");
  EXPECT_EQ(Complaint(Moves(7, Constant(4))), "column 'reason' of moves has an unknown value");
  EXPECT_EQ(Complaint(Moves(7, Constant(0))), "column 'reason' of moves has an unknown value");
  EXPECT_EQ(Complaint(Settled(7, Constant(5))),
            "column 'cause' of settled moves has an unknown value");
  EXPECT_THAT(Complaint(Moves(10, Constant(1ull << 63))), HasSubstr("column 'latency_ns'"));
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Complaint(Bytes(12, Doubles(6, {kNone})) + Moves(0, "")), "move 0 has no score");
}

TEST_F(LedgerValidation, SpansThatLeaveMemoryAreRefused) {
  EXPECT_EQ(Complaint(Moves(3, Constant(0))), "moves of no pages of memory");
  EXPECT_EQ(Complaint(Moves(2, Constant(3))), "moves of no pages of memory") << "below address 0";
  EXPECT_EQ(Complaint(Moves(2, Constant(1ull << 53))), "moves of no pages of memory");
  EXPECT_EQ(Complaint(Moves(2, Constant(~0ull))), "moves of no pages of memory");
  EXPECT_EQ(Complaint(Settled(3, Constant(1ull << 52))), "settled moves of no pages of memory");
}

TEST_F(LedgerValidation, TargetsThatNobodyToldOfAreRefused) {
  EXPECT_EQ(Complaint(Moves(1, Constant(1))), "moves of target 1, which no frame tells of");
  EXPECT_EQ(Complaint(Bytes(4, Number(1, 0))), "target 0 is not in ascending order");
}

TEST_F(LedgerValidation, RefusesImpossibleEvidence) {
  EXPECT_EQ(Complaint(Settled(6, Constant(8)), 7),
            "column 'age' of settled moves has the value 8, above 7");
  EXPECT_EQ(Complaint(Settled(9, Constant(3))),
            "settled move 0 was seen 1 times and weighs 3 in 3 known of 2 epochs");
  EXPECT_EQ(Complaint(Settled(9, Constant(0))),
            "settled move 0 was seen 1 times and weighs 3 in 0 known of 2 epochs");
  EXPECT_EQ(Complaint(Bytes(13, Doubles(10, {1})) + Settled(0, "")),
            "settled moves have 3 sums of what was seen and 2 weights");
}

TEST_F(LedgerValidation, HeadersWithoutSoundTiersAreRefused) {
  EXPECT_THAT(HeaderComplaint(""), HasSubstr("2 to 255"));
  const std::string node0 = Bytes(6, Packed(1, {0}));
  EXPECT_THAT(HeaderComplaint(node0 + node0), HasSubstr("named twice"));
  EXPECT_THAT(HeaderComplaint(node0 + Bytes(6, "")), HasSubstr("no node"));
  EXPECT_THAT(HeaderComplaint(node0 + Bytes(6, Packed(1, {65536}))), HasSubstr("65536"));
  EXPECT_THAT(HeaderComplaint(node0 + Bytes(6, Packed(1, {1})) + Number(4, 1ull << 63)),
              HasSubstr("the ledger starts before the machine did"));
}

TEST_F(LedgerValidation, TotalsThatDoNotAddUpAreRefused) {
  EXPECT_THAT(ReadBytes(Preamble() + Header() + FrameOf(2, "") + FrameOf(3, Number(1, 2))).error,
              HasSubstr("finished with 2 epochs, 0 moves and 0 settled ones, but 1, 0 and 0"));
  EXPECT_THAT(ReadBytes(Preamble() + Header() + FrameOf(2, "") + FrameOf(2, "")).error,
              HasSubstr("epoch 0 is not in ascending order"));
}

}  // namespace ledger_test
}  // namespace tmprof
