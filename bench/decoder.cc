// SPDX-License-Identifier: Apache-2.0
// The two instruction decoders that Debian ships, on this program's own code: time per instruction
// with the operands' registers and whether each is read or written, which is what the clock sampler
// needs (docs/dependencies.md).

#include <Zydis/Zydis.h>
#include <benchmark/benchmark.h>
#include <capstone/capstone.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

extern "C" {
extern const std::uint8_t etext;  // end(3)
}

namespace {

// Code that starts at an instruction boundary, as the decoders need no more than that.
std::span<const std::uint8_t> Code() {
  const auto* start = reinterpret_cast<const std::uint8_t*>(&Code);
  constexpr std::ptrdiff_t kMaxBytes = 256 * 1024;
  return {start, static_cast<std::size_t>(std::min(&etext - start, kMaxBytes))};
}

void SetPerInstruction(benchmark::State& state, std::uint64_t instructions) {
  state.SetItemsProcessed(static_cast<std::int64_t>(instructions));
}

void ZydisOperands(benchmark::State& state) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::uint64_t instructions = 0;
  for (auto _ : state) {
    for (auto code = Code(); !code.empty();) {
      ZydisDecodedInstruction instruction;
      ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
      const bool ok = ZYAN_SUCCESS(
          ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands));
      benchmark::DoNotOptimize(operands);
      code = code.subspan(ok ? instruction.length : 1);
      ++instructions;
    }
  }
  SetPerInstruction(state, instructions);
}
BENCHMARK(ZydisOperands);

void ZydisLengths(benchmark::State& state) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::uint64_t instructions = 0;
  for (auto _ : state) {
    for (auto code = Code(); !code.empty();) {
      ZydisDecodedInstruction instruction;
      const bool ok = ZYAN_SUCCESS(
          ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(), &instruction));
      code = code.subspan(ok ? instruction.length : 1);
      ++instructions;
    }
  }
  SetPerInstruction(state, instructions);
}
BENCHMARK(ZydisLengths);

void Capstone(benchmark::State& state, cs_opt_value detail) {
  csh handle{};
  if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK) {
    state.SkipWithError("cs_open failed");
    return;
  }
  cs_option(handle, CS_OPT_DETAIL, detail);
  cs_insn* instruction = cs_malloc(handle);
  std::uint64_t instructions = 0;
  for (auto _ : state) {
    for (auto code = Code(); !code.empty();) {
      const std::uint8_t* at = code.data();
      std::size_t left = code.size();
      std::uint64_t address = 0;
      const bool ok = cs_disasm_iter(handle, &at, &left, &address, instruction);
      benchmark::DoNotOptimize(instruction->detail);
      code = code.subspan(ok ? instruction->size : 1);
      ++instructions;
    }
  }
  SetPerInstruction(state, instructions);
  cs_free(instruction, 1);
  cs_close(&handle);
}
void CapstoneOperands(benchmark::State& state) { Capstone(state, CS_OPT_ON); }
BENCHMARK(CapstoneOperands);
void CapstoneLengths(benchmark::State& state) { Capstone(state, CS_OPT_OFF); }
BENCHMARK(CapstoneLengths);

}  // namespace
