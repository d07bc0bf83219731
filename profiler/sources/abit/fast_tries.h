// SPDX-License-Identifier: Apache-2.0
// Fast tries: a page that was set at the first read of a visit is cleared by itself and read again
// within microseconds, because above 1 / 0.25 ms all rates look alike there.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/clear_loss.h"

namespace tmprof::abit {

// A page goes on to the next rung if it was found set at all tries of this one. All tries are
// evidence (PageColumns::FastTries).
inline constexpr std::uint32_t kTriesPerRung = 2;
// A session tries so many pages at once.
inline constexpr std::size_t kMostFastPages = 8;

struct FastTry {
  Vpn page;
  bool reads_at_once = false;  // also right after the clear
  // These are the outcome. A try does not count if the page could not be cleared or read, is no
  // base page, or if the target did not run throughout.
  bool counted = false;
  bool found = false;
  bool unset_at_once = false;              // the clear has taken effect
  std::chrono::nanoseconds exposure{0};    // target CPU time
  std::chrono::nanoseconds clear_took{0};  // on the clock
};

// A try at that delay does not count if its clear took longer.
std::chrono::nanoseconds LongestClear(std::chrono::nanoseconds delay);

// Tries each of the pages, kFastRungs[rung] after the middle of its clear, after one clear that is
// not used. At the first rung pages are tried in pairs. Preconditions: there are pages, and the
// process's Running() is known.
void RunFastTries(AbitKernel& kernel, AbitProcess& process, std::size_t rung, const ClearLoss& loss,
                  std::span<FastTry> tries);

// The tries of one page, up to its last rung.
class FastPage {
 public:
  enum class State : std::uint8_t {
    kGoesOn,
    kTrusted,  // its tries are evidence
    kDoubted,  // it was found set at every try: its clears may have had no effect
    kGivenUp,  // too many tries at the first rung did not count
  };

  // `first`: the rung to begin with. `seen_unset`: a clear has taken effect on the page before.
  explicit FastPage(std::size_t rungs, std::size_t first = 0, bool seen_unset = false)
      : rungs_(rungs), rung_(first), seen_unset_(seen_unset) {}

  std::size_t rung() const { return rung_; }
  bool came_to_last_rung() const { return rung_ + 1 == rungs_; }
  bool seen_unset() const { return seen_unset_; }
  bool wants_read_at_once() const;
  State Add(const FastTry& ended);

  // These are of the tries at the last rung that counted.
  std::uint32_t looks() const { return looks_; }
  std::uint32_t found() const { return found_; }
  std::chrono::nanoseconds time() const { return time_; }
  // These are of the tries at the rungs before, all of which found the page.
  std::uint32_t earlier_looks() const { return earlier_.looks + before_.looks; }
  std::chrono::nanoseconds earlier_time() const { return earlier_.time + before_.time; }

 private:
  State Fail();

  std::size_t rungs_;
  std::size_t rung_;
  bool seen_unset_;  // a clear took effect
  std::uint32_t failed_ = 0;
  std::uint32_t looks_ = 0;
  std::uint32_t found_ = 0;
  std::chrono::nanoseconds time_{0};
  struct Finds {
    std::uint32_t looks = 0;
    std::chrono::nanoseconds time{0};
  };
  Finds before_;   // at the rung before
  Finds earlier_;  // at the rungs before that
};

}  // namespace tmprof::abit
