// SPDX-License-Identifier: Apache-2.0
// How a program is run under user-mode QEMU with the exact tracer
// (profiler/sources/exact/plugin/exact.c).

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "profiler/probe.h"
#include "profiler/sources/exact/tracer_memory.h"

namespace tmprof::exact {

struct ExactOptions {
  std::chrono::nanoseconds epoch{std::chrono::seconds(1)};
  // Epochs by executed instructions, in place of time.
  std::optional<std::uint64_t> epoch_instructions;
  std::optional<std::uint64_t> llc_bytes;  // models an LLC of 16 ways; nullopt: none
  // Each of these only with an LLC; nullopt: not modelled.
  std::optional<std::uint64_t> l2_bytes;          // a private cache of each thread, of 16 ways
  std::optional<std::uint64_t> prefetch_lines;    // how far ahead a stream prefetcher asks
  std::optional<std::chrono::nanoseconds> stall;  // that a load waits for memory
};

struct ExactTools {
  std::filesystem::path qemu;
  std::filesystem::path plugin;
};

// QEMU on PATH, and the tracer that was built or installed with this program. Each refusal says
// what to install.
Result<ExactTools> FindExactTools();

// Runs a program of ours under the tracer, which shows whether this QEMU takes plugins.
Probe ProbeExact();

// Refuses caches, prefetchers and stalls that cannot be modelled.
Status CheckOptions(const ExactOptions& options);

// Makes what processes share that are traced with these options; nullopt: nothing. Precondition:
// CheckOptions() finds no fault.
Result<std::optional<TracerMemory>> MakeTracerMemory(const ExactOptions& options);

// Takes the dynamic loader's variables, as LD_PRELOAD, out of this process's environment, so that
// QEMU, which inherits it, is loaded without them. One with a comma in it, which QEMU would not
// pass on whole, stays. Not thread-safe, as no change of the environment is.
std::vector<std::string> TakeLoaderVariables();

// The arguments, QEMU first, that run `command` with its counts going to the socket. The program is
// looked for as execvp(3) does; a script is run by its interpreter. Refuses what QEMU cannot run as
// the kernel would: other machines' programs, those with other rights (set-user-ID). Epochs by time
// start at `origin`. The program gets `variables` beside QEMU's own environment. Without `memory`
// each program has a cache and a count of instructions of its own.
Result<std::vector<std::string>> ArgumentsToTrace(
    const std::vector<std::string>& command, const ExactTools& tools, const ExactOptions& options,
    const std::filesystem::path& socket, const std::optional<TracerMemory>& memory,
    MonotonicTime origin, const std::vector<std::string>& variables);

}  // namespace tmprof::exact
