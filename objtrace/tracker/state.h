// SPDX-License-Identifier: Apache-2.0
// What the tracker knows of its process.

#pragma once

#include <atomic>
#include <cstdint>

#include "objtrace/tracker/log.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

inline constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
// A byte for each page of 4 KiB, modulo 4 GiB: 1 MiB, of which a cache and memory hold what the
// program's own memory needs. Of the lower half of an address no more has to be cut off.
inline constexpr int kFilterShift = 20;
// 2^17 x 8 slots: the million objects at once that docs/objects.md promises, 8 MiB at most.
inline constexpr int kBucketsShift = 17;
inline constexpr int kBucketSlots = 8;  // of a cache line
// A page has so many buckets that it may use: with 128 objects, as many as malloc(3) puts into 4
// KiB, it fills 16, and others may be there before.
inline constexpr std::uint64_t kPageBuckets = 64;
// As many as half of a log's sites (kLogSites); 4 ways as in first-level caches.
inline constexpr std::uint64_t kKnownSets = 512;
inline constexpr std::uint32_t kKnownWays = 4;

inline std::uint64_t HashOf(std::uint64_t value) {
  value *= kHashFactor;
  return value ^ value >> 32;
}

// What the environment asks for; the same in forked children.
struct Request {
  std::uint64_t threshold = UINT64_MAX;  // nothing is asked for
  std::uint64_t interval = 0;
  char folder[256] = {};
};
extern Request request;

// A stack that was unwound: where its return addresses lay, from the frame of Record() up. The same
// ones in the same places are the same stack: what is read next lies in the frame of the call that
// was just found again.
struct KnownStack {
  std::atomic<std::uint32_t> turn;  // odd: it is being written
  std::atomic<std::uint32_t> site;
  std::atomic<std::uint32_t> depth;  // 0: none
  std::atomic<std::uint32_t> offset[kLogFrames];
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> frame[kLogFrames];
};

// Wiped in a forked child.
struct State {
  enum : std::uint32_t { kClosed, kOpening, kOpen, kRefused };
  std::atomic<std::uint32_t> phase;
  AllocationLog* log;
  std::atomic<std::uint64_t> no_room_until_ns;  // until then the log does not ask for more memory
  std::atomic<std::uint32_t> site_buckets[2 * kLogSites];  // IDs by hash; open addressing
  KnownStack known[kKnownSets][kKnownWays];
  std::atomic<std::uint8_t> filter[1 << kFilterShift];  // tracked addresses of a page; 255 stays
  // That found the bucket full, and lie in their page's next ones; 255 stays.
  std::atomic<std::uint8_t> passed[1 << kBucketsShift];
  alignas(64) std::atomic<std::uint64_t> tracked[1 << kBucketsShift][kBucketSlots];
};
// Null: nothing is tracked.
extern State* state;

extern __thread bool within __attribute__((tls_model("initial-exec")));

// What the tracker itself calls is not tracked.
class Within {
 public:
  Within() { within = true; }
  ~Within() { within = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
