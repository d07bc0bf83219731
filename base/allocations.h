// SPDX-License-Identifier: Apache-2.0
// What processes allocated and freed in an epoch, as a tracker within them told it, and what lay on
// their accessed pages without having been allocated.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// A call in a program's code.
struct SourceFrame {
  std::string function;      // demangled; empty: unknown
  std::string file;          // empty: unknown
  int line = 0;              // 0: unknown
  std::string module;        // path; empty: the address is in none
  std::uint64_t offset = 0;  // in the module's symbol table's addresses, or the address itself

  friend auto operator<=>(const SourceFrame&, const SourceFrame&) = default;
};

// A program or library, by what its linker noted in it.
struct CodeFile {
  std::string path;
  std::string build_id;  // bytes; never empty
  friend bool operator==(const CodeFile&, const CodeFile&) = default;
};

inline constexpr std::uint32_t kUnknownSite = 0;

// Where a program allocates: the same in all its processes. Or what is not allocated, by its name.
struct ObjectSite {
  std::uint32_t id = kUnknownSite;  // within a trace
  // Calls, innermost first. Of a variable or a part of a file, its place in there alone; of a stack
  // none.
  std::vector<SourceFrame> frames;
  // Of a variable its symbol, demangled; of other data its section; of a stack its thread's name;
  // empty of what is allocated.
  std::string name = {};
  std::optional<Tid> thread = std::nullopt;  // of a stack
  friend bool operator==(const ObjectSite&, const ObjectSite&) = default;
};

enum class AllocationKind : std::uint8_t {
  kAllocated,  // malloc(3) and its family
  kFreed,      // by address: what was allocated there
  kMapped,     // mmap(2)
  kUnmapped,   // by range: what is mapped there, or a part of it
};

struct AllocationEvent {
  TargetId target;
  AllocationKind kind = AllocationKind::kAllocated;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0 of what is freed
  MonotonicTime time;       // may lie before the epoch, where the target was not yet one
  std::uint32_t site = kUnknownSite;
  double weight = 0;  // allocations that this one stands for, on average; 1: all such are told
  friend bool operator==(const AllocationEvent&, const AllocationEvent&) = default;
};

enum class FixedKind : std::uint8_t {
  kVariable,  // of a loaded file, by its symbol
  kData,      // of a loaded file's section, where no variable's symbol is
  kStack,     // of a thread
};

// What has memory that it did not allocate: told when its pages are first accessed. One that is
// told again, by its site and where some of it lay, has grown or shrunk.
struct FixedEvent {
  TargetId target;
  FixedKind kind = FixedKind::kVariable;
  bool ends = false;  // by address: what was there is no more
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0 of what ends
  MonotonicTime time;       // since then; may lie before the epoch
  std::uint32_t site = kUnknownSite;
  friend bool operator==(const FixedEvent&, const FixedEvent&) = default;
};

// Of a target, the events are in order. What is allocated where something lives ends that: its end
// was lost.
struct Allocations {
  std::vector<ObjectSite> sites;  // that no epoch before had
  std::vector<AllocationEvent> events;
  std::vector<FixedEvent> fixed = {};
  // Of this many bytes or more, each allocation is told; of smaller ones a share, or none. Unset:
  // unknown.
  std::optional<std::uint64_t> all_from_bytes;
  std::uint64_t lost = 0;  // events
  // That sites' calls are in, as they were when the first of these was told. Those that have no
  // build ID are not there.
  std::vector<CodeFile> files = {};

  // Whether what has no event was not allocated.
  bool IsComplete() const { return all_from_bytes && *all_from_bytes <= 1 && lost == 0; }
  friend bool operator==(const Allocations&, const Allocations&) = default;
};

}  // namespace tmprof
