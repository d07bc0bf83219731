// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/arenas.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/units.h"

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kFirstBytes = kArenaUnitBytes;  // unit 0 means none
// Larger blocks give their pages back when they are freed.
constexpr std::uint64_t kKeptBytes = std::uint64_t{1} << 20;
constexpr std::uint32_t kLive = 0x4556494C;   // "LIVE"
constexpr std::uint32_t kFreed = 0x45455246;  // "FREE"

// Makes the system call itself, because mmap(3) is the tracker's own function here.
void* Map(std::uint64_t bytes) {
  const long mapped = ::syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == -1 ? nullptr : reinterpret_cast<void*>(mapped);
}

[[noreturn]] void Refuse(const char* what, const void* block) {
  char text[128];
  const int bytes = std::snprintf(text, sizeof(text), "tmprof: %s: %p\n", what, block);
  [[maybe_unused]] const ssize_t ignored =
      ::write(STDERR_FILENO, text, std::min<std::size_t>(bytes, sizeof(text) - 1));
  std::abort();
}

}  // namespace

struct Arenas::Header {
  std::atomic<std::uint32_t> state;
  std::uint32_t size_class;
  std::atomic<std::uint32_t> next;  // unit of the next freed block
  std::uint32_t unused;
};

bool Arenas::Reserve(std::uint32_t arenas) {
  void* table = Map(arenas * sizeof(Arena));
  void* range = table != nullptr ? Map(arenas * kArenaBytes) : nullptr;
  if (range == nullptr) return false;
  arenas_ = static_cast<Arena*>(table);
  for (std::uint32_t i = 0; i < arenas; ++i) {
    arenas_[i].used.store(kFirstBytes, std::memory_order_relaxed);
    arenas_[i].room = kArenaBytes;
  }
  start_ = reinterpret_cast<std::uint64_t>(range);
  bytes_ = arenas * kArenaBytes;
  return true;
}

void Arenas::Bound(std::uint32_t arena, std::uint64_t bytes) {
  arenas_[arena].room = std::min(bytes, kArenaBytes);
}

bool Arenas::IsNewlyFull(std::uint32_t arena) {
  Fill was = Fill::kFull;
  return arenas_[arena].fill.compare_exchange_strong(was, Fill::kSaid, std::memory_order_relaxed);
}

Arenas::Header* Arenas::HeaderOf(const void* block) {
  static_assert(sizeof(Header) == kArenaHeaderBytes);
  return reinterpret_cast<Header*>(reinterpret_cast<std::uint64_t>(block) - sizeof(Header));
}

// If another thread takes the block first, its memory stays readable. The value read is discarded,
// because the number of changes differs.
void* Arenas::Pop(std::uint32_t arena, std::uint32_t size_class) {
  std::atomic<std::uint64_t>& head = arenas_[arena].freed[size_class];
  std::uint64_t was = head.load(std::memory_order_acquire);
  while (true) {
    const auto unit = static_cast<std::uint32_t>(was);
    if (unit == 0) return nullptr;
    auto* header = reinterpret_cast<Header*>(start_ + arena * kArenaBytes + unit * kArenaUnitBytes);
    const std::uint64_t next = header->next.load(std::memory_order_relaxed);
    const std::uint64_t changes = (was >> 32) + 1;
    if (head.compare_exchange_weak(was, changes << 32 | next, std::memory_order_acquire)) {
      return header + 1;
    }
  }
}

void* Arenas::Cut(std::uint32_t arena, std::uint32_t size_class) {
  const std::uint64_t bytes = ArenaUnitsOf(size_class) * kArenaUnitBytes + sizeof(Header);
  Arena& of = arenas_[arena];
  std::atomic<std::uint64_t>& used = of.used;
  std::uint64_t at = used.load(std::memory_order_relaxed);
  do {
    if (at > of.room || bytes > of.room - at) {
      Fill was = Fill::kRoom;
      of.fill.compare_exchange_strong(was, Fill::kFull, std::memory_order_relaxed);
      return nullptr;
    }
  } while (!used.compare_exchange_weak(at, at + bytes, std::memory_order_relaxed));
  auto* header = reinterpret_cast<Header*>(start_ + arena * kArenaBytes + at);
  header->size_class = size_class;
  return header + 1;
}

void* Arenas::AllocateOf(std::uint32_t arena, std::uint64_t bytes, bool zeros) {
  if (bytes > kMostPlacedBytes) return nullptr;
  const std::uint32_t size_class = ArenaClassOfBytes(bytes);
  void* block = Pop(arena, size_class);
  if (block != nullptr && zeros) std::memset(block, 0, bytes);
  if (block == nullptr) block = Cut(arena, size_class);
  if (block != nullptr) HeaderOf(block)->state.store(kLive, std::memory_order_relaxed);
  return block;
}

void* Arenas::Allocate(std::uint32_t arena, std::uint64_t bytes) {
  return AllocateOf(arena, bytes, false);
}
void* Arenas::AllocateZeros(std::uint32_t arena, std::uint64_t bytes) {
  return AllocateOf(arena, bytes, true);
}

std::uint64_t Arenas::UsableBytes(const void* block) const {
  const Header* header = HeaderOf(block);
  if (header->state.load(std::memory_order_relaxed) != kLive) {
    Refuse("a pointer was asked about that is not allocated", block);
  }
  return ArenaUnitsOf(header->size_class) * kArenaUnitBytes;
}

void Arenas::Free(void* block) {
  Header* header = HeaderOf(block);
  std::uint32_t live = kLive;
  if (!header->state.compare_exchange_strong(live, kFreed, std::memory_order_relaxed)) {
    Refuse(live == kFreed ? "a pointer was freed twice"
                          : "a pointer was freed that was never allocated",
           block);
  }
  const std::uint64_t bytes = ArenaUnitsOf(header->size_class) * kArenaUnitBytes;
  const auto address = reinterpret_cast<std::uint64_t>(block);
  if (bytes >= kKeptBytes) {
    const std::uint64_t first = (address + kBasePageBytes - 1) / kBasePageBytes * kBasePageBytes;
    const std::uint64_t end = (address + bytes) / kBasePageBytes * kBasePageBytes;
    ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
  const std::uint64_t offset = address - sizeof(Header) - start_;
  const std::uint64_t unit = offset % kArenaBytes / kArenaUnitBytes;
  std::atomic<std::uint64_t>& head = arenas_[offset / kArenaBytes].freed[header->size_class];
  std::uint64_t was = head.load(std::memory_order_relaxed);
  do {
    header->next.store(static_cast<std::uint32_t>(was), std::memory_order_relaxed);
  } while (!head.compare_exchange_weak(was, ((was >> 32) + 1) << 32 | unit,
                                       std::memory_order_release, std::memory_order_relaxed));
}

}  // namespace tmprof::objtrace
