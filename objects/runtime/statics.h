// SPDX-License-Identifier: Apache-2.0
// Counts accesses outside of allocations: to variables of instrumented modules, and to thread
// stacks.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "objects/layout.h"
#include "objects/runtime/system.h"
#include "objects/runtime/thread.h"

namespace tmprof::objtrace {

struct StaticRecord {
  std::uint64_t start;
  std::uint64_t bytes;
  const char* name;
  std::uint64_t id;  // index in a thread's static counts
  bool live;         // its module is loaded
};

class Statics {
 public:
  // Gives each of the module's objects an ID.
  void Attach(const Module& module, Registry& registry);
  void Detach(const Module& module);
  // Returns the ID of the variable at `address`, in a time that is logarithmic in their number;
  // kElsewhereId if there is none.
  std::uint64_t Find(std::uint64_t address);
  // Calls `visit(record)` for each record, including those of modules that have gone. A variable
  // that several modules registered has several records. They differ in their IDs, and may differ
  // in their bytes: 0 if the module declared it without a size.
  template <typename Visit>
  void EachRecord(Visit visit) const {
    for (std::uint64_t i = 0; i < count_; ++i) visit(records_[i]);
  }
  // True if the module that is loaded between these addresses is instrumented. `name` is its name
  // to the dynamic linker. Another module may have been there before.
  bool IsInstrumented(std::uint64_t start, std::uint64_t end, const char* name) const;
  // Takes the names of tmprof_uncounted() (objects/layout.h).
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
    const Module* module;  // only its address is valid once it has gone
    std::uint64_t name;    // the dynamic linker's name of the image it belongs to, hashed
    std::uint64_t first;   // index of its first record
    std::uint64_t records;
  };

  // Parts of modules that are not counted, and their names, which are kept.
  static constexpr std::uint64_t kMaxUncounted = 1 << 12;
  struct Uncounted {
    std::uint64_t address;  // in the module
    std::uint64_t name;     // has the form of Attached::name
    const char* parts;
  };

  // True if an address in a module of that name is in this one.
  static bool IsOf(std::uint64_t address, std::uint64_t name_hash, std::uint64_t start,
                   std::uint64_t end, const char* name);
  const char* Keep(const char* text, std::size_t bytes);

  // Read without the lock: entries below the counts are complete and stay.
  Attached* modules_ = nullptr;
  std::atomic<std::uint64_t> module_count_ = 0;
  Uncounted* uncounted_ = nullptr;
  std::atomic<std::uint64_t> uncounted_count_ = 0;
  char* names_ = nullptr;  // room for names of modules that have gone
  std::size_t names_left_ = 0;
  std::atomic<const Sorted*> sorted_ = nullptr;  // null: to be made
};

// A leaf function may use so many bytes below its stack pointer (System V ABI, x86-64, section
// 3.2.2).
inline constexpr std::uint64_t kRedZoneBytes = 128;

// The thread itself calls it. False: the address is not on its stack.
__attribute__((always_inline)) inline bool CountOnOwnStack(Thread& thread, std::uint64_t address,
                                                           std::uint64_t accesses) {
  const auto top = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (address < top - kRedZoneBytes || !thread.stack.OwnHold(address)) return false;
  Add(thread.static_counts[kOwnStackId], accesses);
  return true;
}
// Counts an access to memory that is no object of the heap.
void CountElsewhere(Thread& thread, Statics& statics, Registry& registry, std::uint64_t address,
                    std::uint64_t accesses);
// Returns the sum over all threads.
std::uint64_t StaticCount(const Registry& registry, std::uint64_t id);
// Returns the accesses to one thread's stack, by itself and by others.
std::uint64_t StackCount(const Registry& registry, const Thread& thread);

}  // namespace tmprof::objtrace
