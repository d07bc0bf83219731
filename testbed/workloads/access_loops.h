// SPDX-License-Identifier: Apache-2.0
// Endless loops over one buffer, one kind of access each: what a sampler should be able to see.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tmprof::workloads {

enum class AccessLoop : std::uint8_t {
  kRandomLoads,
  kRandomStores,
  kRandomUpdates,  // read-modify-write
  kStream,
  kPointerChase,  // each load overwrites its own address register
};
inline constexpr AccessLoop kAccessLoops[] = {AccessLoop::kRandomLoads, AccessLoop::kRandomStores,
                                              AccessLoop::kRandomUpdates, AccessLoop::kStream,
                                              AccessLoop::kPointerChase};

constexpr const char* Name(AccessLoop loop) {
  switch (loop) {
    case AccessLoop::kRandomLoads:
      return "random loads";
    case AccessLoop::kRandomStores:
      return "random stores";
    case AccessLoop::kRandomUpdates:
      return "random updates";
    case AccessLoop::kStream:
      return "stream";
    case AccessLoop::kPointerChase:
      return "pointer chase";
  }
  return "unknown loop";
}

#define TMPROF_UNINSTRUMENTED \
  __attribute__((noinline, no_sanitize("address", "undefined", "thread")))

// Marsaglia, "Xorshift RNGs", J. Stat. Softw. 8 (2003).
#define TMPROF_XORSHIFT(state) \
  do {                         \
    (state) ^= (state) << 13;  \
    (state) ^= (state) >> 7;   \
    (state) ^= (state) << 17;  \
  } while (false)

// Fills `words` so that a chase from element 0 visits every element in one cycle (Sattolo, 1986).
inline void LinkForChase(std::span<std::uint64_t> words) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  std::uint64_t state = 88'172'645'463'325'252U;
  for (std::size_t i = words.size() - 1; i > 0; --i) {
    TMPROF_XORSHIFT(state);
    const std::size_t j = state % i;
    const std::uint64_t swapped = words[i];
    words[i] = words[j];
    words[j] = swapped;
  }
  // Addresses instead of positions: one dependent load per step.
  for (std::uint64_t& word : words) word = reinterpret_cast<std::uint64_t>(&words[word]);
}

// `iterations` accesses; the size of `words` is a power of two. Returns a value that depends on
// all.
TMPROF_UNINSTRUMENTED inline std::uint64_t RunLoop(AccessLoop loop, std::span<std::uint64_t> words,
                                                   std::uint64_t iterations) {
  std::uint64_t* const data = words.data();
  const std::uint64_t mask = words.size() - 1;
  std::uint64_t state = 88'172'645'463'325'252U;
  std::uint64_t sum = 0;
  switch (loop) {
    case AccessLoop::kRandomLoads:
      for (std::uint64_t i = 0; i < iterations; ++i) {
        TMPROF_XORSHIFT(state);
        sum += data[state & mask];
      }
      break;
    case AccessLoop::kRandomStores:
      for (std::uint64_t i = 0; i < iterations; ++i) {
        TMPROF_XORSHIFT(state);
        data[state & mask] = i;
      }
      break;
    case AccessLoop::kRandomUpdates:
      for (std::uint64_t i = 0; i < iterations; ++i) {
        TMPROF_XORSHIFT(state);
        data[state & mask] += i;
      }
      break;
    case AccessLoop::kStream:
      for (std::uint64_t i = 0; i < iterations; ++i) sum += data[i & mask];
      break;
    case AccessLoop::kPointerChase: {
      std::uint64_t at = reinterpret_cast<std::uint64_t>(data);
      for (std::uint64_t i = 0; i < iterations; ++i) at = *reinterpret_cast<std::uint64_t*>(at);
      sum = at;
      break;
    }
  }
  return sum;
}

#undef TMPROF_XORSHIFT
#undef TMPROF_UNINSTRUMENTED

}  // namespace tmprof::workloads
