// SPDX-License-Identifier: Apache-2.0
// Allocations and frees of processes in an epoch, as a tracker within them reported them, and other
// data on their accessed pages.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// A call in a program's code.
struct SourceFrame {
  std::string function;      // demangled; empty: unknown
  std::string file;          // empty: unknown
  int line = 0;              // 0: unknown
  std::string module;        // path; empty: the address is in no module
  std::uint64_t offset = 0;  // in the addresses of the module's symbol table, or the address itself

  friend auto operator<=>(const SourceFrame&, const SourceFrame&) = default;
};

// A program or library, identified by a note of its linker.
struct CodeFile {
  std::string path;
  std::string build_id;  // bytes; never empty
  friend bool operator==(const CodeFile&, const CodeFile&) = default;
};

inline constexpr std::uint32_t kUnknownSite = 0;

// A place at which a program allocates, common to all its processes. Or the name of memory that was
// not allocated.
struct ObjectSite {
  std::uint32_t id = kUnknownSite;  // within a trace
  // Calls, innermost first. A variable or a part of a file has only its place in the file; a stack
  // has none.
  std::vector<SourceFrame> frames;
  // The demangled symbol of a variable, the section of other data, or the thread name of a stack.
  // Empty for allocations.
  std::string name = {};
  std::optional<Tid> thread = std::nullopt;  // only for a stack
  friend bool operator==(const ObjectSite&, const ObjectSite&) = default;
};

enum class AllocationKind : std::uint8_t {
  kAllocated,  // malloc(3) and its family
  kFreed,      // `address` names the object that was allocated there
  kMapped,     // mmap(2)
  kUnmapped,   // the range holds a mapping, or a part of one
};

struct AllocationEvent {
  TargetId target;
  AllocationKind kind = AllocationKind::kAllocated;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0 for kFreed
  MonotonicTime time;       // may lie before the epoch, if the process was not yet a target
  std::uint32_t site = kUnknownSite;
  double weight = 0;  // mean number of allocations that it stands for; 1: all such are reported
  friend bool operator==(const AllocationEvent&, const AllocationEvent&) = default;
};

enum class FixedKind : std::uint8_t {
  kVariable,  // a variable of a loaded file, known by its symbol
  kData,      // a loaded file's section, outside of variables with symbols
  kStack,     // a thread's stack
};

// Memory that was not allocated. It is reported when its pages are first accessed. A second report
// with its site and some of its addresses means that it has grown or shrunk.
struct FixedEvent {
  TargetId target;
  FixedKind kind = FixedKind::kVariable;
  bool ends = false;  // the memory at `address` no longer exists
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // 0 if it ends
  MonotonicTime time;       // exists since then; may lie before the epoch
  std::uint32_t site = kUnknownSite;
  friend bool operator==(const FixedEvent&, const FixedEvent&) = default;
};

// Events of one target are in order. An allocation over a living object ends that object, whose own
// end was lost.
struct Allocations {
  std::vector<ObjectSite> sites;  // new in this epoch
  std::vector<AllocationEvent> events;
  std::vector<FixedEvent> fixed = {};
  // Each allocation of at least so many bytes is reported; of smaller ones a share is, or none.
  // Unset: unknown.
  std::optional<std::uint64_t> all_from_bytes;
  std::uint64_t lost = 0;  // events
  // Files with the sites' calls, as they were when the first of these calls was reported. Files
  // without a build ID are missing.
  std::vector<CodeFile> files = {};

  // True if all memory without an event was not allocated.
  bool IsComplete() const { return all_from_bytes && *all_from_bytes <= 1 && lost == 0; }
  friend bool operator==(const Allocations&, const Allocations&) = default;
};

// Allocations are the extension of an epoch. nullptr: they were not tracked, or not decoded.
const Allocations* AllocationsOf(const EpochProfile& epoch);
Allocations* AllocationsOf(EpochProfile& epoch);
// Replaces the extension of `epoch`.
Allocations& SetAllocations(EpochProfile& epoch, Allocations allocations = {});

}  // namespace tmprof
