// SPDX-License-Identifier: Apache-2.0
// The tracker's state in its process.

#pragma once

#include <atomic>
#include <cstdint>

#include "objects/tracker/log.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

inline constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
// A byte for each page of 4 KiB, modulo 4 GiB: 1 MiB. Cache and memory hold only what the program's
// own memory needs. The lower half of an address is its index without further masking.
inline constexpr int kFilterShift = 20;
// 2^17 x 8 slots hold the million objects at once that docs/design/objects.md promises, in at most
// 8 MiB.
inline constexpr int kBucketsShift = 17;
inline constexpr int kBucketSlots = 8;  // one cache line
// Number of buckets that a page may use. A page of 128 objects, the most that malloc(3) puts into 4
// KiB, fills 16 of them, and other pages' objects may be there before.
inline constexpr std::uint64_t kPageBuckets = 64;
// Half of a log's sites (kLogSites) fit in; 4 ways are those of first-level caches.
inline constexpr std::uint64_t kKnownSets = 512;
inline constexpr std::uint32_t kKnownWays = 4;

inline std::uint64_t HashOf(std::uint64_t value) {
  value *= kHashFactor;
  return value ^ value >> 32;
}

// The request in the environment; forked children have it, too.
struct Request {
  std::uint64_t threshold = UINT64_MAX;  // no request
  std::uint64_t interval = 0;
  char folder[256] = {};
};
extern Request request;

// An unwound stack: where its return addresses lay, from the frame of Record() up. If the addresses
// are in these places again, the stack is the same, because the next one to read lies in the frame
// of the call that was just found.
struct KnownStack {
  std::atomic<std::uint32_t> turn;  // odd: it is being written
  std::atomic<std::uint32_t> site;
  std::atomic<std::uint32_t> depth;  // 0: there is none
  std::atomic<std::uint32_t> offset[kLogFrames];
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> frame[kLogFrames];
};

// The kernel wipes it in a forked child.
struct State {
  enum : std::uint32_t { kClosed, kOpening, kOpen, kRefused };
  std::atomic<std::uint32_t> phase;
  AllocationLog* log;
  std::atomic<std::uint64_t> no_room_until_ns;  // until then the log does not ask for more memory
  std::atomic<std::uint32_t> site_buckets[2 * kLogSites];  // IDs by hash; open addressing
  KnownStack known[kKnownSets][kKnownWays];
  std::atomic<std::uint8_t> filter[1 << kFilterShift];  // tracked addresses of a page; 255 is final
  // Addresses that found the bucket full and lie in a later one of their page; 255 is final.
  std::atomic<std::uint8_t> passed[1 << kBucketsShift];
  alignas(64) std::atomic<std::uint64_t> tracked[1 << kBucketsShift][kBucketSlots];
};
// Null: no allocation is tracked.
extern State* state;

extern __thread bool within __attribute__((tls_model("initial-exec")));

// Marks calls by the tracker itself, which are not tracked.
class Within {
 public:
  Within() { within = true; }
  ~Within() { within = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
