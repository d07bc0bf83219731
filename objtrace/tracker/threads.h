// SPDX-License-Identifier: Apache-2.0
// Telling of threads and where their stacks lie.

#pragma once

#include "objtrace/tracker/next.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern bool tells_of_threads;
void BeginTellingOfThreads();

// Of POSIX, with a pointer as its result, or of C11, with a number.
template <typename Result>
struct ThreadStart {
  Result (*function)(void*);
  void* argument;
};

void TellThreadBegins();

// Leaves no frame below the thread's function: the stacks of what it allocates are what they were.
template <typename Result>
__attribute__((optimize("optimize-sibling-calls"))) Result BeginThread(void* from) {
  const auto start = *static_cast<ThreadStart<Result>*>(from);
  next.free(from);
  TellThreadBegins();
  return start.function(start.argument);
}

// By `create`, of a function and its argument: 0, or what is wrong.
template <typename Result, typename Create>
int CreateThread(Result (*function)(void*), void* argument, Create create) {
  void* start = tells_of_threads ? next.malloc(sizeof(ThreadStart<Result>)) : nullptr;
  if (start == nullptr) return create(function, argument);
  *static_cast<ThreadStart<Result>*>(start) = {.function = function, .argument = argument};
  const int error = create(BeginThread<Result>, start);
  if (error != 0) next.free(start);
  return error;
}

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
