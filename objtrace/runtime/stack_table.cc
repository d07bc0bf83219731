// SPDX-License-Identifier: Apache-2.0

#include "objtrace/runtime/stack_table.h"

#include <cstring>

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio

std::uint64_t HashOf(const std::uint64_t* frames, int depth) {
  std::uint64_t hash = static_cast<std::uint64_t>(depth);
  for (int i = 0; i < depth; ++i) hash = (hash ^ frames[i]) * kHashFactor;
  return hash ^ (hash >> 32);
}

}  // namespace

bool StackTable::Begin() {
  const std::uint64_t bucket_bytes = kBuckets * sizeof(std::atomic<std::uint32_t>);
  const std::uint64_t stack_bytes = kMaxStacks * sizeof(Stack*);
  const std::uint64_t arena_bytes =
      kMaxStacks * (sizeof(Stack) + kMaxFrames * sizeof(std::uint64_t));
  auto* memory = static_cast<std::byte*>(MapSparse(bucket_bytes + stack_bytes + arena_bytes));
  if (memory == nullptr) return false;
  stacks_ = reinterpret_cast<Stack**>(memory + bucket_bytes);
  arena_ = memory + bucket_bytes + stack_bytes;
  buckets_.store(reinterpret_cast<std::atomic<std::uint32_t>*>(memory), std::memory_order_release);
  return true;
}

bool StackTable::Is(std::uint32_t id, std::uint64_t hash, const std::uint64_t* frames,
                    int depth) const {
  const Stack& stack = *stacks_[id];
  if (stack.hash != hash || stack.depth != static_cast<std::uint64_t>(depth)) return false;
  // Few: a call of memcmp(3) costs more.
  for (int i = 0; i < depth; ++i) {
    if (stack.frames()[i] != frames[i]) return false;
  }
  return true;
}

std::uint32_t StackTable::Intern(const std::uint64_t* frames, int depth) {
  if (depth == 0) return kUnknownStack;
  const std::uint64_t hash = HashOf(frames, depth);
  if (auto* buckets = buckets_.load(std::memory_order_acquire)) {
    for (std::uint64_t at = hash;; ++at) {
      const std::uint32_t id = buckets[at % kBuckets].load(std::memory_order_acquire);
      if (id == kUnknownStack) break;
      if (Is(id, hash, frames, depth)) return id;
    }
  }
  const Locked locked(lock_);
  if (buckets_.load(std::memory_order_relaxed) == nullptr && !Begin()) return kUnknownStack;
  auto* buckets = buckets_.load(std::memory_order_relaxed);
  std::uint64_t at = hash;
  while (const std::uint32_t id = buckets[at % kBuckets].load(std::memory_order_relaxed)) {
    if (Is(id, hash, frames, depth)) return id;
    ++at;
  }
  const std::uint32_t id = size_.load(std::memory_order_relaxed);
  if (id == kMaxStacks) return kUnknownStack;
  auto* stack = reinterpret_cast<Stack*>(arena_);
  const std::size_t frame_bytes = static_cast<std::size_t>(depth) * sizeof(*frames);
  arena_ += sizeof(Stack) + frame_bytes;
  stack->hash = hash;
  stack->depth = static_cast<std::uint64_t>(depth);
  std::memcpy(stack->frames(), frames, frame_bytes);
  stacks_[id] = stack;
  buckets[at % kBuckets].store(id, std::memory_order_release);
  size_.store(id + 1, std::memory_order_release);
  return id;
}

// Reads only its own thread's stack, which is there up to its end.
__attribute__((no_sanitize("address", "thread"))) int WalkStack(
    const void* frame, std::uint64_t stack_start, std::uint64_t stack_end,
    std::uint64_t (&frames)[kMaxFrames]) {
  auto at = reinterpret_cast<std::uint64_t>(frame);
  if (at < stack_start) return 0;
  int depth = 0;
  while (depth < kMaxFrames && at % sizeof(std::uint64_t) == 0 &&
         at + 2 * sizeof(std::uint64_t) <= stack_end) {
    const auto* saved = reinterpret_cast<const std::uint64_t*>(at);
    if (saved[1] == 0) break;
    frames[depth++] = saved[1];
    if (saved[0] <= at) break;
    at = saved[0];
  }
  return depth;
}

}  // namespace tmprof::objtrace
