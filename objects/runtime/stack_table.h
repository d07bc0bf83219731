// SPDX-License-Identifier: Apache-2.0
// Stores allocation stacks, each once. IDs are dense from 1 and stay.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objects/runtime/system.h"
#include "objects/runtime/unwind.h"

namespace tmprof::objtrace {

inline constexpr std::uint32_t kUnknownStack = 0;
inline constexpr std::uint32_t kMaxStacks = 1 << 18;  // further stacks get kUnknownStack

struct Stack {
  std::uint64_t hash;
  std::uint32_t depth;
  bool is_cut;  // like CallChain::is_cut

  // Return addresses, innermost first.
  std::uint64_t* frames() { return reinterpret_cast<std::uint64_t*>(this + 1); }
  const std::uint64_t* frames() const { return reinterpret_cast<const std::uint64_t*>(this + 1); }
};

class StackTable {
 public:
  std::uint32_t Intern(const CallChain& chain);
  // Precondition: Intern() returned `id`, and it is not kUnknownStack.
  const Stack& Get(std::uint32_t id) const { return *stacks_[id]; }
  // All IDs are below it.
  std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
  Lock& lock() { return lock_; }

 private:
  static constexpr std::uint32_t kBuckets = kMaxStacks * 2;

  bool Begin();
  bool Is(std::uint32_t id, std::uint64_t hash, const CallChain& chain) const;

  Lock lock_;
  std::atomic<std::atomic<std::uint32_t>*> buckets_ = nullptr;  // IDs; open addressing
  Stack** stacks_ = nullptr;
  std::byte* arena_ = nullptr;
  std::atomic<std::uint32_t> size_ = 1;
};

// Stacks that one thread has walked: the ID of a frame whose callers are unchanged.
class KnownStacks {
 public:
  // Returns kUnknownStack if the stack has to be walked. `stack_end` is the end of the calling
  // thread's stack.
  std::uint32_t Find(const void* frame, std::uint64_t stack_end, std::uint32_t generation);
  void Keep(const void* frame, const CallChain& chain, std::uint32_t id, std::uint32_t generation);

 private:
  static constexpr std::uint64_t kPlaces = 128;

  struct Word {
    std::uint64_t address;
    std::uint64_t value;
  };
  struct Known {
    std::uint64_t frame;       // 0: none
    std::uint32_t generation;  // the unwinder's
    std::uint32_t id;
    std::uint64_t end;  // end of the highest word
    const Word* last;   // there is at least one
    bool was_found;     // since it was last sought in vain
    Word word[CallChain::kMaxWords];
  };

  Known& Of(std::uint64_t frame, std::uint64_t caller) {
    return known_[(frame >> 4 ^ caller) % kPlaces];
  }

  Known known_[kPlaces];
};

// Reads the calling thread's own stack.
__attribute__((no_sanitize("address", "thread"))) inline std::uint32_t KnownStacks::Find(
    const void* frame, std::uint64_t stack_end, std::uint32_t generation) {
  const auto at = reinterpret_cast<std::uint64_t>(frame);
  Known& known = Of(at, static_cast<const std::uint64_t*>(frame)[1]);
  // A thread that used this place before may have had another end of its stack.
  if (known.frame != at || known.generation != generation || known.end > stack_end) {
    return kUnknownStack;
  }
  for (const Word* word = known.word;; ++word) {
    if (*reinterpret_cast<const std::uint64_t*>(word->address) != word->value) return kUnknownStack;
    if (word == known.last) break;
  }
  known.was_found = true;
  return known.id;
}

}  // namespace tmprof::objtrace
