// SPDX-License-Identifier: Apache-2.0
// An advice file names the arenas for the objects of allocation sites. Freestanding: programs that
// preload the tracker read it, and `tmprof advise` writes it.
//
// It is text with one entry a line:
//   tmprof-advice 1                     the first
//   # anything
//   module NUMBER PATH                  from 1 on
//   build NUMBER DIGITS                 its build ID, in hexadecimal: calls of another build are
//                                       elsewhere, and their allocations stay with malloc(3)
//   bind ARENA NODE,NODE...             the memory of an arena goes to these nodes while they have
//                                       some free
//   room ARENA BYTES                    an arena takes at most so many bytes of addresses: the
//                                       rest is left to malloc(3)
//   site ARENA MODULE+0xOFFSET ...      calls, innermost first; offsets as in the module's symbols
// ARENA is a number from 0 to 63, or - for sites that stay with malloc(3). Each known site has a
// line, so that few calls have to be looked at to tell sites apart.

#pragma once

#include <atomic>
#include <cstdint>

#include "objects/arena_advice.h"

namespace tmprof::objtrace {

// Environment variable with the path of an advice file.
inline constexpr char kAdviceVariable[] = "TMPROF_ADVICE";
// Read-only after Parse(), so that any thread may ask.
class Advice {
 public:
  enum : std::int32_t { kStay = -1, kLookDeeper = -2 };

  // Keeps `text`, which it changes and which ends in a zero. Returns null, or the fault in the line
  // of number `line`.
  const char* Parse(char* text, std::uint32_t& line);

  // A place among the calls that the file names, from the innermost on.
  using Place = std::uint32_t;
  static constexpr Place kOutermost = 0;  // no call yet
  // Goes one call further out, by its return address. False: the file has no such site.
  bool Descend(Place& place, std::uint64_t return_address) const;
  // Returns the place of the first call, and remembers the answer.
  Place First(std::uint64_t return_address);

  // Returns the arena of everything that is allocated by way of this place, or one of the constants
  // above.
  std::int32_t VerdictOf(Place place) const { return call_[place].verdict; }
  // True if a module is of another build than the file's; nothing that it calls is placed.
  // TakeOtherBuild() returns each such module once; null: there is no other.
  bool HasOtherBuild() const { return has_other_build_.load(std::memory_order_relaxed); }
  const char* TakeOtherBuild();
  // Returns the number of arenas, from the first one to the last one named.
  std::uint32_t arenas() const { return arenas_; }
  // Returns a mask; 0: the kernel chooses.
  std::uint64_t NodesOf(std::uint32_t arena) const { return nodes_[arena]; }
  // Returns bytes; 0: only the arena's own limit holds.
  std::uint64_t RoomOf(std::uint32_t arena) const { return room_[arena]; }

 private:
  static constexpr std::uint32_t kCacheEntries = 1 << 12;

  // A call, and the list of calls that lead to it.
  struct Call {
    std::uint64_t offset;
    std::uint32_t module;
    Place callers;  // 0: none
    Place next;
    std::int32_t verdict;
  };

  enum class Build : std::uint8_t { kNotChecked, kSame, kOther, kOtherAndReported };

  const char* ParseModule(char* rest);
  const char* ParseBuild(char* rest);
  const char* ParseBind(char* rest);
  const char* ParseRoom(char* rest);
  const char* ParseSite(char* rest);
  Place CallerOf(Place place, std::uint32_t module, std::uint64_t offset) const;
  // Returns 0 if the file names no module there.
  std::uint32_t ModuleOf(std::uint64_t address, std::uint64_t& offset) const;
  // True if the module that is loaded at `file_start` is of the file's build.
  bool IsSameBuild(std::uint32_t module, const void* file_start, std::uint64_t bias) const;

  const char* path_[kMaxAdvisedModules];  // index: number
  std::uint8_t build_id_[kMaxAdvisedModules][kMaxBuildIdBytes];
  std::uint8_t build_id_bytes_[kMaxAdvisedModules];  // 0: unknown
  mutable std::atomic<Build> build_[kMaxAdvisedModules];
  mutable std::atomic<bool> has_other_build_;
  char program_[4096];
  std::uint64_t nodes_[kArenas];
  std::uint64_t room_[kArenas];
  Call call_[kMaxAdvisedCalls];
  std::uint32_t calls_;
  std::uint32_t arenas_;
  // Upper bits: return address; lower bits: place.
  std::atomic<std::uint64_t> cache_[kCacheEntries];
};

}  // namespace tmprof::objtrace
