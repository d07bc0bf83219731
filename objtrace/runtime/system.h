// SPDX-License-Identifier: Apache-2.0
// What the runtime takes of the system. It lives inside other people's programs, under their
// malloc(3): none of this allocates, throws, or needs a C++ library.

#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tmprof::objtrace {

// Ends the program: "tmprof: WHAT ADDRESS" on standard error, and abort(3).
[[noreturn]] void Die(const char* what, const void* address);
// The same without an address.
[[noreturn]] void Die(const char* what);

inline constexpr std::uint64_t kPageBytes = 4096;  // of x86-64
inline std::uint64_t PagesOf(std::uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

// Addresses without memory, at `hint` if it is free; null where the system has none.
std::byte* Reserve(std::uint64_t bytes, std::uint64_t hint = 0);
// Gives memory, all zeros, to the pages of a part of what was reserved that have none; false where
// there is none.
bool Commit(void* start, std::uint64_t bytes);
// Lets a part of what was reserved be read, as zeros; false where the system refuses.
bool AllowReading(void* start, std::uint64_t bytes);
// Memory that is all zeros and only there where it is written; null where there is none.
void* MapSparse(std::uint64_t bytes);
// Takes back what MapSparse() or Reserve() gave; null is nothing.
void Unmap(void* start, std::uint64_t bytes);

// Whether the caller runs on what sigaltstack(2) gave for signal handlers.
bool OnAlternateStack();

// On CLOCK_MONOTONIC_COARSE.
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

// While it lives the calling thread takes no signal. Around locks that counting takes: a handler
// that counts would wait for the thread that it interrupted.
class SignalsBlocked {
 public:
  SignalsBlocked() : before_(Block()) {}
  ~SignalsBlocked() { Restore(before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  // The same where it is no scope. Returns what to restore.
  static sigset_t Block();
  static void Restore(const sigset_t& before);

 private:
  sigset_t before_;
};

// Of words that one thread writes and others read.
template <typename T>
T Load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
void Store(T& word, std::type_identity_t<T> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
// By the one thread that writes it. One instruction: a signal handler that adds, too, runs before
// it or after it.
inline void Add(std::uint64_t& word, std::uint64_t more) {
  asm("addq %1, %0" : "+m"(word) : "er"(more) : "cc");
}

}  // namespace tmprof::objtrace
