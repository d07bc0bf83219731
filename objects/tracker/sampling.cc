// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/sampling.h"

#include "objects/tracker/events.h"
#include "objects/tracker/state.h"

namespace tmprof::objtrace {

__thread std::int64_t bytes_to_sample __attribute__((tls_model("initial-exec"))) = 0;

namespace {

__thread std::uint64_t random_state __attribute__((tls_model("initial-exec"))) = 0;

// xorshift64 (Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003).
std::uint64_t NextRandom() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

// Draws from an exponential distribution with the interval as its mean, rounded up. It uses von
// Neumann's comparisons of uniform numbers, which need no logarithm (Knuth, TAOCP 2, 3.4.1,
// "Exponential distribution"). The first number of a descending run of odd length is the fraction.
// The number of runs of even length before it is the whole part.
std::int64_t DrawDistance() {
  std::uint64_t whole = 0;
  while (true) {
    const std::uint64_t first = NextRandom();
    std::uint64_t last = first;
    bool is_odd = true;
    for (std::uint64_t next = NextRandom(); next < last; next = NextRandom()) {
      last = next;
      is_odd = !is_odd;
    }
    if (is_odd) {
      const auto part = static_cast<std::uint64_t>(
          static_cast<unsigned __int128>(first) * request.interval >> 64);
      return static_cast<std::int64_t>(whole * request.interval + part + 1);
    }
    ++whole;
  }
}

}  // namespace

bool IsSampled() {
  if (request.interval == 0) {
    bytes_to_sample = INT64_MAX;
    return false;
  }
  if (random_state == 0) {  // the thread's first draw
    random_state = HashOf(NowNs() ^ reinterpret_cast<std::uint64_t>(&within)) | 1;
    bytes_to_sample += DrawDistance();
    if (bytes_to_sample > 0) return false;
  }
  bytes_to_sample = DrawDistance();
  return true;
}

void SampleAnew() {
  bytes_to_sample = 0;
  random_state = 0;
}

}  // namespace tmprof::objtrace
