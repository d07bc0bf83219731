// SPDX-License-Identifier: Apache-2.0
// Variables of the instrumented modules, and the thread stacks: what is no allocation.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "objtrace/layout.h"
#include "objtrace/runtime/system.h"
#include "objtrace/runtime/thread.h"

namespace tmprof::objtrace {

struct StaticRecord {
  std::uint64_t start;
  std::uint64_t bytes;
  const char* name;
  std::uint64_t id;  // of a thread's static counts
  bool live;         // its module is loaded
};

class Statics {
 public:
  // Gives each of the module's objects an ID.
  void Attach(const Module& module, Registry& registry);
  void Detach(const Module& module);
  // Of the variable at `address`, in the logarithm of their number; kElsewhereId where there is
  // none.
  std::uint64_t Find(std::uint64_t address);
  // Calls `visit(record)` for each, also of modules that have gone. A variable that several modules
  // have registered has as many records, which differ in their IDs, and in their bytes: 0 where it
  // was declared without.
  template <typename Visit>
  void EachRecord(Visit visit) const {
    for (std::uint64_t i = 0; i < count_; ++i) visit(records_[i]);
  }
  // Whether the module that is loaded between these addresses, of this name to the dynamic linker,
  // is instrumented. Another may have been there before it.
  bool IsInstrumented(std::uint64_t start, std::uint64_t end, const char* name) const;
  // As tmprof_uncounted() has them (objtrace/layout.h).
  void NoteUncounted(const char* names);
  // Calls `visit(name)` for each part of the module that is not instrumented.
  template <typename Visit>
  void EachUncounted(std::uint64_t start, std::uint64_t end, const char* name, Visit visit) const {
    const std::uint64_t count = uncounted_count_.load(std::memory_order_acquire);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Uncounted& uncounted = uncounted_[i];
      if (!IsOf(uncounted.address, uncounted.name, start, end, name)) continue;
      for (const char* part = uncounted.parts; *part != '\0'; part += std::strlen(part) + 1) {
        visit(part);
      }
    }
  }
  Lock& lock() { return lock_; }

 private:
  static constexpr std::uint64_t kMaxModules = 1 << 16;

  struct Sorted {
    std::uint64_t count;
    const StaticRecord** records() { return reinterpret_cast<const StaticRecord**>(this + 1); }
    const StaticRecord* const* begin() const {
      return reinterpret_cast<const StaticRecord* const*>(this + 1);
    }
    const StaticRecord* const* end() const { return begin() + count; }
  };

  const Sorted* Sort();

  Lock lock_;
  StaticRecord* records_ = nullptr;
  std::uint64_t count_ = 0;
  struct Attached {
    const Module* module;  // its address alone, once it has gone
    std::uint64_t name;    // of what it is a part of, to the dynamic linker; hashed
    std::uint64_t first;   // of its records
    std::uint64_t records;
  };

  // Modules that note what they have not counted, and their names, which are kept.
  static constexpr std::uint64_t kMaxUncounted = 1 << 12;
  struct Uncounted {
    std::uint64_t address;  // in the module
    std::uint64_t name;     // as Attached::name
    const char* parts;
  };

  // Whether what lay at an address in a module of that name lay in this one.
  static bool IsOf(std::uint64_t address, std::uint64_t name_hash, std::uint64_t start,
                   std::uint64_t end, const char* name);
  const char* Keep(const char* text, std::size_t bytes);

  // Read without the lock: entries below the counts are whole, and stay.
  Attached* modules_ = nullptr;
  std::atomic<std::uint64_t> module_count_ = 0;
  Uncounted* uncounted_ = nullptr;
  std::atomic<std::uint64_t> uncounted_count_ = 0;
  char* names_ = nullptr;  // room for those of modules that have gone
  std::size_t names_left_ = 0;
  std::atomic<const Sorted*> sorted_ = nullptr;  // null: to be made
};

// What a leaf function may use below its stack pointer (System V ABI, x86-64, section 3.2.2).
inline constexpr std::uint64_t kRedZoneBytes = 128;

// By the thread itself. False: it is not there.
__attribute__((always_inline)) inline bool CountOnOwnStack(Thread& thread, std::uint64_t address,
                                                           std::uint64_t accesses) {
  const auto top = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (address < top - kRedZoneBytes || !thread.stack.OwnHold(address)) return false;
  Add(thread.static_counts[kOwnStackId], accesses);
  return true;
}
// Counts an access to what is no object of the heap.
void CountElsewhere(Thread& thread, Statics& statics, Registry& registry, std::uint64_t address,
                    std::uint64_t accesses);
// Sum over all threads.
std::uint64_t StaticCount(const Registry& registry, std::uint64_t id);
// Accesses to one thread's stack, its own and others'.
std::uint64_t StackCount(const Registry& registry, const Thread& thread);

}  // namespace tmprof::objtrace
