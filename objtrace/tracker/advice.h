// SPDX-License-Identifier: Apache-2.0
// What an advice file says of allocation sites: in which arena their objects go. Freestanding: read
// by programs that preload it, written by `tmprof advise`.
//
// Text, a line each:
//   tmprof-advice 1                     the first
//   # anything
//   module NUMBER PATH                  from 1 on
//   build NUMBER DIGITS                 its build ID, in hexadecimal: another build's calls are
//                                       elsewhere, and what they allocate stays
//   bind ARENA NODE,NODE...             the memory of an arena goes to these nodes while they have
//                                       some free
//   room ARENA BYTES                    an arena takes no more of addresses: malloc(3) has the rest
//   site ARENA MODULE+0xOFFSET ...      calls, innermost first; offsets as in the module's symbols
// ARENA is a number from 0 to 63, or - for sites that stay where malloc(3) puts them. Each site
// that is known has a line, so that as few calls as tell them apart are looked at.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/arena_advice.h"

namespace tmprof::objtrace {

// Path of an advice file, in the environment.
inline constexpr char kAdviceVariable[] = "TMPROF_ADVICE";
// Read-only once it is parsed: any thread may ask.
class Advice {
 public:
  enum : std::int32_t { kStay = -1, kLookDeeper = -2 };

  // Keeps `text`, which it changes and which ends in a zero. Null: it was understood; else what was
  // not, in the line of that number.
  const char* Parse(char* text, std::uint32_t& line);

  // A place among the calls that the file names, from the innermost on.
  using Place = std::uint32_t;
  static constexpr Place kOutermost = 0;  // of none yet
  // One call further out, by its return address. False: the file has no such site.
  bool Descend(Place& place, std::uint64_t return_address) const;
  // The first call; remembers the answer.
  Place First(std::uint64_t return_address);

  // The arena of all that is allocated by way of this place, or one of the above.
  std::int32_t VerdictOf(Place place) const { return call_[place].verdict; }
  // Whether a module was found to be of another build than the file is of: nothing that it calls is
  // placed. TakeOtherBuild() has each once; null: there is no other.
  bool HasOtherBuild() const { return has_other_build_.load(std::memory_order_relaxed); }
  const char* TakeOtherBuild();
  // How many arenas, from the first, have all that is named.
  std::uint32_t arenas() const { return arenas_; }
  // As a mask; 0: where the kernel has it.
  std::uint64_t NodesOf(std::uint32_t arena) const { return nodes_[arena]; }
  // In bytes; 0: no bound but the arena's own.
  std::uint64_t RoomOf(std::uint32_t arena) const { return room_[arena]; }

 private:
  static constexpr std::uint32_t kCacheEntries = 1 << 12;

  // Of those that call one inside, a list.
  struct Call {
    std::uint64_t offset;
    std::uint32_t module;
    Place callers;  // 0: none
    Place next;
    std::int32_t verdict;
  };

  enum class Build : std::uint8_t { kNotChecked, kSame, kOther, kOtherAndTold };

  const char* ParseModule(char* rest);
  const char* ParseBuild(char* rest);
  const char* ParseBind(char* rest);
  const char* ParseRoom(char* rest);
  const char* ParseSite(char* rest);
  Place CallerOf(Place place, std::uint32_t module, std::uint64_t offset) const;
  // 0: in none that the file names.
  std::uint32_t ModuleOf(std::uint64_t address, std::uint64_t& offset) const;
  // Whether the module, loaded where `file_start` says, is of the build that the file is of.
  bool IsSameBuild(std::uint32_t module, const void* file_start, std::uint64_t bias) const;

  const char* path_[kMaxAdvisedModules];  // by number
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
  // Return addresses above, places below.
  std::atomic<std::uint64_t> cache_[kCacheEntries];
};

}  // namespace tmprof::objtrace
