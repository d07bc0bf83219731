// SPDX-License-Identifier: Apache-2.0
// Tells if unset bits after a clear of a whole process mean anything on this machine.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "profiler/sources/abit/abit_kernel.h"

namespace tmprof::abit {

struct WholeFlushTrial {
  std::uint32_t tries = 0;
  std::uint32_t flushes = 0;   // tries whose flush was known to work
  std::uint32_t complete = 0;  // flushes after which every page that was accessed showed it
  std::uint32_t controls = 0;  // clears without a flush
  std::uint32_t hidden = 0;    // controls after which some page that was accessed did not show it
  std::string obstacle;        // why there can be no trial; empty: nothing
};

// True if more tries change nothing. On a busy machine the child may lose its CPU, and with it the
// translations, between each clear and its read: many controls then hide nothing.
bool IsDecided(const WholeFlushTrial& trial);

// Says why flushes are not to be relied on; nullopt: they are.
std::optional<std::string> DoubtOf(const WholeFlushTrial& trial);
// True if more tries may settle all that is in doubt, at a time when CPUs are less busy.
bool MayYetTell(const WholeFlushTrial& trial);

// Runs a child that reads a few shared pages over and over, so that a CPU holds their translations,
// and clears and flushes it several times. Takes some 10 ms, and at most half a second. Adds what
// it finds to `before`. The child is gone on return.
WholeFlushTrial TryWholeFlush(AbitKernel& kernel, const WholeFlushTrial& before = {},
                              const std::stop_token& stop = {});

// Goes on with a trial that settled nothing while others were busy: in a thread of its own, after a
// pause and then after others, each twice as long as the last, a few times.
class WholeFlushRetrial {
 public:
  using Try = std::function<WholeFlushTrial(const WholeFlushTrial& before, const std::stop_token&)>;

  // `first_pause` is more than 0.
  WholeFlushRetrial(const WholeFlushTrial& before, Try try_again,
                    std::chrono::nanoseconds first_pause);

  // No more tries follow.
  bool over() const { return over_; }
  // Flushes were found to work. Precondition: over().
  bool passed() const { return passed_; }

 private:
  void Run(const std::stop_token& stop, WholeFlushTrial trial, std::chrono::nanoseconds pause);

  Try try_;
  bool passed_ = false;
  std::atomic<bool> over_{false};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace tmprof::abit
