// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/tracked.h"

#include <atomic>

namespace tmprof::objtrace {
namespace {

std::atomic<std::uint8_t>& FilterOf(std::uint64_t address) {
  return state->filter[FilterIndex(address)];
}

// Returns the n-th bucket of the address's page. Nearby addresses have nearby buckets, so that few
// pages of buckets are ever used.
std::uint64_t BucketOf(std::uint64_t address, std::uint64_t n) {
  const std::uint64_t page = address >> 12;
  const std::uint64_t region = address >> 21;
  return (page + HashOf(region + n * kHashFactor)) & ((1 << kBucketsShift) - 1);
}

// Counts of 255 are final, because they may be too low.
void Increment(std::atomic<std::uint8_t>& counter) {
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != UINT8_MAX && !counter.compare_exchange_weak(count, count + 1)) continue;
}

void Decrement(std::atomic<std::uint8_t>& counter) {
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != UINT8_MAX && !counter.compare_exchange_weak(count, count - 1)) continue;
}

// Takes back that the address passed its first `buckets` buckets.
void ComeBack(std::uint64_t address, std::uint64_t buckets) {
  for (std::uint64_t n = 0; n < buckets; ++n) Decrement(state->passed[BucketOf(address, n)]);
}

// Returns true if `from` was in the bucket and was replaced by `to`.
bool Replace(std::uint64_t bucket, std::uint64_t from, std::uint64_t to) {
  for (std::atomic<std::uint64_t>& slot : state->tracked[bucket]) {
    std::uint64_t there = from;
    if (slot.load(std::memory_order_relaxed) == from &&
        slot.compare_exchange_strong(there, to, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool Track(std::uint64_t address) {
  for (std::uint64_t n = 0; n < kPageBuckets; ++n) {
    const std::uint64_t bucket = BucketOf(address, n);
    if (Replace(bucket, 0, address)) {
      Increment(FilterOf(address));
      return true;
    }
    Increment(state->passed[bucket]);
  }
  ComeBack(address, kPageBuckets);
  return false;
}

bool Untrack(std::uint64_t address) {
  for (std::uint64_t n = 0; n < kPageBuckets; ++n) {
    const std::uint64_t bucket = BucketOf(address, n);
    if (Replace(bucket, address, 0)) {
      Decrement(FilterOf(address));
      ComeBack(address, n);
      return true;
    }
    if (state->passed[bucket].load(std::memory_order_relaxed) == 0) return false;
  }
  return false;
}

}  // namespace tmprof::objtrace
