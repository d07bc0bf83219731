// SPDX-License-Identifier: Apache-2.0
// Tells if unset bits after a clear of a whole process mean anything on this machine.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "profiler/sources/abit/abit_kernel.h"

namespace tmprof::abit {

struct WholeFlushTrial {
  std::uint32_t tries = 0;
  std::uint32_t flushes = 0;   // of them, that were known to work
  std::uint32_t complete = 0;  // of these, after which every page that was accessed showed it
  std::uint32_t controls = 0;  // clears without a flush
  std::uint32_t hidden = 0;    // of these, after which some page that was accessed did not show it
};

// True if more tries change nothing. On a busy machine the child may lose its CPU, and with it the
// translations, between each clear and its read: many controls then hide nothing.
bool IsTold(const WholeFlushTrial& trial);

// Says why flushes are not to be relied on; nullopt: they are.
std::optional<std::string> DoubtOf(const WholeFlushTrial& trial);

// Runs a child that reads a few shared pages over and over, so that a CPU holds their translations,
// and clears and flushes it several times. Takes some 10 ms, and at most half a second. Returns why
// flushes are not to be relied on; nullopt: they are. The child is gone on return.
std::optional<std::string> TryWholeFlush(AbitKernel& kernel);

}  // namespace tmprof::abit
