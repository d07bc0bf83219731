// SPDX-License-Identifier: Apache-2.0
// What the runtime and the code that the compiler pass inserts agree on. Freestanding.
//
// The inserted code finds an address's object by the span that the address lies in:
//
//   entry  = table[address / 256 KiB]
//   index  = address % 256 KiB * entry.reciprocal >> 40
//   header = entry.origin + index * entry.slot_bytes
//
// and adds to header.count itself where the span belongs to the thread that runs: no other thread
// writes there. All else is for the runtime (tmprof_count). The table covers all addresses that a
// program can have; those outside of the heap belong to nobody, and their entries take no memory.
//
// Fields are as wide as what they are added to or multiplied by, so that each takes one instruction
// with an operand in memory: what counts cost a program that searches a tree is mostly that fewer
// of its instructions are in flight at once (docs/results.md).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tmprof::objtrace {

// Raised with every change to this file: a module of another version is refused at start.
inline constexpr std::uint32_t kLayoutVersion = 4;

// Where the heap of a program is that `tmprof cc` built. Far from what the kernel gives to
// programs, libraries and mmap(2) unasked. The sanitizers' shadows may be there: the two do not go
// together.
inline constexpr std::uint64_t kHeapStart = std::uint64_t{1} << 44;
inline constexpr int kHeapShift = 42;
inline constexpr std::uint64_t kHeapBytes = std::uint64_t{1} << kHeapShift;

// Large spans make a small table, of which more is in a processor's first caches: 80 KB for ten
// million objects in slots of 64 bytes.
inline constexpr int kSpanShift = 18;
inline constexpr std::uint64_t kSpanBytes = std::uint64_t{1} << kSpanShift;
inline constexpr std::uint64_t kSlotUnitBytes = 16;
inline constexpr int kReciprocalShift = 40;

// Of one span, for everybody. Zero but for `origin` where nobody may count: `owner` is then
// nobody's.
struct SpanEntry {
  std::uint32_t owner;       // number of the thread that counts without the runtime; 0: none
  std::uint64_t origin;      // address of the first slot: the span's own, or of one object's span
  std::uint64_t reciprocal;  // ceil(2^40 / slot bytes), or 0: one object from `origin` on
  std::uint64_t slot_bytes;
};
inline constexpr std::uint16_t kNoThread = UINT16_MAX;  // owns nothing
static_assert(sizeof(SpanEntry) == 32);

// Linux gives no address above to programs that do not ask for one (x86-64: mm/5level-paging).
inline constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 47;
inline constexpr std::uint64_t kTableBytes = (kAddressEnd >> kSpanShift) * sizeof(SpanEntry);
inline constexpr std::uint64_t kTableStart = kHeapStart - kTableBytes;

// Before each object.
struct Header {
  std::uint32_t stack;  // ID of the allocation stack
  std::uint16_t seal;   // tells a live object, a free slot and an overwritten header apart
  std::uint8_t generation;
  std::uint8_t alignment_shift;
  std::uint64_t count;                // by the span's owner
  std::atomic<std::uint64_t> shared;  // by all others; may still be added to in a free slot
  // In a free slot both are the link to the next one, low half first.
  std::uint32_t birth_ms;  // since the runtime began
  std::uint32_t bytes;     // kLargeBytes: see the span
};
static_assert(sizeof(Header) == 32);
static_assert(offsetof(Header, count) == 8);

// A variable of an instrumented module. The pass writes an array of these, and the runtime the ID.
struct StaticObject {
  std::uint64_t start;
  std::uint64_t bytes;
  const char* name;  // the ELF symbol
  std::uint64_t id;  // of a thread's `static_counts`
};
static_assert(sizeof(StaticObject) == 32);

// What a module's constructor and destructor hand over.
struct Module {
  std::uint32_t layout_version;
  std::uint32_t objects;
  StaticObject* object;
};

// IDs of a thread's static counts that are not a variable's.
inline constexpr std::uint64_t kElsewhereId = 0;
inline constexpr std::uint64_t kOwnStackId = 1;
inline constexpr std::uint64_t kFirstStaticId = 2;

}  // namespace tmprof::objtrace

#pragma GCC visibility push(default)
extern "C" {
// Number of the calling thread; kNoThread before its first allocation or slow count.
extern __thread std::uint32_t tmprof_thread __attribute__((tls_model("initial-exec")));
// Its counts by ID; null likewise.
extern __thread std::uint64_t* tmprof_static_counts __attribute__((tls_model("initial-exec")));

void tmprof_count(const void* address, std::uint64_t accesses);
void tmprof_count_static(std::uint64_t id, std::uint64_t accesses);
void tmprof_attach(const tmprof::objtrace::Module* module);
void tmprof_detach(const tmprof::objtrace::Module* module);
// Of a module, parts that the pass has not been over: names that end in a zero each, the last one
// empty. `tmprof cc` has them told where it links them.
void tmprof_uncounted(const char* names);
}
#pragma GCC visibility pop
