// SPDX-License-Identifier: Apache-2.0
// Walks through frames that this file makes.

#include "objtrace/runtime/unwind.h"

#include <alloca.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tmprof::objtrace {
namespace {

StackBounds OwnStack() {
  pthread_attr_t attributes;
  void* start = nullptr;
  std::size_t bytes = 0;
  ::pthread_getattr_np(::pthread_self(), &attributes);
  ::pthread_attr_getstack(&attributes, &start, &bytes);
  ::pthread_attr_destroy(&attributes);
  const auto at = reinterpret_cast<std::uint64_t>(start);
  return {.start = at, .end = at + bytes};
}

struct Walked {
  StackBounds stack = OwnStack();
  CallChain chain;
  std::vector<std::uint64_t> expected;  // as the C library's own unwinder has them
};

[[gnu::noinline]] void Leaf(Walked& walked) {
  unwinder.Walk(__builtin_frame_address(0), walked.stack, walked.chain);
  void* found[64];
  const int count = ::backtrace(found, 64);
  for (void* address : std::span(found, static_cast<std::size_t>(count)).subspan(1)) {
    walked.expected.push_back(reinterpret_cast<std::uint64_t>(address));
  }
}

// What the compiler keeps a frame pointer for.
[[gnu::noinline]] void Framed(Walked& walked, int frames) {
  auto* volatile room = static_cast<char*>(::alloca(static_cast<std::size_t>(frames) + 16));
  if (frames > 1) {
    Framed(walked, frames - 1);
  } else {
    Leaf(walked);
  }
  room[0] = 1;
}

// One that aligns its stack, and keeps aside where its caller's was.
[[gnu::noinline]] void Realigned(Walked& walked, int realigned, int framed) {
  alignas(64) char aligned[64];
  auto* volatile room = static_cast<char*>(::alloca(static_cast<std::size_t>(realigned) + 16));
  if (realigned > 1) {
    Realigned(walked, realigned - 1, framed);
  } else {
    Framed(walked, framed);
  }
  asm volatile("" ::"r"(aligned) : "memory");
  room[0] = 1;
}

// A frame of one's own has a word to itself, one with a frame pointer two, one that aligns its
// stack three: 1 + 10 * 2 + 4 * 3 are all there is room for, with a frame to go.
TEST(Unwind, AsManyWordsAreNotedAsThereIsRoomFor) {
  for (int framed = 1; framed <= 14; ++framed) {
    for (int realigned = 1; realigned <= 14; ++realigned) {
      SCOPED_TRACE(testing::Message() << framed << " and " << realigned << " that align");
      Walked walked;
      Realigned(walked, realigned, framed);
      const CallChain& chain = walked.chain;
      ASSERT_LE(chain.word_count, CallChain::kMaxWords);
      const int aligned = std::min(realigned, (CallChain::kMaxWords - 1 - 2 * framed) / 3);
      if (aligned < realigned) {
        EXPECT_EQ(chain.depth, 1 + framed + aligned);
        EXPECT_EQ(chain.is_cut, chain.depth < kMaxFrames);
      } else {
        EXPECT_GE(chain.depth, std::min(1 + framed + realigned, kMaxFrames));
      }
      ASSERT_GE(walked.expected.size(), static_cast<std::size_t>(chain.depth));
      EXPECT_TRUE(std::equal(chain.frames, chain.frames + chain.depth, walked.expected.begin()));
    }
  }
}

}  // namespace
}  // namespace tmprof::objtrace
