// SPDX-License-Identifier: Apache-2.0
// Preloaded into unmodified programs: reports allocations and frees to the recorder
// (objects/tracker/log.h). It reports all allocations from a threshold up, and of smaller ones one
// in each interval of allocated bytes.
//
// Tracked objects are known by their addresses, so that a free(3) of any other is cheap: one byte
// says that no tracked address is like it. It takes no lock and allocates nothing, and therefore
// works within the dynamic linker, signal handlers and children of fork(2). The kernel wipes its
// state in a child, which begins a log of its own.
//
// With an advice file (objects/tracker/advice.h) it also places objects of the named sites in
// arenas.

#include <malloc.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <threads.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/units.h"
#include "objects/tracker/events.h"
#include "objects/tracker/log.h"
#include "objects/tracker/next.h"
#include "objects/tracker/placing.h"
#include "objects/tracker/recording.h"
#include "objects/tracker/sampling.h"
#include "objects/tracker/state.h"
#include "objects/tracker/threads.h"
#include "objects/tracker/tracked.h"

#define TMPROF_EXPORT __attribute__((visibility("default")))

namespace tmprof::objtrace {
namespace {

// The data that most calls need. Such calls end in the next function, without a frame of their own.
// They are set if programs are tracked and nothing is placed. Until then all calls take the long
// path.
std::uint64_t small_below = 0;  // bytes; only a share of smaller allocations is recorded
// Never written, and therefore without memory.
std::atomic<std::uint8_t> no_tracked_pages[1 << kFilterShift];
const std::atomic<std::uint8_t>* tracked_pages = no_tracked_pages;  // later State::filter
void AnyFree(void* object);
std::size_t AnyUsableBytes(void* object);
void (*free_untracked)(void*) = AnyFree;  // frees objects on pages without tracked addresses
std::size_t (*usable_bytes)(void*) = AnyUsableBytes;
#define TMPROF_SHORT __attribute__((optimize("omit-frame-pointer", "optimize-sibling-calls")))

// The functions that the program calls end in these, which take the place of their frames
// (kOwnFrames).

__attribute__((noinline)) void* AnyMalloc(std::size_t bytes, bool is_counted) {
  if (!HasNext()) return AllocateEarly(bytes);
  void* placed = Placed(bytes, __builtin_return_address(0));
  return Allocated(placed != nullptr ? placed : next.malloc(bytes), bytes, is_counted);
}

// Precondition: the product fits into size_t.
__attribute__((noinline)) void* AnyCalloc(std::size_t elements, std::size_t element_bytes,
                                          bool is_counted) {
  const std::size_t bytes = elements * element_bytes;
  if (!HasNext()) return AllocateEarly(bytes);  // these are zeros, because they are never freed
  void* placed = Placed(bytes, __builtin_return_address(0), true);
  return Allocated(placed != nullptr ? placed : next.calloc(elements, element_bytes), bytes,
                   is_counted);
}

__attribute__((noinline)) void AnyFree(void* object) {
  if (IsEarly(object)) return;
  if (!HasNext()) return;
  Freeing(object);
  if (arenas.Has(object)) return arenas.Free(object);
  next.free(object);
}

__attribute__((noinline)) void* AnyRealloc(void* object, std::size_t bytes, bool is_counted) {
  if (!HasNext()) return AllocateEarly(bytes);
  if (IsEarly(object)) {
    void* moved = next.malloc(bytes);
    const auto room = static_cast<size_t>(early + kEarlyBytes - static_cast<std::byte*>(object));
    if (moved != nullptr) std::memcpy(moved, object, std::min(bytes, room));
    return moved;
  }
  if (arenas.Has(object)) {
    const std::uint64_t room = arenas.UsableBytes(object);
    const bool stays = bytes > 0 && bytes <= room && bytes > room / 2;
    void* moved = stays ? object : bytes > 0 ? MovePlaced(object, bytes) : nullptr;
    if (moved == nullptr && bytes > 0) return nullptr;
    Freeing(object);
    if (!stays) arenas.Free(object);
    return Allocated(moved, bytes, is_counted);
  }
  if (void* placed = bytes > 0 ? Placed(bytes, __builtin_return_address(0)) : nullptr) {
    if (object != nullptr) {
      std::memcpy(placed, object, std::min(bytes, next.usable(object)));
      Freeing(object);
      next.free(object);
    }
    return Allocated(placed, bytes, is_counted);
  }
  const bool was_tracked = Freeing(object);
  void* moved = next.realloc(object, bytes);
  if (moved == nullptr && was_tracked && bytes > 0) {  // the object is still there
    Allocated(object, next.usable(object));
    return nullptr;
  }
  return Allocated(moved, bytes, is_counted);
}

__attribute__((noinline)) std::size_t AnyUsableBytes(void* object) {
  if (object == nullptr || IsEarly(object) || !HasNext()) return 0;
  return arenas.Has(object) ? arenas.UsableBytes(object) : next.usable(object);
}

// True if `free_untracked` is enough for the object.
__attribute__((always_inline)) inline bool IsUntracked(const void* object) {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  return __builtin_expect(tracked_pages[FilterIndex(address)].load(std::memory_order_relaxed) == 0,
                          1);
}

// Inlined into the function that the program calls, which would otherwise be the caller.
__attribute__((always_inline)) inline void* ReallocForCaller(void* object, std::size_t bytes) {
  if (bytes >= small_below || !IsUntracked(object)) return AnyRealloc(object, bytes, false);
  if (IsPassed(bytes)) return next.realloc(object, bytes);
  return AnyRealloc(object, bytes, true);
}

// The part that stays cannot become another's meanwhile. Only the part that is cut off is reported
// before it goes. Inlined into mremap(2), because of kOwnFrames.
__attribute__((always_inline)) inline void* RemapInPlace(void* old, std::uint64_t old_bytes,
                                                         std::uint64_t bytes, int flags,
                                                         const void* caller) {
  const std::uint64_t kept = (bytes + kBasePageBytes - 1) / kBasePageBytes * kBasePageBytes;
  const char* cut = static_cast<char*>(old) + kept;
  const std::uint64_t cut_bytes = kept < old_bytes ? old_bytes - kept : 0;
  TellOfRange(LogEventKind::kGoing, cut, cut_bytes);
  void* mapped = next.mremap(old, old_bytes, bytes, flags, nullptr);
  TellOfRange(mapped == MAP_FAILED ? LogEventKind::kStayed : LogEventKind::kGone, cut, cut_bytes);
  if (mapped != MAP_FAILED && bytes > old_bytes && state != nullptr && !within) {
    TellOfRange(LogEventKind::kUnmapped, old, old_bytes);
    Record(mapped, bytes, LogEventKind::kMapped, false, caller);
  }
  return mapped;
}

void BeginTracking() {
  const char* asked = std::getenv(kTrackVariable);
  if (asked == nullptr) return;
  Request made;
  char* end = nullptr;
  made.threshold = std::strtoull(asked, &end, 10);
  made.interval = std::strtoull(end, &end, 10);
  if (*end++ != ' ' || std::strlen(end) >= sizeof(made.folder)) return;
  std::strcpy(made.folder, end);
  void* memory = next.mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  if (::madvise(memory, sizeof(State), MADV_WIPEONFORK) != 0) {
    next.munmap(memory, sizeof(State));
    return;
  }
  ::madvise(memory, sizeof(State), MADV_NOHUGEPAGE);
  request = made;
  state = static_cast<State*>(memory);
  // Memory that was allocated before the next functions were known is on no page of the filter.
  if (advice == nullptr && !HasEarly()) {
    small_below = request.threshold;
    tracked_pages = state->filter;
    free_untracked = next.free;
    usable_bytes = next.usable;
  }
  BeginTellingOfThreads();
  ::pthread_atfork(nullptr, nullptr, SampleAnew);
  Log();
}

// Does nothing if the program has more rights than its user.
__attribute__((constructor)) void Begin() {
  if (::getauxval(AT_SECURE) != 0 || !HasNext()) return;
  const Within here;
  Walk walk;
  _Unwind_Backtrace(AddFrame, &walk);  // loads its needs, which may allocate
  BeginPlacing();
  BeginTracking();
}

}  // namespace
}  // namespace tmprof::objtrace

using namespace tmprof::objtrace;

// NOLINTBEGIN(readability-identifier-naming): their names are not ours
extern "C" {

TMPROF_SHORT TMPROF_EXPORT void* malloc(size_t bytes) {
  if (__builtin_expect(bytes >= small_below, 0)) return AnyMalloc(bytes, false);
  if (IsPassed(bytes)) return next.malloc(bytes);
  return AnyMalloc(bytes, true);
}

TMPROF_SHORT TMPROF_EXPORT void* calloc(size_t elements, size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (__builtin_expect(bytes >= small_below, 0)) return AnyCalloc(elements, element_bytes, false);
  if (IsPassed(bytes)) return next.calloc(elements, element_bytes);
  return AnyCalloc(elements, element_bytes, true);
}

TMPROF_SHORT TMPROF_EXPORT void free(void* object) {
  if (IsUntracked(object)) return free_untracked(object);
  return AnyFree(object);
}

TMPROF_SHORT TMPROF_EXPORT void* realloc(void* object, size_t bytes) {
  return ReallocForCaller(object, bytes);
}

TMPROF_SHORT TMPROF_EXPORT void* reallocarray(void* object, size_t elements, size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return ReallocForCaller(object, bytes);
}

TMPROF_SHORT TMPROF_EXPORT size_t malloc_usable_size(void* object) { return usable_bytes(object); }

TMPROF_EXPORT int posix_memalign(void** object, size_t alignment, size_t bytes) {
  if (!HasNext()) return ENOMEM;
  const int error = next.posix_memalign(object, alignment, bytes);
  if (error == 0) Allocated(*object, bytes);
  return error;
}

TMPROF_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.aligned_alloc(alignment, bytes), bytes);
}

TMPROF_EXPORT void* memalign(size_t alignment, size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.memalign(alignment, bytes), bytes);
}

TMPROF_EXPORT void* valloc(size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.valloc(bytes), bytes);
}

TMPROF_EXPORT void* pvalloc(size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.pvalloc(bytes), bytes);
}

TMPROF_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                 void* (*function)(void*), void* argument) {
  if (!HasNext()) return EAGAIN;
  ThreadStart* start = tells_of_threads ? TakeThreadStart() : nullptr;
  if (start == nullptr) return next.pthread_create(thread, attributes, function, argument);
  start->function.posix = function;
  start->argument = argument;
  NoteStack(attributes, *start);
  const int error = next.pthread_create(thread, attributes, BeginPosixThread, start);
  if (error != 0) ReleaseThreadStart(start);
  return error;
}

TMPROF_EXPORT int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  if (!HasNext()) return thrd_error;
  ThreadStart* start = tells_of_threads ? TakeThreadStart() : nullptr;
  if (start == nullptr) return next.thrd_create(thread, function, argument);
  start->function.c11 = function;
  start->argument = argument;
  NoteStack(nullptr, *start);
  const int error = next.thrd_create(thread, BeginC11Thread, start);
  if (error != thrd_success) ReleaseThreadStart(start);
  return error;
}

TMPROF_EXPORT void* mmap(void* hint, size_t bytes, int protection, int flags, int fd, off_t from) {
  if (!HasNext()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* mapped = next.mmap(hint, bytes, protection, flags, fd, from);
  if (mapped != MAP_FAILED && state != nullptr && !within) {
    Record(mapped, bytes, LogEventKind::kMapped, false, __builtin_return_address(0));
  }
  return mapped;
}

TMPROF_EXPORT int munmap(void* start, size_t bytes) {
  if (!HasNext()) {
    errno = EINVAL;
    return -1;
  }
  // It is reported before it is unmapped, because another thread may then get its addresses.
  TellOfRange(LogEventKind::kGoing, start, bytes);
  const int result = next.munmap(start, bytes);
  TellOfRange(result == 0 ? LogEventKind::kGone : LogEventKind::kStayed, start, bytes);
  return result;
}

TMPROF_EXPORT void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) {
  if (!HasNext()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  va_list rest;
  va_start(rest, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  const bool stays = (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0 && bytes <= old_bytes;
  if ((flags & MREMAP_MAYMOVE) == 0 || stays) {
    return RemapInPlace(old, old_bytes, bytes, flags, __builtin_return_address(0));
  }
  // It is reported before it is moved, because another thread may then get its addresses.
  TellOfRange(LogEventKind::kGoing, old, old_bytes);
  void* mapped = next.mremap(old, old_bytes, bytes, flags, wanted);
  const bool has_gone = mapped != MAP_FAILED && (flags & MREMAP_DONTUNMAP) == 0;
  TellOfRange(has_gone ? LogEventKind::kGone : LogEventKind::kStayed, old, old_bytes);
  if (mapped != MAP_FAILED && state != nullptr && !within) {
    Record(mapped, bytes, LogEventKind::kMapped, false, __builtin_return_address(0));
  }
  return mapped;
}
}
// NOLINTEND(readability-identifier-naming)

extern "C" TMPROF_EXPORT void* mmap64(void* hint, size_t bytes, int protection, int flags, int fd,
                                      off_t from) __attribute__((alias("mmap")));
