// SPDX-License-Identifier: Apache-2.0
// Walks through frames that this file makes.

#include "objects/runtime/unwind.h"

#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/folders.h"

namespace tmprof::objtrace {
namespace unwind_test {

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
  std::vector<std::uint64_t> expected;  // result of the C library's own unwinder
};

[[gnu::noinline]] void Leaf(Walked& walked) {
  unwinder.Walk(__builtin_frame_address(0), walked.stack, walked.chain);
  void* found[64];
  const std::span all(found, static_cast<std::size_t>(::backtrace(found, 64)));
  // Before it are this function, and a sanitizer's.
  for (auto at = std::ranges::find(all, __builtin_return_address(0)); at != all.end(); ++at) {
    walked.expected.push_back(reinterpret_cast<std::uint64_t>(*at));
  }
}

// The compiler keeps a frame pointer for this.
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

// Clang keeps rbp for the caller's stack, too.
#ifdef __clang__
constexpr int kWordsOfAligned = 2;
#else
constexpr int kWordsOfAligned = 3;
#endif

// A frame of one's own has a word to itself, one with a frame pointer two, one that aligns its
// stack three by GCC: 1 + 10 * 2 + 4 * 3 are all there is room for, with a frame to go.
TEST(Unwind, NotesAsManyWordsAsThereIsRoomFor) {
  for (int framed = 1; framed <= 14; ++framed) {
    for (int realigned = 1; realigned <= 14; ++realigned) {
      SCOPED_TRACE(testing::Message() << framed << " and " << realigned << " that align");
      Walked walked;
      Realigned(walked, realigned, framed);
      const CallChain& chain = walked.chain;
      ASSERT_LE(chain.word_count, CallChain::kMaxWords);
      const int aligned =
          std::min(realigned, (CallChain::kMaxWords - 1 - 2 * framed) / kWordsOfAligned);
      if (aligned < realigned) {
        EXPECT_EQ(chain.depth, std::min(1 + framed + aligned, kMaxFrames));
        EXPECT_EQ(chain.is_cut, chain.depth < kMaxFrames);
      } else {
        EXPECT_GE(chain.depth, std::min(1 + framed + realigned, kMaxFrames));
      }
      ASSERT_GE(walked.expected.size(), static_cast<std::size_t>(chain.depth));
      EXPECT_TRUE(std::equal(chain.frames, chain.frames + chain.depth, walked.expected.begin()));
    }
  }
}

// A stack on which code has been called that has yet to change it: where it begins, the return
// address of its own call is all there is.
CallChain WalkFrom(Unwinder& own, std::uint64_t called, std::uint64_t caller) {
  // A saved rbp, who called the frame's function, who called that, and nobody.
  const std::uint64_t words[] = {0, called + 1, caller + 1, 0};
  const auto start = reinterpret_cast<std::uint64_t>(words);
  CallChain chain;
  own.Walk(words, {.start = start, .end = start + sizeof(words)}, chain);
  return chain;
}

Unwinder* interrupted = nullptr;
volatile std::sig_atomic_t has_interrupted = 0;

void Interrupt(int /*signal*/) {
  interrupted->ForgetClosed();
  has_interrupted = 1;
}

// Amid adding a place, as often as the timer falls there.
TEST(Unwind, ForgetsAClosedLibraryWhoeverIsAddingAPlace) {
  constexpr const char* kLibrary = TMPROF_BINARY_DIR "/lib/libobjects_made.so";
  const auto here = reinterpret_cast<std::uint64_t>(&OwnStack);
  const auto begin = reinterpret_cast<std::uint64_t>(::dlsym(RTLD_DEFAULT, "qsort"));
  struct sigaction act{};
  struct sigaction before_act{};
  act.sa_handler = Interrupt;
  ASSERT_EQ(::sigaction(SIGALRM, &act, &before_act), 0);
  constexpr int kRounds = 1000;
  constexpr int kRoundsOfOne = 50;  // whose table stays small
  std::vector<std::unique_ptr<Unwinder>> unwinders;
  std::uint64_t next = 0;
  int stale = 0;
  int unchanged = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round % kRoundsOfOne == 0) unwinders.push_back(std::make_unique<Unwinder>());
    Unwinder& own = *unwinders.back();
    void* loaded = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(loaded, nullptr) << ::dlerror();
    const auto made = reinterpret_cast<std::uint64_t>(::dlsym(loaded, "library_make"));
    const CallChain before = WalkFrom(own, made, here);
    ASSERT_EQ(before.depth, 2);
    ASSERT_FALSE(before.is_cut);
    ::dlclose(loaded);
    const std::uint32_t generation = own.generation();
    interrupted = &own;
    has_interrupted = 0;
    const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 20 + round % 30}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
    while (has_interrupted == 0) WalkFrom(own, begin + next++ % (1 << 16), here);
    unchanged += own.generation() == generation ? 1 : 0;
    const CallChain after = WalkFrom(own, made, here);
    stale += after.depth == 1 && after.is_cut ? 0 : 1;
  }
  ::sigaction(SIGALRM, &before_act, nullptr);
  EXPECT_EQ(unchanged, 0);
  EXPECT_EQ(stale, 0);
}

}  // namespace unwind_test
}  // namespace tmprof::objtrace
