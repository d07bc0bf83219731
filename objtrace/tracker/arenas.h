// SPDX-License-Identifier: Apache-2.0
// Memory for objects that are to lie beside their like. Freestanding, without a lock: it works in
// signal handlers, and a child of fork(2) goes on with what its parent had.
//
// Each arena is a range of addresses of its own, from which blocks are cut in the order in which
// they are asked for; what is freed is kept for the next one of its size class. A header of 16
// bytes says the class, as malloc(3)'s own does.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/arena_advice.h"
#include "base/arena_blocks.h"

namespace tmprof::objtrace {

class Arenas {
 public:
  // Reserves addresses alone, of the first ones of kArenas. False: there are not that many.
  bool Reserve(std::uint32_t arenas);

  // Before anything is allocated there: it is full when so many bytes of it were cut off.
  void Bound(std::uint32_t arena, std::uint64_t bytes);

  // Null: that arena is full, or the block too large. Aligned to 16 bytes.
  void* Allocate(std::uint32_t arena, std::uint64_t bytes);
  // The same, of zeros.
  void* AllocateZeros(std::uint32_t arena, std::uint64_t bytes);

  bool Has(const void* block) const {
    return reinterpret_cast<std::uint64_t>(block) - start_ < bytes_;
  }
  std::uint32_t ArenaOf(const void* block) const {
    return static_cast<std::uint32_t>((reinterpret_cast<std::uint64_t>(block) - start_) /
                                      kArenaBytes);
  }
  // The first time that it is asked after an arena was full.
  bool IsNewlyFull(std::uint32_t arena);
  // Of a block that it has. The program is ended where it was freed before, or never was one.
  std::uint64_t UsableBytes(const void* block) const;
  void Free(void* block);

  void* StartOf(std::uint32_t arena) const {
    return reinterpret_cast<void*>(start_ + arena * kArenaBytes);
  }

 private:
  static constexpr std::uint32_t kClasses = kSmallArenaClasses + 4 * 28;
  enum class Fill : std::uint8_t { kRoom, kFull, kSaid };
  struct Header;
  struct Arena {
    std::atomic<std::uint64_t> used;  // bytes
    std::uint64_t room;               // likewise
    std::atomic<Fill> fill;
    // Freed blocks: the first one's unit in the arena below, how often it was changed above.
    std::atomic<std::uint64_t> freed[kClasses];
  };

  static Header* HeaderOf(const void* block);
  void* Pop(std::uint32_t arena, std::uint32_t size_class);
  void* Cut(std::uint32_t arena, std::uint32_t size_class);
  void* AllocateOf(std::uint32_t arena, std::uint64_t bytes, bool zeros);

  std::uint64_t start_ = 0;
  std::uint64_t bytes_ = 0;  // 0: nothing is reserved, and nothing lies within
  Arena* arenas_ = nullptr;
};

}  // namespace tmprof::objtrace
