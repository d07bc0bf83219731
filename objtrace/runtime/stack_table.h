// SPDX-License-Identifier: Apache-2.0
// Allocation stacks, each once. IDs are dense from 1 and stay.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objtrace/runtime/system.h"

namespace tmprof::objtrace {

inline constexpr int kMaxFrames = 16;
inline constexpr std::uint32_t kUnknownStack = 0;
inline constexpr std::uint32_t kMaxStacks = 1 << 18;  // ID kUnknownStack beyond

struct Stack {
  std::uint64_t hash;
  std::uint64_t depth;

  // Return addresses, innermost first.
  std::uint64_t* frames() { return reinterpret_cast<std::uint64_t*>(this + 1); }
  const std::uint64_t* frames() const { return reinterpret_cast<const std::uint64_t*>(this + 1); }
};

class StackTable {
 public:
  std::uint32_t Intern(const std::uint64_t* frames, int depth);
  // Of an ID that Intern() returned, but kUnknownStack.
  const Stack& Get(std::uint32_t id) const { return *stacks_[id]; }
  std::uint32_t size() const { return size_.load(std::memory_order_acquire); }  // IDs below it are
  Lock& lock() { return lock_; }

 private:
  static constexpr std::uint32_t kBuckets = kMaxStacks * 2;

  bool Begin();
  bool Is(std::uint32_t id, std::uint64_t hash, const std::uint64_t* frames, int depth) const;

  Lock lock_;
  std::atomic<std::atomic<std::uint32_t>*> buckets_ = nullptr;  // IDs; open addressing
  Stack** stacks_ = nullptr;
  std::byte* arena_ = nullptr;
  std::atomic<std::uint32_t> size_ = 1;
};

// Follows frame pointers from the caller's `frame` (__builtin_frame_address(0)) while they stay
// within [frame, stack_end): code without frame pointers cuts the stack short, or leaves a caller
// out.
int WalkStack(const void* frame, std::uint64_t stack_start, std::uint64_t stack_end,
              std::uint64_t (&frames)[kMaxFrames]);

}  // namespace tmprof::objtrace
