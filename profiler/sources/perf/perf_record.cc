// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/perf_record.h"

#include <asm/perf_regs.h>

#include <bit>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace tmprof {
namespace {

// x86 encoding order of the general registers, as numbers of perf's register file.
constexpr std::array<int, 16> kPerfRegisterOf = {
    PERF_REG_X86_AX,  PERF_REG_X86_CX,  PERF_REG_X86_DX,  PERF_REG_X86_BX,
    PERF_REG_X86_SP,  PERF_REG_X86_BP,  PERF_REG_X86_SI,  PERF_REG_X86_DI,
    PERF_REG_X86_R8,  PERF_REG_X86_R9,  PERF_REG_X86_R10, PERF_REG_X86_R11,
    PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15};

constexpr std::uint64_t MaskOfRegisters() {
  std::uint64_t mask = std::uint64_t{1} << PERF_REG_X86_IP;
  for (const int number : kPerfRegisterOf) mask |= std::uint64_t{1} << number;
  return mask;
}

// Takes words off the front; once something did not fit, everything after it fails too.
class WordReader {
 public:
  explicit WordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  std::uint64_t Next() {
    std::uint64_t word = 0;
    if (bytes_.size() < sizeof word) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&word, bytes_.data(), sizeof word);
    bytes_ = bytes_.subspan(sizeof word);
    return word;
  }
  // Two 32-bit halves, the first in memory first.
  std::array<std::int32_t, 2> NextPair() {
    return std::bit_cast<std::array<std::int32_t, 2>>(Next());
  }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

MonotonicTime TimeOf(std::uint64_t nanoseconds) {
  return MonotonicTime(std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds)));
}

// perf_event_open(2), "PERF_RECORD_SAMPLE": the fields in this order, each only if asked for.
std::optional<PerfRecord> ParseSample(WordReader words, std::uint16_t misc,
                                      std::uint64_t sample_type) {
  PerfSample sample;
  sample.kernel_mode = (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
  if (sample_type & PERF_SAMPLE_IP) sample.ip = words.Next();
  const auto [process, thread] = words.NextPair();
  sample.process = Pid(process);
  sample.thread = Tid(thread);
  sample.time = TimeOf(words.Next());
  if (sample_type & PERF_SAMPLE_ADDR) sample.address = words.Next();
  if (sample_type & PERF_SAMPLE_REGS_USER) {
    const std::uint64_t abi = words.Next();
    if (abi != PERF_SAMPLE_REGS_ABI_NONE) {
      std::array<std::uint64_t, 64> file{};
      for (std::uint64_t left = kUserRegisterMask; left != 0; left &= left - 1) {
        file[static_cast<std::size_t>(std::countr_zero(left))] = words.Next();
      }
      if (abi == PERF_SAMPLE_REGS_ABI_64) {
        UserRegisters& registers = sample.registers.emplace();
        for (std::size_t i = 0; i < kPerfRegisterOf.size(); ++i) {
          registers.general[i] = file[static_cast<std::size_t>(kPerfRegisterOf[i])];
        }
        registers.ip = file[PERF_REG_X86_IP];
      }
    }
  }
  if (sample_type & PERF_SAMPLE_DATA_SRC) sample.data_source = words.Next();
  if (!words.ok()) return std::nullopt;
  return sample;
}

// Records other than samples end with {pid, tid, time} of sample_id_all.
std::optional<MonotonicTime> TrailingTime(std::span<const std::byte> body) {
  constexpr std::size_t kTrailerBytes = 16;
  if (body.size() < kTrailerBytes) return std::nullopt;
  return TimeOf(WordReader(body.last(sizeof(std::uint64_t))).Next());
}

}  // namespace

const std::uint64_t kUserRegisterMask = MaskOfRegisters();

std::optional<PerfRecord> ParsePerfRecord(std::span<const std::byte> record,
                                          std::uint64_t sample_type) {
  TMPROF_CHECK((sample_type & ~kSupportedSampleType) == 0);
  TMPROF_CHECK((sample_type & PERF_SAMPLE_TID) && (sample_type & PERF_SAMPLE_TIME));
  perf_event_header header{};
  if (record.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, record.data(), sizeof header);
  if (header.size != record.size()) return std::nullopt;
  const std::span<const std::byte> body = record.subspan(sizeof header);
  WordReader words(body);
  switch (header.type) {
    case PERF_RECORD_SAMPLE:
      return ParseSample(words, header.misc, sample_type);
    case PERF_RECORD_LOST: {
      words.Next();  // event id
      const PerfLost lost{words.Next()};
      if (!words.ok()) return std::nullopt;
      return lost;
    }
    case PERF_RECORD_LOST_SAMPLES: {
      const PerfLost lost{words.Next()};
      if (!words.ok()) return std::nullopt;
      return lost;
    }
    case PERF_RECORD_THROTTLE:
      return PerfThrottle{};
    case PERF_RECORD_FORK: {
      const auto [process, parent] = words.NextPair();
      const auto [thread, parent_thread] = words.NextPair();
      if (!words.ok()) return std::nullopt;
      return PerfFork{Pid(process), Pid(parent), Tid(thread), Tid(parent_thread)};
    }
    case PERF_RECORD_EXIT: {
      const auto [process, parent] = words.NextPair();
      const auto [thread, parent_thread] = words.NextPair();
      if (!words.ok()) return std::nullopt;
      return PerfExit{Pid(process), Tid(thread)};
    }
    case PERF_RECORD_COMM: {
      if (!(header.misc & PERF_RECORD_MISC_COMM_EXEC)) return PerfOther{};
      const auto [process, thread] = words.NextPair();
      const auto time = TrailingTime(body);
      if (!words.ok() || !time) return std::nullopt;
      return PerfCodeChange{Pid(process), *time};
    }
    case PERF_RECORD_MMAP2: {
      // Data mappings are not recorded (attr.mmap_data is 0), so this one is executable.
      const auto [process, thread] = words.NextPair();
      const auto time = TrailingTime(body);
      if (!words.ok() || !time) return std::nullopt;
      return PerfCodeChange{Pid(process), *time};
    }
    default:
      return PerfOther{};
  }
}

}  // namespace tmprof
