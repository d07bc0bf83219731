// SPDX-License-Identifier: Apache-2.0
// System services that the runtime uses. It lives inside other people's programs, under their
// malloc(3): none of this allocates, throws, or needs a C++ library.

#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tmprof::objtrace {

// Ends the program: writes "tmprof: WHAT ADDRESS" to standard error and calls abort(3).
[[noreturn]] void Die(const char* what, const void* address);
// Ends the program without naming an address.
[[noreturn]] void Die(const char* what);

inline constexpr std::uint64_t kPageBytes = 4096;  // the base page of x86-64
inline std::uint64_t PagesOf(std::uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

// Reserves addresses without memory, at `hint` if it is free; null if the system has none.
std::byte* Reserve(std::uint64_t bytes, std::uint64_t hint = 0);
// Gives memory, all zeros, to those pages of a part of reserved addresses that have none. False:
// there is no memory.
bool Commit(void* start, std::uint64_t bytes);
// Makes a part of reserved addresses readable as zeros. False: the system refused.
bool AllowReading(void* start, std::uint64_t bytes);
// Maps memory that is all zeros and takes up room only after writes; null if there is none.
void* MapSparse(std::uint64_t bytes);
// Unmaps memory of MapSparse() or Reserve(). Null does nothing.
void Unmap(void* start, std::uint64_t bytes);

// True if the caller runs on the stack that sigaltstack(2) gave to signal handlers.
bool OnAlternateStack();

// Reads CLOCK_MONOTONIC_COARSE.
std::uint64_t NowMs();

class Lock {
 public:
  void Acquire() { pthread_mutex_lock(&mutex_); }
  void Release() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.Acquire(); }
  ~Locked() { lock_.Release(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

// Blocks all signals of the calling thread while it lives. It is used around locks that counting
// takes, because a handler that counts would wait for the thread that it interrupted.
class SignalsBlocked {
 public:
  SignalsBlocked() : before_(Block()) {}
  ~SignalsBlocked() { Restore(before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  // Block without a scope. Block() returns the mask to restore.
  static sigset_t Block();
  static void Restore(const sigset_t& before);

 private:
  sigset_t before_;
};

// Access words that one thread writes and others read.
template <typename T>
T Load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
void Store(T& word, std::type_identity_t<T> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
// Adds to a word that only the calling thread writes. It is one instruction, so that a signal
// handler that adds, too, runs before it or after it.
inline void Add(std::uint64_t& word, std::uint64_t more) {
  asm("addq %1, %0" : "+m"(word) : "er"(more) : "cc");
}

}  // namespace tmprof::objtrace
