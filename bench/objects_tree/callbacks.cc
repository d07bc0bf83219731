// SPDX-License-Identifier: Apache-2.0
// The candidates that the compiler pass was chosen over: clang's own instrumentation calls a
// function for each access. These count as the pass's code does.

#include <cstddef>
#include <cstdint>

#include "objects/layout.h"

namespace {

using namespace tmprof::objtrace;

inline void Count(const void* address) {
  const auto number = reinterpret_cast<std::uint64_t>(address);
  const SpanEntry& entry = reinterpret_cast<const SpanEntry*>(kTableStart)[number >> kSpanShift];
  if (entry.owner == tmprof_thread) {
    const std::uint64_t index = number % kSpanBytes * entry.reciprocal >> kReciprocalShift;
    ++reinterpret_cast<Header*>(entry.origin + index * entry.slot_bytes)->count;
    return;
  }
  tmprof_count(address, 1);
}

}  // namespace

// NOLINTBEGIN: names are clang's
#define TMPROF_CALLBACKS(bytes)                            \
  void __sanitizer_cov_load##bytes(void* p) { Count(p); }  \
  void __sanitizer_cov_store##bytes(void* p) { Count(p); } \
  void __tsan_read##bytes(void* p) { Count(p); }           \
  void __tsan_write##bytes(void* p) { Count(p); }          \
  void __tsan_read_write##bytes(void* p) { Count(p); }     \
  void __tsan_volatile_read##bytes(void* p) { Count(p); }  \
  void __tsan_volatile_write##bytes(void* p) { Count(p); }
extern "C" {
TMPROF_CALLBACKS(1)
TMPROF_CALLBACKS(2)
TMPROF_CALLBACKS(4)
TMPROF_CALLBACKS(8)
TMPROF_CALLBACKS(16)
void __tsan_init() {}
void* __tsan_memset(void* p, int c, std::size_t n) { return __builtin_memset(p, c, n); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
// NOLINTEND
