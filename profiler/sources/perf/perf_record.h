// SPDX-License-Identifier: Apache-2.0
// Records of perf_event_open(2) rings, decoded. Pure: bytes in, values out.

#pragma once

#include <linux/perf_event.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/units.h"

namespace tmprof {

// General registers in x86 encoding order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
using GeneralRegisters = std::array<std::uint64_t, 16>;

// The user-mode state that PERF_SAMPLE_REGS_USER with kUserRegisterMask delivers.
struct UserRegisters {
  GeneralRegisters general{};
  std::uint64_t ip = 0;
};

// perf_event_attr.sample_regs_user for UserRegisters (arch/x86/include/uapi/asm/perf_regs.h).
extern const std::uint64_t kUserRegisterMask;

struct PerfSample {
  bool kernel_mode = false;  // the mode of the sample's ip, not of its user registers
  std::uint64_t ip = 0;
  Pid process;
  Tid thread;
  MonotonicTime time;
  std::optional<UserRegisters> registers;  // absent for a kernel thread or a 32-bit task
  std::optional<std::uint64_t> address;
  std::optional<std::uint64_t> data_source;  // union perf_mem_data_src
};

struct PerfLost {
  std::uint64_t count = 0;
};
struct PerfThrottle {};
struct PerfFork {  // a new thread, in a new process where process and parent differ
  Pid process;
  Pid parent;
  Tid thread;
  Tid parent_thread;
};
struct PerfExit {
  Pid process;
  Tid thread;
};
// The code of `process` changed: a new executable mapping, or all of it by exec.
struct PerfCodeChange {
  Pid process;
  MonotonicTime time;
};
struct PerfOther {};

using PerfRecord =
    std::variant<PerfSample, PerfLost, PerfThrottle, PerfFork, PerfExit, PerfCodeChange, PerfOther>;

// The sample_type bits this decoder knows. Events opened with sample_id_all and others are refused.
inline constexpr std::uint64_t kSupportedSampleType = PERF_SAMPLE_IP | PERF_SAMPLE_TID |
                                                      PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
                                                      PERF_SAMPLE_REGS_USER | PERF_SAMPLE_DATA_SRC;

// `record` is one whole record, header included. nullopt: it does not hold what its type and
// `sample_type` promise. Reads nothing outside of `record`.
// Precondition: sample_type has no bits outside of kSupportedSampleType, and has TID and TIME.
std::optional<PerfRecord> ParsePerfRecord(std::span<const std::byte> record,
                                          std::uint64_t sample_type);

}  // namespace tmprof
