// SPDX-License-Identifier: Apache-2.0
// Bytes that are not what the writer wrote: flipped, cut, moved, invented.

#include <sys/resource.h>

#include <bit>
#include <fstream>
#include <limits>

#include "proto/frame.h"
#include "tests/folders.h"
#include "tests/proto/trace_fixture.h"

namespace tmprof {
namespace trace_damage_test {

using testing::AllOf;
using testing::HasSubstr;

// Computes the CRC-32 of IEEE 802.3 bit by bit, to check the other implementation.
std::uint32_t NaiveCrc32(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return ~crc;
}

std::string Le32(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string FrameByHand(std::uint32_t kind, std::uint32_t payload_bytes,
                        std::uint32_t message_bytes, std::string_view payload) {
  const std::string header = Le32(kind) + Le32(payload_bytes) + Le32(message_bytes);
  return header + Le32(NaiveCrc32(header + std::string(payload))) + std::string(payload);
}

// Lengths of the frames of a sound trace, by docs/trace-format.md.
std::vector<std::size_t> FrameStarts(const std::string& bytes) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 16; at < bytes.size();) {
    starts.push_back(at);
    std::uint32_t payload = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      payload |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + 4 + i]))
                 << (8 * i);
    }
    at += 16 + payload;
  }
  return starts;
}

class TraceDamage : public TraceTest {
 protected:
  ReadBack ReadBytes(std::string_view bytes) {
    WriteFile(path(), bytes);
    return ReadTrace(path());
  }
};

TEST_F(TraceDamage, FileIsLaidOutAsDocumented) {
  const std::string bytes = TraceBytes(path(), SmallEpochs());
  EXPECT_EQ(bytes.substr(0, 8), "\x89TMPROF\n");
  EXPECT_EQ(bytes.substr(8, 4), Le32(2));
  EXPECT_EQ(bytes.substr(12, 4), Le32(NaiveCrc32(bytes.substr(0, 12))));
  const std::vector<std::size_t> starts = FrameStarts(bytes);
  ASSERT_EQ(starts.size(), 5u);
  const std::uint32_t kinds[] = {1, 2, 2, 2, 3};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : bytes.size();
    EXPECT_EQ(bytes.substr(starts[i], 4), Le32(kinds[i]));
    EXPECT_EQ(bytes.substr(starts[i] + 12, 4),
              Le32(NaiveCrc32(bytes.substr(starts[i], 12) +
                              bytes.substr(starts[i] + 16, end - starts[i] - 16))));
    EXPECT_EQ(bytes.substr(starts[i] + 16, 4), "\x28\xb5\x2f\xfd") << "not a zstd frame";
  }
}

TEST_F(TraceDamage, EveryFlippedBitIsAnErrorThatNamesFileAndOffset) {
  const std::string sound = TraceBytes(path(), SmallEpochs());
  const std::vector<std::size_t> starts = FrameStarts(sound);
  for (std::size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    const std::size_t byte = bit / 8;
    std::string bytes = sound;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit % 8));
    const ReadBack back = ReadBytes(bytes);
    ASSERT_THAT(back.error, AllOf(HasSubstr(path().string()), HasSubstr(" at byte offset ")))
        << "bit " << bit;
    ASSERT_FALSE(back.finished) << "bit " << bit;
    if (byte < 8) {
      ASSERT_THAT(back.error, HasSubstr("not a tmprof trace"));
      continue;
    }
    // The damaged frame is the one that is named, and what came before it was read.
    std::size_t damaged = starts.size();
    while (damaged > 0 && starts[damaged - 1] > byte) --damaged;
    if (damaged == 0) continue;
    const std::string place = "frame at byte offset " + std::to_string(starts[damaged - 1]) + ":";
    ASSERT_THAT(back.error, HasSubstr(place)) << "bit " << bit;
    const std::vector<EpochProfile> epochs = SmallEpochs();
    const std::size_t intact = damaged >= 2 ? damaged - 2 : 0;
    ASSERT_EQ(back.epochs, std::vector(epochs.begin(), epochs.begin() + intact)) << "bit " << bit;
  }
}

TEST_F(TraceDamage, TraceCutAnywhereIsAnErrorOrUnfinished) {
  const std::string sound = TraceBytes(path(), SmallEpochs());
  const std::vector<std::size_t> starts = FrameStarts(sound);
  for (std::size_t length = 0; length < sound.size(); ++length) {
    const ReadBack back = ReadBytes(std::string_view(sound).substr(0, length));
    ASSERT_FALSE(back.finished) << length;
    std::size_t whole = 0;  // frames that are there completely
    while (whole + 1 < starts.size() && starts[whole + 1] <= length) ++whole;
    const bool between_frames = whole > 0 && starts[whole] == length;
    ASSERT_EQ(back.error.empty(), between_frames) << length << ": " << back.error;
    ASSERT_EQ(back.epochs.size(), whole > 0 ? whole - 1 : 0) << length;
  }
}

TEST_F(TraceDamage, FramesTakenOutTwiceOrOutOfOrderAreAnError) {
  const std::string sound = TraceBytes(path(), SmallEpochs());
  const std::vector<std::size_t> starts = FrameStarts(sound);
  const auto frame = [&](std::size_t i) {
    return sound.substr(starts[i],
                        (i + 1 < starts.size() ? starts[i + 1] : sound.size()) - starts[i]);
  };
  const std::string head = sound.substr(0, starts[1]);
  const auto error_of = [&](const std::string& bytes) { return ReadBytes(bytes).error; };
  EXPECT_THAT(error_of(head + frame(1) + frame(2) + frame(4)),
              HasSubstr("finished with 3 epochs and 6 page records, but 2 and 6 are here"));
  EXPECT_THAT(error_of(head + frame(1) + frame(1)), HasSubstr("epoch 0 is not in ascending order"));
  EXPECT_THAT(error_of(head + frame(2)), HasSubstr("repeats mappings that it did not have before"));
  EXPECT_THAT(error_of(head + frame(0)), HasSubstr("second header"));
  EXPECT_THAT(error_of(sound.substr(0, 16) + frame(1)), HasSubstr("it is not the header"));
  EXPECT_THAT(error_of(sound + frame(4)), HasSubstr("follows the end of the trace"));
  EXPECT_THAT(error_of(sound + "x"),
              HasSubstr("frame at byte offset " + std::to_string(sound.size())));
}

TEST_F(TraceDamage, ForeignFilesAreNotTraces) {
  EXPECT_THAT(ReadBytes("").error, HasSubstr("the file is empty"));
  EXPECT_THAT(ReadBytes("PERFILE2 and more than sixteen bytes").error,
              HasSubstr("not a tmprof trace: wrong magic number at byte offset 0"));
  EXPECT_THAT(ReadBytes("x").error, HasSubstr("not a tmprof trace"));
  EXPECT_THAT(ReadBytes("\x89TM").error, HasSubstr("cut at byte offset 3"));
}

TEST_F(TraceDamage, VersionOfTheFutureSaysWhichOneIsUnderstood) {
  const ReadBack back = ReadBytes(EncodePreamble(kTraceFormat.magic, 3) + FrameOf(77, "whatever"));
  EXPECT_THAT(back.error,
              AllOf(HasSubstr(path().string()),
                    HasSubstr("format version 3 at byte offset 8; this tmprof understands "
                              "versions 1 to 2"),
                    HasSubstr("newer tmprof")));
  EXPECT_THAT(ReadBytes(EncodePreamble(kTraceFormat.magic, 0)).error,
              HasSubstr("format version 0"));
}

// tests/proto/golden_test.cc tests what a whole one holds.
TEST_F(TraceDamage, Version1IsCutWhereItIsDamaged) {
  const std::string bytes = ReadFile(TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.data");
  const std::vector<std::size_t> frames = FrameStarts(bytes);
  ASSERT_EQ(frames.size(), 4u) << "header, two epochs, end";
  const ReadBack whole = ReadBytes(bytes);
  ASSERT_EQ(whole.error, "");
  ASSERT_EQ(whole.epochs.size(), 2u);
  std::string damaged = bytes;
  damaged[frames[2] + 20] ^= 1;
  const ReadBack back = ReadBytes(damaged);
  EXPECT_THAT(back.error, HasSubstr(std::to_string(frames[2])));
  EXPECT_EQ(back.epochs, std::vector<EpochProfile>{whole.epochs[0]});
}

TEST_F(TraceDamage, ErrorStaysTheSame) {
  WriteFile(path(), EmptyTrace() + "cut");
  Result<TraceReader> reader = TraceReader::Open(path());
  ASSERT_TRUE(reader);
  EpochProfile epoch;
  const Result<bool> first = reader->Next(epoch);
  const Result<bool> second = reader->Next(epoch);
  ASSERT_FALSE(first);
  ASSERT_FALSE(second);
  EXPECT_EQ(first.error().Message(), second.error().Message());
  EXPECT_EQ(first.error().ExitStatus(), 2);
}

TEST_F(TraceDamage, OutcomeThatTellsAPartOfAFilterOrNoShareIsRefused) {
  const auto error_of = [&](const std::string& filtered) {
    return ReadBytes(EmptyTrace() + FrameOf(3, Bytes(3, filtered))).error;
  };
  const auto share = [](double of_a_cpu) {
    std::string bytes = Varint(12 << 3 | 1);  // a field of 64 bits
    for (int i = 0; i < 64; i += 8)
      bytes.push_back(static_cast<char>(std::bit_cast<std::uint64_t>(of_a_cpu) >> i));
    return bytes;
  };
  const std::string processes = Number(10, 3);
  const std::string pages = Number(11, 5);
  EXPECT_EQ(error_of(""), "");
  EXPECT_EQ(error_of(processes + pages + share(0)), "");
  for (const std::string& part : {processes, pages, share(0.5), processes + pages,
                                  processes + share(0.5), pages + share(0.5)}) {
    EXPECT_THAT(error_of(part), HasSubstr("a part of what the process filter left out is missing"));
  }
  for (const double wrong :
       {-0.5, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(error_of(processes + pages + share(wrong)), HasSubstr("of a CPU"));
  }
}

TEST_F(TraceDamage, HiddenMissesAreRefusedUnlessTheyAreOfMisses) {
  const auto constant = [](int column, std::uint64_t value) {
    return Bytes(column, Number(1, 1) + Number(2, value));
  };
  std::string columns;  // columns of one page, with loads and stores
  for (int column = 3; column <= 13; ++column) columns += constant(column, 1);
  const auto error_of = [&](const std::string& more) {
    return ReadBytes(EmptyTrace() +
                     FrameOf(2, Bytes(6, Number(1, 0)) +
                                    Bytes(7, Packed(1, {0}) + Packed(2, {1}) + columns + more)))
        .error;
  };
  EXPECT_EQ(error_of(constant(14, 2) + constant(26, 2)), "");
  EXPECT_THAT(error_of(constant(26, 0)),
              HasSubstr("hidden misses without the misses that they are of"));
  EXPECT_THAT(error_of(constant(14, 2) + constant(26, 3)),
              HasSubstr("record 0 has 3 hidden misses in 2 misses"));
}

TEST_F(TraceDamage, FrameKindOfALaterVersionIsSkipped) {
  std::string bytes = EmptyTrace() + FrameOf(77, "an index, say");
  bytes += FrameOf(3, Number(1, 0));
  const ReadBack back = ReadBytes(bytes);
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(back.finished);
}

// Peak memory may not follow what a length field claims.
class TraceHostile : public TraceDamage {
 protected:
  // 5 sets the peak to what is resident now (proc_pid_clear_refs(5)): other cases of this process
  // may have had more.
  static long FreshPeakKiB() {
    std::ofstream("/proc/self/clear_refs") << 5;
    return PeakKiB();
  }
  static long PeakKiB() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
};

TEST_F(TraceHostile, HugeLengthsAreRefusedWithoutTheMemoryTheyClaim) {
  const long before = FreshPeakKiB();
  const std::string frame_of_16 = "frame at byte offset " + std::to_string(EmptyTrace().size());
  const struct {
    std::uint32_t payload_bytes;
    std::uint32_t message_bytes;
    const char* complaint;
  } kCases[] = {
      {0xffffffff, 100, "4294967295 bytes announced, 7 left"},
      {0x7fffffff, 0x3fffffff, "2147483647 bytes announced, 7 left"},
      {7, 0xffffffff, "7 bytes cannot hold a message of 4294967295"},
      {7, 0x40000000, "7 bytes cannot hold a message of 1073741824"},
      {0xffffffff, 0x40000001, "cannot hold a message of 1073741825"},
      {7, (1 << 20) + 7 * 64 + 1, "cannot hold a message of 1049025"},
      {7, (1 << 20) + 7 * 64, "cannot be decompressed"},
      {7, 0, "cannot be decompressed"},
  };
  for (const auto& [payload_bytes, message_bytes, complaint] : kCases) {
    const ReadBack back =
        ReadBytes(EmptyTrace() + FrameByHand(2, payload_bytes, message_bytes, "payload"));
    EXPECT_THAT(back.error, AllOf(HasSubstr(frame_of_16), HasSubstr(complaint)));
  }
  EXPECT_LT(PeakKiB() - before, 64 * 1024);
}

TEST_F(TraceHostile, MessageOfAnotherLengthThanAnnouncedIsRefused) {
  std::string frame = FrameOf(2, std::string(100, 'x'));
  const std::string payload = frame.substr(16);
  const auto error_with = [&](std::uint32_t message_bytes) {
    return ReadBytes(EmptyTrace() + FrameByHand(2, static_cast<std::uint32_t>(payload.size()),
                                                message_bytes, payload))
        .error;
  };
  EXPECT_THAT(error_with(99), HasSubstr("cannot be decompressed"));
  EXPECT_THAT(error_with(101), HasSubstr("decompresses to 100 bytes instead of 101"));
}

TEST_F(TraceHostile, FewBytesCannotClaimManyRecords) {
  const long before = FreshPeakKiB();
  std::string constants;
  for (int column = 3; column <= 11; ++column) {
    constants += Bytes(column, Number(1, 1) + Number(2, 1));
  }
  const auto epoch_of = [&](std::uint64_t records) {
    return Bytes(6, Number(1, 0)) + Bytes(7, Packed(1, {0}) + Packed(2, {records}) + constants);
  };
  EXPECT_EQ(ReadBytes(EmptyTrace() + FrameOf(2, epoch_of(1 << 18))).error, "");
  for (const std::uint64_t records : {(1ull << 18) + 1, 1ull << 40, ~0ull}) {
    EXPECT_THAT(ReadBytes(EmptyTrace() + FrameOf(2, epoch_of(records))).error,
                HasSubstr("more than 262144 page records in a message of"));
  }
  EXPECT_LT(PeakKiB() - before, 128 * 1024);
}

TEST_F(TraceHostile, EmptySubMessagesAreRefusedBeforeTheyAreDecoded) {
  constexpr std::size_t kCount = 1 << 20;
  const auto repeated = [](int field) {
    std::string all;
    const std::string empty = Bytes(field, "");
    for (std::size_t i = 0; i < kCount; ++i) all += empty;
    return all;
  };
  const long before = FreshPeakKiB();
  const std::string sources = repeated(5);
  EXPECT_THAT(ReadBytes(EmptyTrace() + FrameOf(2, sources)).error,
              AllOf(HasSubstr("frame at byte offset " + std::to_string(EmptyTrace().size())),
                    HasSubstr("the epoch would take 256 MiB of memory")));
  const std::string preamble = EncodePreamble(kTraceFormat.magic, kTraceFormat.version);
  EXPECT_THAT(ReadBytes(preamble + FrameOf(1, repeated(11))).error,
              HasSubstr("the header would take 256 MiB of memory"));
  EXPECT_LT(PeakKiB() - before, 64 * 1024);
}

// An epoch of one target with 2^18 pages from `first` on, each looked at once and idle.
std::string IdleEpoch(std::uint64_t index, std::uint64_t first) {
  constexpr std::uint64_t kPages = 1 << 18;
  std::string columns = Bytes(3, Number(1, 3) + Packed(6, {first, 0}) + Packed(7, {1, kPages - 1}));
  for (int column = 4; column <= 11; ++column) {
    columns += Bytes(column, Number(1, 1) + Number(2, column <= 5 ? 1 : 0));
  }
  return Number(1, index) + Bytes(6, Number(1, 0)) +
         Bytes(7, Packed(1, {0}) + Packed(2, {kPages}) + columns);
}

std::uint64_t CountEpochs(const std::filesystem::path& path, std::string& error) {
  Result<TraceReader> reader = TraceReader::Open(path);
  EpochProfile epoch;
  std::uint64_t epochs = 0;
  while (reader) {
    const Result<bool> more = reader->Next(epoch);
    if (!more) error = more.error().Message();
    if (!more || !*more) break;
    ++epochs;
  }
  return epochs;
}

TEST_F(TraceHostile, FewBytesCannotTellOfManyPages) {
  std::string other_pages = EmptyTrace();
  std::string same_pages = EmptyTrace();
  for (std::uint64_t i = 0; i < 40; ++i) {
    other_pages += FrameOf(2, IdleEpoch(i, i << 20));
    same_pages += FrameOf(2, IdleEpoch(i, 0));
  }
  std::string error;
  WriteFile(path(), same_pages);
  EXPECT_EQ(CountEpochs(path(), error), 40u);
  EXPECT_EQ(error, "");
  WriteFile(path(), other_pages);
  EXPECT_LE(CountEpochs(path(), error), 4u) << "1 Mi pages";
  EXPECT_THAT(error, HasSubstr("tells of more pages than its"));
}

}  // namespace trace_damage_test
}  // namespace tmprof
