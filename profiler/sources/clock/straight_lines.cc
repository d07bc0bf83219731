// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/straight_lines.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/median.h"

namespace tmprof {
namespace {

using Samples = std::map<std::uint64_t, std::uint64_t>;
using StallParts = std::map<std::uint64_t, StraightLines::Parts>;

constexpr std::size_t kLineCodeBytes = 512;
// A line of fewer instructions that touch no memory, and of fewer instructions at all, does not
// tell what executing takes.
constexpr std::size_t kFewestPlain = 2;
constexpr std::size_t kFewestOfAll = 4;
// The time of a load that a private cache serves, in that of an instruction that touches no memory:
// some 16 cycles of the L2 (Intel Optimization Reference Manual, Golden Cove) by a third of one. In
// a copy, by the median of loads and stores that wait for one another.
constexpr double kCacheHit = 48;
constexpr double kCacheHitOfCopy = 4;
// Fewer deviations may be chance.
constexpr double kDeviations = 2;

struct LineInstruction {
  std::uint64_t end;
  bool is_branch;
  bool touches_memory;
  bool may_fuse;             // with a conditional branch behind it, into one
  std::uint64_t sampled_at;  // its samples are at this address
};

double Mean(const std::vector<double>& values) {
  return std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
}

bool EndsLine(ZydisInstructionCategory category) {
  return category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_RET ||
         category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_INTERRUPT ||
         category == ZYDIS_CATEGORY_SYSCALL;
}

class SampledCode {
 public:
  SampledCode(const Samples& samples, const ReadCode& read) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    std::vector<std::uint8_t> bytes(kLineCodeBytes);
    for (const auto& [address, count] : samples) {
      if (instructions_.contains(address)) continue;
      const std::size_t got = read(address, bytes);
      for (std::size_t at = 0; at < got && !instructions_.contains(address + at);) {
        ZydisDecodedInstruction info;
        std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes.data() + at, got - at, &info,
                                                 operands.data())))
          break;
        Add(address + at, info, std::span(operands).first(info.operand_count));
        if (EndsLine(info.meta.category)) break;
        at += info.length;
      }
    }
  }

  StallParts Judge(const Samples& samples) {
    StallParts parts;
    std::vector<LineInstruction*> line;
    const auto end_line = [&] {
      JudgeLine(line, samples, parts);
      line.clear();
    };
    for (auto& [address, instruction] : instructions_) {
      if (!line.empty() && (line.back()->end != address || targets_.contains(address))) end_line();
      if (instruction.is_branch) {
        if (!line.empty() && line.back()->may_fuse) line.back()->sampled_at = instruction.end;
        end_line();
        continue;
      }
      line.push_back(&instruction);
    }
    end_line();
    return parts;
  }

 private:
  void Add(std::uint64_t here, const ZydisDecodedInstruction& info,
           std::span<const ZydisDecodedOperand> operands) {
    const bool is_branch =
        info.meta.category == ZYDIS_CATEGORY_COND_BR || EndsLine(info.meta.category);
    bool touches_memory = false;
    for (const ZydisDecodedOperand& operand : operands) {
      touches_memory |= operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
                        operand.mem.type == ZYDIS_MEMOP_TYPE_MEM &&
                        info.meta.category != ZYDIS_CATEGORY_WIDENOP;
      ZyanU64 target = 0;
      if (is_branch && operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
          ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&info, &operand, here, &target)))
        targets_.insert(target);
    }
    const std::uint64_t end = here + info.length;
    instructions_.try_emplace(here,
                              LineInstruction{.end = end,
                                              .is_branch = is_branch,
                                              .touches_memory = touches_memory,
                                              .may_fuse = info.mnemonic == ZYDIS_MNEMONIC_CMP ||
                                                          info.mnemonic == ZYDIS_MNEMONIC_TEST,
                                              .sampled_at = end});
  }

  // Samples at the first address of a line are of no instruction of it.
  void JudgeLine(std::span<LineInstruction* const> line, const Samples& samples,
                 StallParts& parts) const {
    const auto samples_of = [&](const LineInstruction& instruction) {
      const auto found = samples.find(instruction.sampled_at);
      return found == samples.end() ? 0.0 : static_cast<double>(found->second);
    };
    // The code after the line's last instruction may have been reached from elsewhere.
    if (!line.empty() && targets_.contains(line.back()->sampled_at))
      line = line.first(line.size() - 1);
    std::vector<double> all;
    std::vector<double> plain;
    for (const LineInstruction* each : line) {
      all.push_back(samples_of(*each));
      if (!each->touches_memory) plain.push_back(all.back());
    }
    if (plain.size() < kFewestPlain && all.size() < kFewestOfAll) return;
    const bool by_plain = plain.size() >= kFewestPlain;
    // One instruction waits for all the lines that a copy loads or stores.
    const double executing = by_plain ? Mean(plain) : Median(all);
    const auto told_by = static_cast<double>(by_plain ? plain.size() : all.size());
    for (const LineInstruction* each : line) {
      const double count = samples_of(*each);
      if (!each->touches_memory || count == 0) continue;
      const double excess = count - executing;
      const double noise = std::sqrt(count + executing / told_by);
      if (excess <= kDeviations * noise) continue;
      const double cached = (executing + 1 / told_by) * (by_plain ? kCacheHit : kCacheHitOfCopy);
      parts[each->sampled_at] = {.stalls = excess / count,
                                 .misses = std::max(0.0, count - cached) / count};
    }
  }

  std::map<std::uint64_t, LineInstruction> instructions_;
  std::set<std::uint64_t> targets_;  // targets of direct branches
};

}  // namespace

StraightLines::StraightLines(const Samples& samples, const ReadCode& read)
    : parts_(SampledCode(samples, read).Judge(samples)) {}

}  // namespace tmprof
