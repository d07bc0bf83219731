// SPDX-License-Identifier: Apache-2.0
// Implements tmprof/objects.h and the functions that instrumented code calls.

#include "objects/include/tmprof/objects.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>

#include "objects/runtime/dump.h"
#include "objects/runtime/heap_fast.h"
#include "objects/runtime/runtime.h"

namespace tmprof::objtrace {

constinit Statics statics;
constinit ClosedImages closed_images;

void* OrNoMemory(void* object) {
  if (object == nullptr) errno = ENOMEM;
  return object;
}

void* AllocateAligned(std::size_t alignment, std::size_t bytes, const void* frame) {
  if (!std::has_single_bit(alignment)) {
    errno = EINVAL;
    return nullptr;
  }
  return OrNoMemory(
      heap.AllocateAligned(bytes, std::max<std::uint64_t>(alignment, kAlignment), frame));
}

void* AllocateArray(std::size_t elements, std::size_t element_bytes, const void* frame) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) return OrNoMemory(nullptr);
  return OrNoMemory(heap.AllocateZeros(bytes, frame));
}

void* Reallocate(void* object, std::size_t bytes, const void* frame) {
  if (object == nullptr) return OrNoMemory(heap.Allocate(bytes, frame));
  if (bytes == 0) {  // like the GNU C library
    heap.Free(object);
    return nullptr;
  }
  return OrNoMemory(heap.Reallocate(object, bytes, frame));
}

void FreeObject(void* object) {
  const int before = errno;
  if (object != nullptr) heap.Free(object);
  errno = before;
}

namespace {

std::uint64_t AddressOf(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

mem_object Describe(const Header& header) {
  const std::uint64_t now = NowMs();
  const std::uint64_t born = heap.start_ms() + header.birth_ms;
  return {.start = reinterpret_cast<void*>(heap.StartOf(header)),
          .bytes = heap.BytesOf(header),
          .accesses = heap.CountOf(header),
          .age_ms = now > born ? now - born : 0,
          .stack_id = header.stack};
}

__attribute__((noinline)) void CountSlowly(const void* p, std::uint64_t accesses) {
  Thread* thread = heap.registry().Self();
  if (thread == nullptr) return;  // no memory for this thread's record
  if (heap.Count(*thread, AddressOf(p), accesses)) return;
  CountElsewhere(*thread, statics, heap.registry(), AddressOf(p), accesses);
}

inline void Count(const void* p, std::uint64_t accesses) {
  Thread* thread = self;
  if (thread != nullptr && heap.CountAgain(*thread, AddressOf(p), accesses)) return;
  if (thread != nullptr && CountOnOwnStack(*thread, AddressOf(p), accesses)) return;
  CountSlowly(p, accesses);
}

sigset_t before_fork;  // guarded by all locks

// Locks are taken in this order: closed images, the dynamic linker's own, the heap's, the statics'.
// Whoever notes loaded images asks the linker under the first. The linker frees memory under its
// own, and calls code that may allocate (dl_iterate_phdr(3), constructors). Signal handlers that
// interrupt holders of the others take the last.
void LockAll() {
  const sigset_t before = SignalsBlocked::Block();
  closed_images.lock().Acquire();
  heap.LockAll();
  statics.lock().Acquire();
  before_fork = before;
}

void UnlockAll() {
  const sigset_t before = before_fork;
  statics.lock().Release();
  heap.UnlockAll();
  closed_images.lock().Release();
  SignalsBlocked::Restore(before);
}

void AfterForkInChild() {
  heap.registry().KeepOnlySelf();
  unwinder.KeepOnlySelf();
  UnlockAll();
}

// Runs before other fork(2) handlers and constructors, which may allocate.
__attribute__((constructor(101))) void Begin() {
  ::pthread_atfork(LockAll, UnlockAll, AfterForkInChild);
}

}  // namespace
}  // namespace tmprof::objtrace

using namespace tmprof::objtrace;

extern "C" {

void* hmalloc(size_t bytes) { return OrNoMemory(heap.Allocate(bytes, __builtin_frame_address(0))); }

void* hcalloc(size_t elements, size_t element_bytes) {
  return AllocateArray(elements, element_bytes, __builtin_frame_address(0));
}

void* hrealloc(void* object, size_t bytes) {
  return tmprof::objtrace::Reallocate(object, bytes, __builtin_frame_address(0));
}

void* haligned_alloc(size_t alignment, size_t bytes) {
  return AllocateAligned(alignment, bytes, __builtin_frame_address(0));
}

void hfree(void* object) { FreeObject(object); }

void mem_access(void* p, int count) {
  if (count > 0) Count(p, static_cast<std::uint64_t>(count));
}

uint64_t mem_access_count64(const void* p) {
  const Header* header = heap.Find(AddressOf(p));
  return header != nullptr ? heap.CountOf(*header) : 0;
}

int mem_access_count(void* p) {
  return static_cast<int>(std::min<uint64_t>(mem_access_count64(p), INT_MAX));
}

int mem_access_each(int (*visit)(const mem_object* object, void* context), void* context) {
  for (const Header* header = heap.NextFrom(heap.pool().start()); header != nullptr;
       header = heap.NextFrom(AddressOf(header) + 1)) {
    const mem_object object = Describe(*header);
    if (const int result = visit(&object, context)) return result;
  }
  return 0;
}

int mem_access_find(const void* p, mem_object* object) {
  const Header* header = heap.Find(AddressOf(p));
  if (header == nullptr) return 0;
  *object = Describe(*header);
  return 1;
}

void mem_access_stat(void) {
  std::printf("%-18s %14s %20s %8s\n", "object", "bytes", "accesses", "stack");
  mem_access_each(
      [](const mem_object* object, void*) {
        return std::printf("0x%016" PRIxPTR " %14zu %20" PRIu64 " %8" PRIu32 "\n",
                           reinterpret_cast<std::uintptr_t>(object->start), object->bytes,
                           object->accesses, object->stack_id) < 0
                   ? 1
                   : 0;
      },
      nullptr);
}

int mem_access_by_element(void* p, size_t element_bytes) {
  Header* header = heap.Find(AddressOf(p));
  if (header == nullptr || element_bytes == 0) return EINVAL;
  return heap.CountByElement(*header, element_bytes);
}

uint64_t mem_access_element_count(const void* p) {
  const Header* header = heap.Find(AddressOf(p));
  const Elements* elements = header != nullptr ? heap.ElementsOf(*header) : nullptr;
  if (elements == nullptr) return 0;
  const uint64_t index = (AddressOf(p) - elements->start) / elements->element_bytes;
  return index < elements->elements ? elements->counts[index].load(std::memory_order_relaxed) : 0;
}

void mem_access_reset(void) { heap.Reset(); }

int mem_access_dump(const char* path) { return Dump(path, Links::kFollow); }

void tmprof_count(const void* address, std::uint64_t accesses) { Count(address, accesses); }

void tmprof_count_static(std::uint64_t id, std::uint64_t accesses) {
  if (Thread* thread = heap.registry().Self()) Add(thread->static_counts[id], accesses);
}

void tmprof_attach(const Module* module) {
  if (module->layout_version != kLayoutVersion) {
    Die("a module was built by another version of 'tmprof cc' than the library that is loaded");
  }
  void* first = heap.Allocate(1, __builtin_frame_address(0));  // makes sure that there is a heap
  if (first != nullptr) heap.Free(first);
  if (!heap.pool().IsWhereCodeExpectsIt()) {
    Die("cannot have the addresses that instrumented code expects its heap at; is 'ulimit -v' "
        "set?");
  }
  statics.Attach(*module, heap.registry());
}

void tmprof_detach(const Module* module) { statics.Detach(*module); }

void tmprof_uncounted(const char* names) { statics.NoteUncounted(names); }
}
