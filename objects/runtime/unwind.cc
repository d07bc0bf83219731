// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/unwind.h"

#include <dlfcn.h>
#include <link.h>

#include "objects/runtime/loaded_file.h"
#include "objects/runtime/system.h"

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);

std::uint64_t HashOf(std::uint64_t return_address, int bits) {
  return (return_address * 0x9E3779B97F4A7C15) >> (64 - bits);  // 2^64 / the golden ratio
}

// Does not take the dynamic linker's lock, which the caller may hold (glibc 2.35). False: the
// address is in no loaded file.
bool FindFile(std::uint64_t return_address, dl_find_object& file) {
  return ::_dl_find_object(reinterpret_cast<void*>(return_address - 1), &file) == 0;
}

// Decides by the file's own headers, if they are loaded.
bool IsExecutable(const dl_find_object& file, std::uint64_t address) {
  for (const ElfW(Phdr) & segment : SegmentsOf(file.dlfo_map_start)) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
        address - (file.dlfo_link_map->l_addr + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

struct Registers {
  std::uint64_t rsp;
  std::uint64_t rbp;
  std::uint64_t rbp_from;  // rbp was read there; 0: that is noted
};

// Reads the calling thread's own stack, which exists up to its end.
__attribute__((no_sanitize("address", "thread"), always_inline)) inline std::uint64_t Read(
    std::uint64_t address) {
  return *reinterpret_cast<const std::uint64_t*>(address);
}

bool IsWord(std::uint64_t address, std::uint64_t from, const StackBounds& stack) {
  return address >= from && address % kWordBytes == 0 && address + kWordBytes <= stack.end;
}

// Steps to the caller's registers, from a function whose return address is right below the caller's
// stack pointer. False: the rule does not hold here, or there is no room for the words.
__attribute__((no_sanitize("address", "thread"), always_inline)) inline bool Step(
    const FrameRule& rule, const StackBounds& stack, Registers& registers, CallChain& chain) {
  std::uint64_t cfa = registers.rsp;
  if (rule.kind != FrameKind::kByRsp) {
    if (rule.kind <= FrameKind::kEnd) return false;
    cfa = registers.rbp;
    if (registers.rbp_from != 0) {
      if (chain.word_count == CallChain::kMaxWords) return false;
      chain.words[chain.word_count++] = registers.rbp_from;
      registers.rbp_from = 0;
    }
  }
  cfa += static_cast<std::uint64_t>(std::int64_t{rule.cfa_offset});
  if (__builtin_expect(rule.kind == FrameKind::kAtRbp, 0)) {
    if (!IsWord(cfa, registers.rsp, stack) || chain.word_count == CallChain::kMaxWords) {
      return false;
    }
    chain.words[chain.word_count++] = cfa;
    cfa = Read(cfa);
  }
  if (!IsWord(cfa - kWordBytes, registers.rsp, stack)) return false;
  if (rule.rbp != RbpKind::kSame) {
    const std::uint64_t at = (rule.rbp == RbpKind::kAtCfa ? cfa : registers.rbp) +
                             static_cast<std::uint64_t>(std::int64_t{rule.rbp_offset});
    if (!IsWord(at, registers.rsp, stack)) return false;
    registers.rbp = Read(at);
    registers.rbp_from = at;
  }
  registers.rsp = cfa;
  return true;
}

}  // namespace

constinit Unwinder unwinder;

__attribute__((no_sanitize("address", "thread"))) void Unwinder::Walk(const void* frame,
                                                                      const StackBounds& stack,
                                                                      CallChain& chain) {
  const auto at = reinterpret_cast<std::uint64_t>(frame);
  chain.depth = 0;
  chain.word_count = 0;
  chain.is_cut = !stack.Hold(at);
  if (chain.is_cut) {
    chain.frames[chain.depth++] = Read(at + kWordBytes);
    return;
  }
  Registers registers{.rsp = at, .rbp = at, .rbp_from = 0};
  const FrameRule* rule = &kFramePointerRule;
  FrameRule learnt;
  const Place* before = nullptr;  // the place of this rule, if it is kept
  while (Step(*rule, stack, registers, chain)) {
    const std::uint64_t return_address = Read(registers.rsp - kWordBytes);
    if (chain.word_count == CallChain::kMaxWords) break;
    chain.words[chain.word_count++] = registers.rsp - kWordBytes;
    if (return_address == 0) return;  // some threads begin with 0
    const Place* place =
        before != nullptr ? before->caller.load(std::memory_order_acquire) : nullptr;
    if (__builtin_expect(place == nullptr || place->return_address.load(
                                                 std::memory_order_acquire) != return_address,
                         0)) {
      const bool is_first = place == nullptr;
      place = Find(return_address);
      if (place == nullptr) {
        rule = &learnt;
        if (!Learn(return_address, learnt, place)) {
          chain.frames[chain.depth++] = return_address;
          break;
        }
      }
      if (is_first && before != nullptr && place != nullptr) {
        const_cast<Place*>(before)->caller.store(place, std::memory_order_release);
      }
    }
    chain.frames[chain.depth++] = return_address;
    if (place != nullptr) rule = &place->rule;
    if (rule->kind == FrameKind::kEnd || chain.depth == kMaxFrames) return;
    before = place;
  }
  chain.is_cut = true;
}

// Returns null if the place is not kept, or is of another generation.
const Unwinder::Place* Unwinder::Find(std::uint64_t return_address) const {
  const Place* places = places_.load(std::memory_order_acquire);
  if (places == nullptr || IsStale()) return nullptr;
  for (std::uint64_t i = HashOf(return_address, kPlacesShift);; ++i) {
    const Place& place = places[i % kPlaces];
    const std::uint64_t there = place.return_address.load(std::memory_order_acquire);
    if (there == return_address) return &place;
    if (there == 0) return nullptr;
  }
}

// Finds the rule in the loaded files. False: the address is in no code of a file.
bool Unwinder::RuleFrom(std::uint64_t return_address, FrameRule& rule) {
  dl_find_object file{};
  if (return_address <= kForgotten || !FindFile(return_address, file)) return false;
  rule = RuleAt(file.dlfo_eh_frame, return_address - 1);
  return rule.kind != FrameKind::kUnknown || IsExecutable(file, return_address - 1);
}

// False: the address is in no code of a file. `place` stays null if it cannot be kept.
__attribute__((noinline)) bool Unwinder::Learn(std::uint64_t return_address, FrameRule& rule,
                                               const Place*& place) {
  if (!RuleFrom(return_address, rule)) return false;
  // Another thread is adding, or was interrupted or forked off here. This place is then not kept.
  if (adding_.exchange(true)) return true;
  Forget();
  place = Add(return_address, rule);
  adding_.store(false);
  ForgetUnlessAdding();
  return true;
}

const Unwinder::Place* Unwinder::Add(std::uint64_t return_address, const FrameRule& rule) {
  Place* places = places_.load(std::memory_order_relaxed);
  if (places == nullptr) {
    places = static_cast<Place*>(MapSparse(kPlaces * sizeof(Place)));
    if (places == nullptr) return nullptr;
    places_.store(places, std::memory_order_release);
  }
  Place* free = nullptr;
  for (std::uint64_t i = HashOf(return_address, kPlacesShift);; ++i) {
    Place& place = places[i % kPlaces];
    const std::uint64_t there = place.return_address.load(std::memory_order_relaxed);
    if (there == return_address) return &place;
    if (there == kForgotten && free == nullptr) free = &place;
    if (there != 0) continue;
    if (free == nullptr) {
      if (used_ == kMaxUsed) return nullptr;
      ++used_;
      free = &place;
    }
    break;
  }
  free->rule = rule;
  free->caller.store(nullptr, std::memory_order_relaxed);
  free->return_address.store(return_address, std::memory_order_release);
  return free;
}

void Unwinder::ForgetClosed() {
  generation_.fetch_add(1);
  ForgetUnlessAdding();
}

void Unwinder::KeepOnlySelf() {
  adding_.store(false);
  ForgetUnlessAdding();
}

// A thread that adds looks for a new generation afterwards. A thread that begins a generation looks
// for threads that add. One of them finds the other, because all agree on the order of these
// operations.
void Unwinder::ForgetUnlessAdding() {
  while (forgotten_.load() != generation_.load() && !adding_.exchange(true)) {
    Forget();
    adding_.store(false);
  }
}

// Called by the thread that has `adding_`. Another file may have come with tables at the old
// addresses. A place is kept if it would be learnt again unchanged. All places that another thread
// may be walking through are such places.
void Unwinder::Forget() {
  const std::uint32_t generation = generation_.load();
  if (forgotten_.load(std::memory_order_relaxed) == generation) return;
  Place* places = places_.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; places != nullptr && i < kPlaces; ++i) {
    Place& place = places[i];
    const std::uint64_t there = place.return_address.load(std::memory_order_relaxed);
    if (there <= kForgotten) continue;
    FrameRule rule;
    if (RuleFrom(there, rule) && rule == place.rule) continue;
    place.return_address.store(kForgotten, std::memory_order_relaxed);
  }
  forgotten_.store(generation);
}

}  // namespace tmprof::objtrace
