// SPDX-License-Identifier: Apache-2.0
// Telling of threads and where their stacks lie.

#pragma once

#include <pthread.h>
#include <threads.h>

#include <cstdint>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern bool tells_of_threads;
void BeginTellingOfThreads();

struct ThreadStart {
  // Of POSIX, with a pointer as its result, or of C11, with a number.
  union {
    void* (*posix)(void*);
    thrd_start_t c11;
  } function;
  void* argument;
  std::uint64_t stack_end;  // 0: the C library's, which ends with the thread's descriptor
  std::uint64_t stack_bytes;
};

// Null: there is no memory. Of malloc(3) only where many threads are about to begin: when it frees
// this, it gives a thread that never calls it an arena or a cache of its own.
ThreadStart* TakeThreadStart();
void ReleaseThreadStart(ThreadStart* start);

// Of a thread that is made with these; null: by default.
void NoteStack(const pthread_attr_t* attributes, ThreadStart& start);
// And releases it.
void TellThreadBegins(ThreadStart* start);

// Leave no frame below the thread's function: the stacks of what it allocates are what they were.
__attribute__((optimize("optimize-sibling-calls"))) inline void* BeginPosixThread(void* from) {
  auto* start = static_cast<ThreadStart*>(from);
  const auto function = start->function.posix;
  void* argument = start->argument;
  TellThreadBegins(start);
  return function(argument);
}
__attribute__((optimize("optimize-sibling-calls"))) inline int BeginC11Thread(void* from) {
  auto* start = static_cast<ThreadStart*>(from);
  const auto function = start->function.c11;
  void* argument = start->argument;
  TellThreadBegins(start);
  return function(argument);
}

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
