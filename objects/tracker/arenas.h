// SPDX-License-Identifier: Apache-2.0
// Memory for objects that lie beside objects of their kind. Freestanding and without a lock: it
// works in signal handlers, and a child of fork(2) goes on with its parent's state.
//
// Each arena is an address range. Blocks are cut from it in the order of requests. A freed block is
// kept for the next request of its size class. A header of 16 bytes has the class, as malloc(3)'s
// own does.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objects/arena_advice.h"
#include "objects/arena_blocks.h"

namespace tmprof::objtrace {

class Arenas {
 public:
  // Reserves addresses without memory for the first `arenas` of kArenas. False: so many addresses
  // are not free.
  bool Reserve(std::uint32_t arenas);

  // Limits an arena: it is full when so many bytes of it were cut off. Precondition: nothing was
  // allocated there.
  void Bound(std::uint32_t arena, std::uint64_t bytes);

  // Returns null if the arena is full or the block is too large. Blocks are aligned to 16 bytes.
  void* Allocate(std::uint32_t arena, std::uint64_t bytes);
  // Does what Allocate() does, with zeros.
  void* AllocateZeros(std::uint32_t arena, std::uint64_t bytes);

  bool Has(const void* block) const {
    return reinterpret_cast<std::uint64_t>(block) - start_ < bytes_;
  }
  std::uint32_t ArenaOf(const void* block) const {
    return static_cast<std::uint32_t>((reinterpret_cast<std::uint64_t>(block) - start_) /
                                      kArenaBytes);
  }
  // True at the first call after the arena became full.
  bool IsNewlyFull(std::uint32_t arena);
  // Precondition: Has(block). They end the program if the block was freed before, or never was one.
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
    std::uint64_t room;               // bytes
    std::atomic<Fill> fill;
    // Freed blocks. Lower half: the first one's unit in the arena; upper half: number of changes.
    std::atomic<std::uint64_t> freed[kClasses];
  };

  static Header* HeaderOf(const void* block);
  void* Pop(std::uint32_t arena, std::uint32_t size_class);
  void* Cut(std::uint32_t arena, std::uint32_t size_class);
  void* AllocateOf(std::uint32_t arena, std::uint64_t bytes, bool zeros);

  std::uint64_t start_ = 0;
  std::uint64_t bytes_ = 0;  // 0: nothing is reserved, and no block lies within
  Arena* arenas_ = nullptr;
};

}  // namespace tmprof::objtrace
