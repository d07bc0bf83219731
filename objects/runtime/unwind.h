// SPDX-License-Identifier: Apache-2.0
// Finds the callers: return addresses on the calling thread's stack, through code with and without
// frame pointers.
//
// The step from a return address to the next one (objects/runtime/eh_frame.h) is looked up once
// and kept, together with the return address that came next. Most walks go from one known place to
// the next and look nothing up.

#pragma once

#include <atomic>
#include <cstdint>

#include "objects/runtime/eh_frame.h"

namespace tmprof::objtrace {

inline constexpr int kMaxFrames = 16;

struct StackBounds {
  std::uint64_t start;
  std::uint64_t end;

  bool Hold(std::uint64_t address) const { return address - start < end - start; }
};

struct CallChain {
  std::uint64_t frames[kMaxFrames];  // return addresses, innermost first
  int depth = 0;
  // An unknown caller is further out: code without unwind tables, code outside of modules, or
  // frames of more than kMaxWords. It is not set if there are more than kMaxFrames.
  bool is_cut = false;
  // Places on the stack of the words that the walk read. While these words keep their values, the
  // chain is the same, because no other word was read, except for values that lead nowhere. A frame
  // has a word or two; one that aligns its stack has up to three.
  static constexpr int kMaxWords = 2 * kMaxFrames + 1;
  std::uint64_t words[kMaxWords];
  int word_count = 0;
};

class Unwinder {
 public:
  // Walks from `frame` (__builtin_frame_address(0)) of a function with a frame pointer, as far as
  // the frames lie on `stack`. If `frame` is elsewhere, the chain has only its own caller. Takes no
  // lock and allocates nothing.
  void Walk(const void* frame, const StackBounds& stack, CallChain& chain);

  // Forgets calls from closed files, because other files may come to their addresses. Waits for no
  // other thread. If another thread is adding a place, that thread forgets, and until then no place
  // is known.
  void ForgetClosed();
  // Changes whenever places have to be forgotten.
  std::uint32_t generation() const { return generation_.load(std::memory_order_acquire); }
  // Called by the only thread of a forked child.
  void KeepOnlySelf();

 private:
  struct Place {
    std::atomic<std::uint64_t> return_address;  // 0: free; kForgotten: free, but was in use
    std::atomic<const Place*> caller;           // the first walk went on to it; null: none yet
    FrameRule rule;                             // leads from there to the next one
  };

  static constexpr int kPlacesShift = 15;
  static constexpr std::uint64_t kPlaces = 1 << kPlacesShift;
  static constexpr std::uint64_t kMaxUsed = kPlaces / 4 * 3;
  static constexpr std::uint64_t kForgotten = 1;

  static bool RuleFrom(std::uint64_t return_address, FrameRule& rule);
  const Place* Find(std::uint64_t return_address) const;
  bool Learn(std::uint64_t return_address, FrameRule& rule, const Place*& place);
  const Place* Add(std::uint64_t return_address, const FrameRule& rule);
  bool IsStale() const { return forgotten_.load(std::memory_order_acquire) != generation(); }
  void Forget();
  void ForgetUnlessAdding();

  std::atomic<Place*> places_ = nullptr;  // hashed; open addressing
  std::atomic<bool> adding_ = false;      // also set while places are forgotten
  std::atomic<std::uint32_t> generation_ = 0;
  std::atomic<std::uint32_t> forgotten_ = 0;  // the generation of the places
  std::uint64_t used_ = 0;
};

extern constinit Unwinder unwinder;

}  // namespace tmprof::objtrace
