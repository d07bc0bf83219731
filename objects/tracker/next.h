// SPDX-License-Identifier: Apache-2.0
// The functions that the tracker replaces, in the form of the next library.

#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <threads.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

// The next functions in the order of libraries. They are found at the first call, before there are
// threads.
struct NextFunctions {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  void* (*mmap)(void*, std::size_t, int, int, int, off_t);
  int (*munmap)(void*, std::size_t);
  void* (*mremap)(void*, std::size_t, std::size_t, int, ...);
  std::size_t (*usable)(void*);
  int (*pthread_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int (*thrd_create)(thrd_t*, thrd_start_t, void*);
};
extern NextFunctions next;

// Returns false while it is finding them.
bool FindNext();
inline bool HasNext() { return __builtin_expect(next.malloc != nullptr, 1) || FindNext(); }

// Memory for allocations during the search, which is never freed.
inline constexpr std::size_t kEarlyBytes = 1 << 16;
extern std::byte early[kEarlyBytes];
// Returns zeros; null: there is no room left.
void* AllocateEarly(std::size_t bytes);
bool HasEarly();
inline bool IsEarly(const void* object) {
  return reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(early) <
         kEarlyBytes;
}

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
