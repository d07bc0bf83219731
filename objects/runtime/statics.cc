// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/statics.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>

namespace tmprof::objtrace {
namespace {

// FNV-1a (RFC 9923) with 64 bits.
std::uint64_t HashOf(const char* text) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 0x00000100000001B3;
  }
  return hash;
}

// Returns the hashed name of the module that has the address.
std::uint64_t NameOf(const void* address) {
  dl_find_object found{};
  // The function only reads.
  return ::_dl_find_object(const_cast<void*>(address), &found) == 0
             ? HashOf(found.dlfo_link_map->l_name)
             : 0;
}

}  // namespace

void Statics::Attach(const Module& module, Registry& registry) {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  if (records_ == nullptr) {
    records_ = static_cast<StaticRecord*>(MapSparse(kMaxStaticIds * sizeof(StaticRecord)));
    modules_ = static_cast<Attached*>(MapSparse(kMaxModules * sizeof(Attached)));
  }
  const std::uint64_t before = module_count_.load(std::memory_order_relaxed);
  if (records_ == nullptr || modules_ == nullptr || before == kMaxModules) return;
  Attached& attached = modules_[before];
  attached = {.module = &module, .name = NameOf(&module), .first = count_, .records = 0};
  for (StaticObject* object = module.object; object != module.object + module.objects; ++object) {
    const std::uint64_t id = count_ < kMaxStaticIds ? registry.NewStaticId() : kElsewhereId;
    if (id == kElsewhereId) break;
    object->id = id;
    records_[count_++] = {object->start, object->bytes, object->name, id, true};
    ++attached.records;
  }
  module_count_.store(before + 1, std::memory_order_release);
  sorted_.store(nullptr, std::memory_order_release);
}

const char* Statics::Keep(const char* text, std::size_t bytes) {
  constexpr std::size_t kRoom = std::size_t{1} << 20;
  if (bytes > kRoom) return "";
  if (names_left_ < bytes) {
    names_ = static_cast<char*>(MapSparse(kRoom));
    names_left_ = names_ != nullptr ? kRoom : 0;
  }
  if (names_ == nullptr) return "";
  char* kept = names_;
  std::memcpy(kept, text, bytes);
  names_ += bytes;
  names_left_ -= bytes;
  return kept;
}

void Statics::Detach(const Module& module) {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  const std::uint64_t count = module_count_.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Attached& attached = modules_[i];
    if (attached.module != &module) continue;
    for (std::uint64_t at = attached.first; at < attached.first + attached.records; ++at) {
      StaticRecord& record = records_[at];
      if (record.live) record.name = Keep(record.name, std::strlen(record.name) + 1);
      record.live = false;
    }
  }
  sorted_.store(nullptr, std::memory_order_release);
}

bool Statics::IsInstrumented(std::uint64_t start, std::uint64_t end, const char* name) const {
  const std::uint64_t count = module_count_.load(std::memory_order_acquire);
  if (count == 0) return false;
  return std::any_of(modules_, modules_ + count, [&](const Attached& attached) {
    return IsOf(reinterpret_cast<std::uint64_t>(attached.module), attached.name, start, end, name);
  });
}

bool Statics::IsOf(std::uint64_t address, std::uint64_t name_hash, std::uint64_t start,
                   std::uint64_t end, const char* name) {
  return start <= address && address < end && name_hash == HashOf(name);
}

void Statics::NoteUncounted(const char* names) {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  if (uncounted_ == nullptr) {
    uncounted_ = static_cast<Uncounted*>(MapSparse(kMaxUncounted * sizeof(Uncounted)));
  }
  const std::uint64_t before = uncounted_count_.load(std::memory_order_relaxed);
  if (uncounted_ == nullptr || before == kMaxUncounted) return;
  const char* end = names;
  while (*end != '\0') end += std::strlen(end) + 1;
  uncounted_[before] = {.address = reinterpret_cast<std::uint64_t>(names),
                        .name = NameOf(names),
                        .parts = Keep(names, static_cast<std::size_t>(end + 1 - names))};
  uncounted_count_.store(before + 1, std::memory_order_release);
}

// The old array stays, because another thread may be reading it.
const Statics::Sorted* Statics::Sort() {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  if (const Sorted* made = sorted_.load(std::memory_order_relaxed)) return made;
  auto* sorted =
      static_cast<Sorted*>(MapSparse(sizeof(Sorted) + count_ * sizeof(const StaticRecord*)));
  if (sorted == nullptr) return nullptr;
  for (std::uint64_t i = 0; i < count_; ++i) {
    const bool has_place = records_[i].live && records_[i].bytes > 0;
    if (has_place) sorted->records()[sorted->count++] = &records_[i];
  }
  std::sort(sorted->records(), sorted->records() + sorted->count,
            [](const StaticRecord* a, const StaticRecord* b) {
              if (a->start != b->start) return a->start < b->start;
              return a->bytes != b->bytes ? a->bytes < b->bytes : a->id < b->id;
            });
  sorted_.store(sorted, std::memory_order_release);
  return sorted;
}

std::uint64_t Statics::Find(std::uint64_t address) {
  const Sorted* sorted = sorted_.load(std::memory_order_acquire);
  if (sorted == nullptr) sorted = Sort();
  if (sorted == nullptr) return kElsewhereId;
  const auto* after = std::upper_bound(
      sorted->begin(), sorted->end(), address,
      [](std::uint64_t value, const StaticRecord* record) { return value < record->start; });
  if (after == sorted->begin()) return kElsewhereId;
  const StaticRecord& before = *after[-1];
  return address - before.start < before.bytes ? before.id : kElsewhereId;
}

void CountElsewhere(Thread& thread, Statics& statics, Registry& registry, std::uint64_t address,
                    std::uint64_t accesses) {
  if (CountOnOwnStack(thread, address, accesses)) return;
  std::uint64_t id = kElsewhereId;
  if (const Within within(thread); within.entered()) {
    id = statics.Find(address);
    if (id == kElsewhereId) {
      // The start of a stack may be a guess; its end is known.
      std::uint64_t nearest_end = UINT64_MAX;
      registry.EachThread([&](const Thread& other) {
        const StackBounds stack = other.stack.Get();
        if (!Load(other.in_use) || !stack.Hold(address) || stack.end >= nearest_end) return;
        nearest_end = stack.end;
        id = other.stack_id;
      });
    }
  }
  Add(thread.static_counts[id], accesses);
}

std::uint64_t StaticCount(const Registry& registry, std::uint64_t id) {
  std::uint64_t count = 0;
  registry.EachThread([&](const Thread& thread) { count += Load(thread.static_counts[id]); });
  return count;
}

std::uint64_t StackCount(const Registry& registry, const Thread& thread) {
  const std::uint64_t others =
      thread.stack_id != kElsewhereId ? StaticCount(registry, thread.stack_id) : 0;
  return Load(thread.static_counts[kOwnStackId]) + others;
}

}  // namespace tmprof::objtrace
