// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/stack_table.h"

#include <algorithm>
#include <cstring>

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio

std::uint64_t HashOf(const CallChain& chain) {
  std::uint64_t hash = static_cast<std::uint64_t>(chain.depth) << 1 | std::uint64_t{chain.is_cut};
  for (int i = 0; i < chain.depth; ++i) hash = (hash ^ chain.frames[i]) * kHashFactor;
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

bool StackTable::Is(std::uint32_t id, std::uint64_t hash, const CallChain& chain) const {
  const Stack& stack = *stacks_[id];
  if (stack.hash != hash || stack.depth != static_cast<std::uint32_t>(chain.depth) ||
      stack.is_cut != chain.is_cut) {
    return false;
  }
  // The frames are few, and a call of memcmp(3) would cost more.
  for (int i = 0; i < chain.depth; ++i) {
    if (stack.frames()[i] != chain.frames[i]) return false;
  }
  return true;
}

std::uint32_t StackTable::Intern(const CallChain& chain) {
  if (chain.depth == 0) return kUnknownStack;
  const std::uint64_t hash = HashOf(chain);
  if (auto* buckets = buckets_.load(std::memory_order_acquire)) {
    for (std::uint64_t at = hash;; ++at) {
      const std::uint32_t id = buckets[at % kBuckets].load(std::memory_order_acquire);
      if (id == kUnknownStack) break;
      if (Is(id, hash, chain)) return id;
    }
  }
  const Locked locked(lock_);
  if (buckets_.load(std::memory_order_relaxed) == nullptr && !Begin()) return kUnknownStack;
  auto* buckets = buckets_.load(std::memory_order_relaxed);
  std::uint64_t at = hash;
  while (const std::uint32_t id = buckets[at % kBuckets].load(std::memory_order_relaxed)) {
    if (Is(id, hash, chain)) return id;
    ++at;
  }
  const std::uint32_t id = size_.load(std::memory_order_relaxed);
  if (id == kMaxStacks) return kUnknownStack;
  auto* stack = reinterpret_cast<Stack*>(arena_);
  const std::size_t frame_bytes = static_cast<std::size_t>(chain.depth) * sizeof(*chain.frames);
  arena_ += sizeof(Stack) + frame_bytes;
  stack->hash = hash;
  stack->depth = static_cast<std::uint32_t>(chain.depth);
  stack->is_cut = chain.is_cut;
  std::memcpy(stack->frames(), chain.frames, frame_bytes);
  stacks_[id] = stack;
  buckets[at % kBuckets].store(id, std::memory_order_release);
  size_.store(id + 1, std::memory_order_release);
  return id;
}

// Reads the calling thread's own stack.
__attribute__((no_sanitize("address", "thread"))) void KnownStacks::Keep(const void* frame,
                                                                         const CallChain& chain,
                                                                         std::uint32_t id,
                                                                         std::uint32_t generation) {
  const auto at = reinterpret_cast<std::uint64_t>(frame);
  Known& known = Of(at, static_cast<const std::uint64_t*>(frame)[1]);
  if (known.was_found) {  // it may be useful again
    known.was_found = false;
    return;
  }
  known.frame = 0;
  if (chain.word_count == 0) return;  // without a word it cannot be told from others
  known.last = known.word + chain.word_count - 1;
  known.end = 0;
  for (int i = 0; i < chain.word_count; ++i) {
    const std::uint64_t address = chain.words[i];
    known.word[i] = {.address = address, .value = *reinterpret_cast<const std::uint64_t*>(address)};
    known.end = std::max(known.end, address + sizeof(std::uint64_t));
  }
  known.id = id;
  known.generation = generation;
  known.frame = at;
}

}  // namespace tmprof::objtrace
