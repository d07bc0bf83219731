// SPDX-License-Identifier: Apache-2.0
// The contract between the runtime and the code that the compiler pass inserts. Freestanding.
//
// The inserted code finds an address's object by the span that the address lies in:
//
//   entry  = table[address / 256 KiB]
//   index  = address % 256 KiB * entry.reciprocal >> 40
//   header = entry.origin + index * entry.slot_bytes
//
// It adds to header.count itself if the span belongs to the running thread, because no other thread
// writes there. Everything else is left to the runtime (tmprof_count). The table covers all
// addresses that a program can have. Addresses outside of the heap belong to nobody, and their
// entries take no memory.
//
// Fields are as wide as their operands, so that each addition or multiplication takes one
// instruction with an operand in memory. Counts slow down a program that searches a tree mostly
// because fewer of its instructions are in flight at once (bench/results/objects.md).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tmprof::objtrace {

// The number rises with every change to this file. A module of another version is refused at start.
inline constexpr std::uint32_t kLayoutVersion = 4;

// Place of the heap in a program that `tmprof cc` built. It is far from addresses that the kernel
// chooses for programs, libraries and mmap(2). The sanitizers' shadows may be there: they cannot be
// used together with this.
inline constexpr std::uint64_t kHeapStart = std::uint64_t{1} << 44;
inline constexpr int kHeapShift = 42;
inline constexpr std::uint64_t kHeapBytes = std::uint64_t{1} << kHeapShift;

// Large spans make a small table, so that more of it is in a processor's first caches: 80 KB for
// ten million objects in slots of 64 bytes.
inline constexpr int kSpanShift = 18;
inline constexpr std::uint64_t kSpanBytes = std::uint64_t{1} << kSpanShift;
inline constexpr std::uint64_t kSlotUnitBytes = 16;
inline constexpr int kReciprocalShift = 40;

// The entry of one span. If nobody may count there, all fields but `origin` are zero, and `owner`
// is nobody.
struct SpanEntry {
  std::uint32_t owner;  // number of the thread that counts without the runtime; 0: none
  // Address of the first slot, in this span or in the first span of one object.
  std::uint64_t origin;
  std::uint64_t reciprocal;  // ceil(2^40 / slot bytes), or 0: one object from `origin` on
  std::uint64_t slot_bytes;
};
inline constexpr std::uint16_t kNoThread = UINT16_MAX;  // owns nothing
static_assert(sizeof(SpanEntry) == 32);

// Linux gives no higher address to programs that do not ask for one (x86-64: mm/5level-paging).
inline constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 47;
inline constexpr std::uint64_t kTableBytes = (kAddressEnd >> kSpanShift) * sizeof(SpanEntry);
inline constexpr std::uint64_t kTableStart = kHeapStart - kTableBytes;

// It stands before each object.
struct Header {
  std::uint32_t stack;  // ID of the allocation stack
  std::uint16_t seal;   // tells a live object, a free slot and an overwritten header apart
  std::uint8_t generation;
  std::uint8_t alignment_shift;
  std::uint64_t count;                // accesses by the span's owner
  std::atomic<std::uint64_t> shared;  // those by all other threads; may still grow in a free slot
  // The two fields of a free slot are the link to the next one, low half first.
  std::uint32_t birth_ms;  // since the runtime began
  std::uint32_t bytes;     // kLargeBytes: see the span
};
static_assert(sizeof(Header) == 32);
static_assert(offsetof(Header, count) == 8);

// A variable of an instrumented module. The pass writes an array of these, and the runtime sets
// their IDs.
struct StaticObject {
  std::uint64_t start;
  std::uint64_t bytes;
  const char* name;  // the ELF symbol
  std::uint64_t id;  // index in a thread's `static_counts`
};
static_assert(sizeof(StaticObject) == 32);

// A module's constructor and destructor pass this to the runtime.
struct Module {
  std::uint32_t layout_version;
  std::uint32_t objects;
  StaticObject* object;
};

// IDs of a thread's static counts that belong to no variable.
inline constexpr std::uint64_t kElsewhereId = 0;
inline constexpr std::uint64_t kOwnStackId = 1;
inline constexpr std::uint64_t kFirstStaticId = 2;

}  // namespace tmprof::objtrace

#pragma GCC visibility push(default)
extern "C" {
// Number of the calling thread; kNoThread before its first allocation or slow count.
extern __thread std::uint32_t tmprof_thread __attribute__((tls_model("initial-exec")));
// The calling thread's counts by ID; null before its first allocation or slow count.
extern __thread std::uint64_t* tmprof_static_counts __attribute__((tls_model("initial-exec")));

void tmprof_count(const void* address, std::uint64_t accesses);
void tmprof_count_static(std::uint64_t id, std::uint64_t accesses);
void tmprof_attach(const tmprof::objtrace::Module* module);
void tmprof_detach(const tmprof::objtrace::Module* module);
// Notes parts of a module that the pass has not instrumented. `names` is a list of strings that end
// in a zero each; the last one is empty. `tmprof cc` has this called in the modules that it links.
void tmprof_uncounted(const char* names);
}
#pragma GCC visibility pop
