// SPDX-License-Identifier: Apache-2.0
// Who called: return addresses of the calling thread's stack, through code with and without frame
// pointers.
//
// How to get from a return address to the next one (objtrace/runtime/eh_frame.h) is looked up once
// and kept, together with the return address that came after it: most walks go from one known place
// to the next and look nothing up.

#pragma once

#include <atomic>
#include <cstdint>

#include "objtrace/runtime/eh_frame.h"

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
  // Somebody further out called who is not known: code without unwind tables, or out of modules, or
  // past frames of more than kMaxWords. Not set where there are more than kMaxFrames.
  bool is_cut = false;
  // Where on the stack the words lie that led there. As long as they are what they were, so is the
  // chain: no other word was read, but for values that lead nowhere. A frame has a word or two, one
  // that aligns its stack up to three.
  static constexpr int kMaxWords = 2 * kMaxFrames + 1;
  std::uint64_t words[kMaxWords];
  int word_count = 0;
};

class Unwinder {
 public:
  // From the frame of a function that has a frame pointer, `frame` (__builtin_frame_address(0)), as
  // far as it lies on `stack`; elsewhere, its own caller alone. Takes no lock, and allocates
  // nothing.
  void Walk(const void* frame, const StackBounds& stack, CallChain& chain);

  // Calls from files that have been closed are known no more: others may come to their addresses.
  // Waits for nobody: where another thread is adding a place, that one forgets, and until then no
  // place is known.
  void ForgetClosed();
  // Changes when something is to be forgotten.
  std::uint32_t generation() const { return generation_.load(std::memory_order_acquire); }
  // In a forked child, whose only thread calls it.
  void KeepOnlySelf();

 private:
  struct Place {
    std::atomic<std::uint64_t> return_address;  // 0: free; kForgotten: free, but was in use
    std::atomic<const Place*> caller;           // that the first walk went on to; null: none yet
    FrameRule rule;                             // how to get from there to the next one
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

  std::atomic<Place*> places_ = nullptr;  // by hash; open addressing
  std::atomic<bool> adding_ = false;      // or forgetting
  std::atomic<std::uint32_t> generation_ = 0;
  std::atomic<std::uint32_t> forgotten_ = 0;  // the generation that the places are of
  std::uint64_t used_ = 0;
};

extern constinit Unwinder unwinder;

}  // namespace tmprof::objtrace
