// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's allocator and C++'s operators in programs that load the library, watches
// dlclose(3), and writes the dump at exit. The static library does not have this: a program that
// calls hmalloc() keeps its malloc(3).

#include <dlfcn.h>
#include <malloc.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "objects/runtime/dump.h"
#include "objects/runtime/heap_fast.h"
#include "objects/runtime/runtime.h"

#define TMPROF_EXPORT __attribute__((visibility("default")))
#define TMPROF_FRAME __builtin_frame_address(0)

using namespace tmprof::objtrace;

namespace {

std::size_t PageBytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): their names are not ours
extern "C" {

TMPROF_EXPORT int dlclose(void* handle) {
  static std::atomic<int (*)(void*)> next = nullptr;
  if (next == nullptr) next = reinterpret_cast<int (*)(void*)>(::dlsym(RTLD_NEXT, "dlclose"));
  closed_images.NoteLoaded();
  const int result = next.load()(handle);
  unwinder.ForgetClosed();
  return result;
}

TMPROF_EXPORT void* malloc(size_t bytes) { return OrNoMemory(heap.Allocate(bytes, TMPROF_FRAME)); }

TMPROF_EXPORT void* calloc(size_t elements, size_t element_bytes) {
  return AllocateArray(elements, element_bytes, TMPROF_FRAME);
}

TMPROF_EXPORT void* realloc(void* object, size_t bytes) {
  return tmprof::objtrace::Reallocate(object, bytes, TMPROF_FRAME);
}

TMPROF_EXPORT void* reallocarray(void* object, size_t elements, size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) return OrNoMemory(nullptr);
  return tmprof::objtrace::Reallocate(object, bytes, TMPROF_FRAME);
}

TMPROF_EXPORT void free(void* object) { FreeObject(object); }

TMPROF_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  return AllocateAligned(alignment, bytes, TMPROF_FRAME);
}

// Rounds the alignment up to a power of two, as the GNU C library does.
TMPROF_EXPORT void* memalign(size_t alignment, size_t bytes) {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return nullptr;
  }
  return AllocateAligned(std::bit_ceil(alignment), bytes, TMPROF_FRAME);
}

TMPROF_EXPORT int posix_memalign(void** object, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void*) != 0 || !std::has_single_bit(alignment)) return EINVAL;
  const int before = errno;
  void* made = AllocateAligned(alignment, bytes, TMPROF_FRAME);
  errno = before;
  if (made == nullptr) return ENOMEM;
  *object = made;
  return 0;
}

TMPROF_EXPORT void* valloc(size_t bytes) {
  return AllocateAligned(PageBytes(), bytes, TMPROF_FRAME);
}

TMPROF_EXPORT void* pvalloc(size_t bytes) {
  const size_t page = PageBytes();
  if (bytes > SIZE_MAX - (page - 1)) return OrNoMemory(nullptr);
  return AllocateAligned(page, (bytes + page - 1) / page * page, TMPROF_FRAME);
}

TMPROF_EXPORT size_t malloc_usable_size(void* object) {
  return object != nullptr ? heap.UsableBytes(object) : 0;
}
}
// NOLINTEND(readability-identifier-naming)

// They come from libstdc++, and are null in a C program, which does not need them.
namespace std {
__attribute__((noreturn, weak)) void __throw_bad_alloc();
__attribute__((weak)) new_handler get_new_handler() noexcept;
}  // namespace std

namespace {

// Follows the standard: the new-handler may make room, and otherwise ends the loop.
void* New(std::size_t bytes, std::size_t alignment, const void* frame) {
  while (true) {
    void* object = alignment == kAlignment ? heap.Allocate(bytes, frame)
                                           : heap.AllocateAligned(bytes, alignment, frame);
    if (object != nullptr) return object;
    const std::new_handler handler =
        &std::get_new_handler != nullptr ? std::get_new_handler() : nullptr;
    if (handler == nullptr) return nullptr;
    handler();
  }
}

void* NewOrThrow(std::size_t bytes, std::size_t alignment, const void* frame) {
  void* object = New(bytes, alignment, frame);
  if (object != nullptr) return object;
  if (&std::__throw_bad_alloc != nullptr) std::__throw_bad_alloc();
  Die("operator new: out of memory, and no C++ library to throw std::bad_alloc");
}

std::size_t Of(std::align_val_t alignment) {
  return std::max<std::size_t>(static_cast<std::size_t>(alignment), kAlignment);
}

}  // namespace

#define TMPROF_NEW(operation)                                                        \
  TMPROF_EXPORT void* operation(std::size_t bytes) {                                 \
    return NewOrThrow(bytes, kAlignment, TMPROF_FRAME);                              \
  }                                                                                  \
  TMPROF_EXPORT void* operation(std::size_t bytes, std::align_val_t alignment) {     \
    return NewOrThrow(bytes, Of(alignment), TMPROF_FRAME);                           \
  }                                                                                  \
  TMPROF_EXPORT void* operation(std::size_t bytes, const std::nothrow_t&) noexcept { \
    return New(bytes, kAlignment, TMPROF_FRAME);                                     \
  }                                                                                  \
  TMPROF_EXPORT void* operation(std::size_t bytes, std::align_val_t alignment,       \
                                const std::nothrow_t&) noexcept {                    \
    return New(bytes, Of(alignment), TMPROF_FRAME);                                  \
  }

#define TMPROF_DELETE(operation)                                                                 \
  TMPROF_EXPORT void operation(void* object) noexcept { FreeObject(object); }                    \
  TMPROF_EXPORT void operation(void* object, std::size_t) noexcept { FreeObject(object); }       \
  TMPROF_EXPORT void operation(void* object, std::align_val_t) noexcept { FreeObject(object); }  \
  TMPROF_EXPORT void operation(void* object, std::size_t, std::align_val_t) noexcept {           \
    FreeObject(object);                                                                          \
  }                                                                                              \
  TMPROF_EXPORT void operation(void* object, const std::nothrow_t&) noexcept {                   \
    FreeObject(object);                                                                          \
  }                                                                                              \
  TMPROF_EXPORT void operation(void* object, std::align_val_t, const std::nothrow_t&) noexcept { \
    FreeObject(object);                                                                          \
  }

TMPROF_NEW(operator new)
TMPROF_NEW(operator new[])
TMPROF_DELETE(operator delete)
TMPROF_DELETE(operator delete[])

namespace {

constexpr const char* kVariable = "TMPROF_OBJECTS";
constexpr const char* kDefaultPath = "tmprof-%p.objects";
constexpr std::size_t kMaxPath = 4096;

// Replaces each %p of `pattern` by the process's number. If there is no %p, a forked child appends
// its number, because it would overwrite its parent's file. False: the path is too long.
bool ExpandPath(const char* pattern, char (&path)[kMaxPath]) {
  char pid[16];
  std::snprintf(pid, sizeof(pid), "%d", static_cast<int>(::getpid()));
  std::size_t size = 0;
  bool has_pid = false;
  const auto append = [&](const char* text, std::size_t length) {
    if (size + length >= kMaxPath) return false;
    std::memcpy(path + size, text, length);
    size += length;
    return true;
  };
  for (const char* at = pattern; *at != '\0'; ++at) {
    const bool is_pid = at[0] == '%' && at[1] == 'p';
    if (!(is_pid ? append(pid, std::strlen(pid)) : append(at, 1))) return false;
    if (is_pid) ++at;
    has_pid = has_pid || is_pid;
  }
  if (!has_pid && heap.registry().forks() > 0 &&
      !(append(".", 1) && append(pid, std::strlen(pid)))) {
    return false;
  }
  path[size] = '\0';
  return true;
}

// Runs after the program's own destructors and atexit(3) functions. It does nothing if the program
// has more rights than the user: neither the user's variables nor folders may decide where it
// writes.
__attribute__((destructor(101))) void DumpAtExit() {
  if (::getauxval(AT_SECURE) != 0) return;
  const char* named = std::getenv(kVariable);
  const char* pattern = named != nullptr ? named : kDefaultPath;
  if (*pattern == '\0') return;
  char path[kMaxPath];
  const Links links = named != nullptr ? Links::kFollow : Links::kRefuse;
  const int error = ExpandPath(pattern, path) ? Dump(path, links) : ENAMETOOLONG;
  if (error == 0) return;
  std::fprintf(stderr, "tmprof: cannot write objects file '%s': %s; name another in %s\n",
               error == ENAMETOOLONG ? pattern : path, ::strerror(error), kVariable);
}

}  // namespace
