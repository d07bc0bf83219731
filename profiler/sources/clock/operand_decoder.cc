// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/operand_decoder.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::size_t kMaxInstructionBytes = 15;  // Intel SDM vol. 2, 2.3.11
// Bytes swept to find the predecessor: sweeps from every byte fall into step after a few
// instructions, so the true boundaries collect the most sweeps.
constexpr std::size_t kSweepBytes = 96;

const ZydisDecoder& Decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder made;
    TMPROF_CHECK(
        ZYAN_SUCCESS(ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)));
    return made;
  }();
  return decoder;
}

struct Instruction {
  ZydisDecodedInstruction info;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;

  std::span<const ZydisDecodedOperand> used_operands() const {
    return std::span(operands).first(info.operand_count);
  }
};

std::optional<Instruction> Decode(std::span<const std::uint8_t> code) {
  Instruction instruction;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&Decoder(), code.data(), code.size(), &instruction.info,
                                           instruction.operands.data()))) {
    return std::nullopt;
  }
  return instruction;
}

std::optional<RegisterIndex> GeneralRegister(ZydisRegister reg) {
  if (reg == ZYDIS_REGISTER_NONE) return std::nullopt;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64) return std::nullopt;
  return static_cast<RegisterIndex>(ZydisRegisterGetId(whole));
}

bool IsVector(ZydisRegister reg) {
  const ZydisRegisterClass kind = ZydisRegisterGetClass(reg);
  return kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM || kind == ZYDIS_REGCLASS_ZMM;
}

bool Writes(const Instruction& instruction, std::optional<RegisterIndex> reg) {
  if (!reg) return false;
  return std::ranges::any_of(instruction.used_operands(), [&](const ZydisDecodedOperand& operand) {
    return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
           (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
           GeneralRegister(operand.reg.value) == reg;
  });
}

bool IsRepeatedString(const Instruction& instruction) {
  constexpr ZydisInstructionAttributes kRepeat =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  return instruction.info.meta.category == ZYDIS_CATEGORY_STRINGOP &&
         (instruction.info.attributes & kRepeat);
}

// Memory named by the instruction without the program waiting for it.
bool OnlyNamesMemory(const ZydisDecodedInstruction& info) {
  return info.mnemonic == ZYDIS_MNEMONIC_LEA || info.meta.category == ZYDIS_CATEGORY_NOP ||
         info.meta.category == ZYDIS_CATEGORY_WIDENOP ||
         info.meta.category == ZYDIS_CATEGORY_PREFETCH;
}

bool EndsFallThrough(ZydisInstructionCategory category) {
  return category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_RET ||
         category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_INTERRUPT ||
         category == ZYDIS_CATEGORY_SYSCALL;
}

// Compares that may be fused with a following conditional branch (Intel Optimization Reference
// Manual, 3.4.2.2; AMD fuses a subset).
bool FusesWithBranch(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_INC:
    case ZYDIS_MNEMONIC_DEC:
      return true;
    default:
      return false;
  }
}

MemoryOperand OperandOf(const ZydisDecodedOperand& operand, const ZydisDecodedInstruction& info,
                        std::uint64_t next_ip) {
  MemoryOperand memory;
  memory.base = GeneralRegister(operand.mem.base);
  memory.index = GeneralRegister(operand.mem.index);
  memory.scale = std::max<std::uint8_t>(operand.mem.scale, 1);
  memory.displacement = operand.mem.disp.has_displacement ? operand.mem.disp.value : 0;
  if (operand.mem.base == ZYDIS_REGISTER_RIP || operand.mem.base == ZYDIS_REGISTER_EIP) {
    memory.displacement += static_cast<std::int64_t>(next_ip);
  }
  memory.wraps_at_32_bits = info.address_width == 32;
  memory.is_store = operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
  return memory;
}

// The culprit if `instruction`, whose successor is at `next_ip`, held up the program. `retired`:
// the sampled registers are those after it.
Culprit Examine(const Instruction& instruction, std::uint64_t next_ip, bool retired) {
  Culprit culprit{.outcome = OperandOutcome::kNoOperand, .first = {}, .second = {}};
  if (OnlyNamesMemory(instruction.info)) return culprit;
  for (const ZydisDecodedOperand& operand : instruction.used_operands()) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (operand.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
    if (IsVector(operand.mem.index)) {
      culprit.outcome = OperandOutcome::kVectorIndex;
      return culprit;
    }
    if (operand.mem.segment == ZYDIS_REGISTER_FS || operand.mem.segment == ZYDIS_REGISTER_GS) {
      culprit.outcome = OperandOutcome::kThreadLocal;
      return culprit;
    }
    const bool is_stack = operand.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
                          (instruction.info.meta.category == ZYDIS_CATEGORY_PUSH ||
                           instruction.info.meta.category == ZYDIS_CATEGORY_POP);
    // push [m] and pop [m] touch the stack as well; the named operand is the one to wait for.
    if (is_stack && culprit.outcome == OperandOutcome::kAddress) continue;
    MemoryOperand memory = OperandOf(operand, instruction.info, next_ip);
    if (is_stack) {
      // rsp has moved: a push wrote to where it points now, a pop read just below.
      if (!memory.is_store) memory.displacement -= operand.size / 8;
    } else if (retired && (Writes(instruction, memory.base) || Writes(instruction, memory.index))) {
      culprit.outcome = OperandOutcome::kClobbered;
      return culprit;
    }
    if (culprit.outcome == OperandOutcome::kAddress) {
      culprit.second = memory;
      break;
    }
    culprit.outcome = OperandOutcome::kAddress;
    culprit.first = memory;
  }
  return culprit;
}

// Offsets into `before` of the last instructions before its end, nearest first; stops where the
// code cannot have been reached by falling through.
struct Predecessor {
  std::size_t offset = 0;
  Instruction instruction;
};
std::vector<Predecessor> FindPredecessors(std::span<const std::uint8_t> before,
                                          std::size_t wanted) {
  const std::size_t window = std::min(before.size(), kSweepBytes);
  const auto code = before.last(window);
  // Per start byte: where the instruction ends (0: not an instruction), and how many sweeps reach
  // the byte.
  std::array<std::size_t, kSweepBytes> end{};
  std::array<std::uint32_t, kSweepBytes + 1> sweeps;
  sweeps.fill(1);
  for (std::size_t at = 0; at < window; ++at) {
    ZydisDecodedInstruction info;
    const auto rest = code.subspan(at, std::min(kMaxInstructionBytes, window - at));
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&Decoder(), nullptr, rest.data(), rest.size(), &info))) {
      continue;
    }
    end[at] = at + info.length;
    sweeps[end[at]] += sweeps[at];
  }
  std::vector<Predecessor> found;
  for (std::size_t current = window; found.size() < wanted;) {
    std::optional<std::size_t> best;
    const std::size_t earliest = current - std::min(current, kMaxInstructionBytes);
    for (std::size_t at = earliest; at < current; ++at) {
      if (end[at] == current && (!best || sweeps[at] > sweeps[*best])) best = at;
    }
    if (!best) break;
    const auto instruction = Decode(code.subspan(*best, current - *best));
    if (!instruction) break;
    found.push_back({before.size() - window + *best, *instruction});
    current = *best;
  }
  return found;
}

// True if a direct branch within the bytes lands in (after, until].
bool BranchLandsIn(std::span<const std::uint8_t> code, std::uint64_t address, std::uint64_t after,
                   std::uint64_t until) {
  for (std::size_t at = 0; at < code.size();) {
    const auto instruction =
        Decode(code.subspan(at, std::min(kMaxInstructionBytes, code.size() - at)));
    if (!instruction) {
      ++at;
      continue;
    }
    at += instruction->info.length;
    const auto category = instruction->info.meta.category;
    if (category != ZYDIS_CATEGORY_COND_BR && category != ZYDIS_CATEGORY_UNCOND_BR) continue;
    const ZydisDecodedOperand& operand = instruction->operands[0];
    if (operand.type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !operand.imm.is_relative) continue;
    const std::uint64_t target = address + at + static_cast<std::uint64_t>(operand.imm.value.s);
    if (target > after && target <= until) return true;
  }
  return false;
}

}  // namespace

const char* Name(OperandOutcome outcome) {
  switch (outcome) {
    case OperandOutcome::kAddress:
      return "address";
    case OperandOutcome::kNoOperand:
      return "no_operand";
    case OperandOutcome::kClobbered:
      return "clobbered";
    case OperandOutcome::kVectorIndex:
      return "vector_index";
    case OperandOutcome::kThreadLocal:
      return "thread_local";
    case OperandOutcome::kBranchTarget:
      return "branch_target";
    case OperandOutcome::kAfterTransfer:
      return "after_transfer";
    case OperandOutcome::kUndecodable:
      return "undecodable";
  }
  return "unknown outcome";
}

std::uint64_t MemoryOperand::Address(const GeneralRegisters& registers) const {
  std::uint64_t address = static_cast<std::uint64_t>(displacement);
  if (base) address += registers[*base];
  if (index) address += registers[*index] * scale;
  return wraps_at_32_bits ? static_cast<std::uint32_t>(address) : address;
}

Culprit FindCulprit(std::span<const std::uint8_t> before, std::span<const std::uint8_t> from,
                    std::uint64_t ip) {
  const auto at_ip = Decode(from);
  if (!at_ip) return {};
  if (IsRepeatedString(*at_ip)) return Examine(*at_ip, ip + at_ip->info.length, false);

  constexpr std::size_t kMaxSkid = 2;
  const std::vector<Predecessor> predecessors = FindPredecessors(before, kMaxSkid);
  if (predecessors.empty()) return {};
  const Predecessor& last = predecessors.front();
  const auto category = last.instruction.info.meta.category;
  if (EndsFallThrough(category)) {
    return {.outcome = OperandOutcome::kAfterTransfer, .first = {}, .second = {}};
  }
  const bool fused = category == ZYDIS_CATEGORY_COND_BR && predecessors.size() == kMaxSkid &&
                     FusesWithBranch(predecessors[1].instruction.info.mnemonic);
  const Predecessor& chosen = fused ? predecessors[1] : last;
  const std::uint64_t start = ip - before.size() + chosen.offset;
  if (BranchLandsIn(before, ip - before.size(), start, ip) || BranchLandsIn(from, ip, start, ip)) {
    return {.outcome = OperandOutcome::kBranchTarget, .first = {}, .second = {}};
  }
  return Examine(chosen.instruction, start + chosen.instruction.info.length, true);
}

}  // namespace tmprof
