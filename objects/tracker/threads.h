// SPDX-License-Identifier: Apache-2.0
// Reports threads and the places of their stacks.

#pragma once

#include <pthread.h>
#include <threads.h>

#include <cstdint>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern bool tells_of_threads;
void BeginTellingOfThreads();

struct ThreadStart {
  // A POSIX function returns a pointer, a C11 function a number.
  union {
    void* (*posix)(void*);
    thrd_start_t c11;
  } function;
  void* argument;
  // 0: the C library chooses the stack, which ends with the thread's descriptor.
  std::uint64_t stack_end;
  std::uint64_t stack_bytes;
};

// Returns null if there is no memory. It uses malloc(3) only if many threads are about to begin. A
// thread that frees such memory gets an arena or a cache of its own, even if it never calls
// malloc(3) itself.
ThreadStart* TakeThreadStart();
void ReleaseThreadStart(ThreadStart* start);

// Notes the stack of a thread that is created with these attributes; null: defaults.
void NoteStack(const pthread_attr_t* attributes, ThreadStart& start);
// Reports the thread and releases `start`.
void TellThreadBegins(ThreadStart* start);

// They leave no frame below the thread's function, so that the stacks of its allocations are
// unchanged.
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
