// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/advice.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "objects/runtime/loaded_file.h"

namespace tmprof::objtrace {
namespace {

constexpr int kPlaceBits = 16;
constexpr std::uint64_t kPlaceMask = (1 << kPlaceBits) - 1;
static_assert(kMaxAdvisedCalls <= kPlaceMask + 1);

// Takes a word up to `end`, which is removed, too; null: there is none.
char* TakeWord(char*& rest) {
  while (*rest == ' ') ++rest;
  if (*rest == '\0') return nullptr;
  char* word = rest;
  while (*rest != ' ' && *rest != '\0') ++rest;
  if (*rest == ' ') *rest++ = '\0';
  return word;
}

bool ParseNumber(const char* word, const char* end_marks, int base, std::uint64_t& number,
                 const char** end) {
  errno = 0;
  char* after = nullptr;
  number = std::strtoull(word, &after, base);
  if (after == word || *word == '-' || errno != 0 || std::strchr(end_marks, *after) == nullptr) {
    return false;
  }
  *end = after;
  return true;
}

bool ParseArena(const char* word, std::uint64_t& arena) {
  const char* end = nullptr;
  return word != nullptr && ParseNumber(word, "", 10, arena, &end) && arena < kArenas;
}

}  // namespace

const char* Advice::ParseModule(char* rest) {
  std::uint64_t number = 0;
  const char* end = nullptr;
  const char* word = TakeWord(rest);
  if (word == nullptr || !ParseNumber(word, "", 10, number, &end) || number == 0 ||
      number >= kMaxAdvisedModules || path_[number] != nullptr) {
    return "a module has a number from 1 to 63 that no other has";
  }
  if (*rest == '\0') return "a module has a path";
  path_[number] = rest;
  return nullptr;
}

const char* Advice::ParseBuild(char* rest) {
  std::uint64_t number = 0;
  const char* end = nullptr;
  const char* word = TakeWord(rest);
  if (word == nullptr || !ParseNumber(word, "", 10, number, &end) || number == 0 ||
      number >= kMaxAdvisedModules || path_[number] == nullptr) {
    return "a build ID is of a module above";
  }
  constexpr const char* kNone = "a build ID is up to 64 bytes, as pairs of digits";
  const char* digits = TakeWord(rest);
  const std::size_t count = digits != nullptr ? std::strlen(digits) : 0;
  if (count == 0 || count % 2 != 0 || count > 2 * std::size_t{kMaxBuildIdBytes}) return kNone;
  for (std::size_t i = 0; i < count; i += 2) {
    const char pair[3] = {digits[i], digits[i + 1], '\0'};
    std::uint64_t byte = 0;
    if (std::strspn(pair, "0123456789abcdefABCDEF") != 2 ||
        !ParseNumber(pair, "", 16, byte, &end)) {
      return kNone;
    }
    build_id_[number][i / 2] = static_cast<std::uint8_t>(byte);
  }
  build_id_bytes_[number] = static_cast<std::uint8_t>(count / 2);
  return nullptr;
}

const char* Advice::ParseBind(char* rest) {
  std::uint64_t arena = 0;
  if (!ParseArena(TakeWord(rest), arena)) return "an arena is a number from 0 to 63";
  const char* word = TakeWord(rest);
  while (word != nullptr && *word != '\0') {
    std::uint64_t node = 0;
    const char* end = nullptr;
    if (!ParseNumber(word, ",", 10, node, &end) || node >= 64) {
      return "nodes are numbers from 0 to 63 with commas between";
    }
    nodes_[arena] |= std::uint64_t{1} << node;
    word = *end == ',' ? end + 1 : end;
  }
  return nodes_[arena] != 0 ? nullptr : "nodes are missing";
}

const char* Advice::ParseRoom(char* rest) {
  std::uint64_t arena = 0;
  if (!ParseArena(TakeWord(rest), arena)) return "an arena is a number from 0 to 63";
  const char* word = TakeWord(rest);
  const char* end = nullptr;
  if (word == nullptr || !ParseNumber(word, "", 10, room_[arena], &end) || room_[arena] == 0) {
    return "room is a number of bytes";
  }
  return nullptr;
}

const char* Advice::ParseSite(char* rest) {
  const char* word = TakeWord(rest);
  std::uint64_t arena = 0;
  const bool stays = word != nullptr && std::strcmp(word, "-") == 0;
  if (!stays && !ParseArena(word, arena)) return "an arena is a number from 0 to 63, or -";
  const auto verdict = stays ? kStay : static_cast<std::int32_t>(arena);
  if (!stays && arenas_ <= arena) arenas_ = static_cast<std::uint32_t>(arena) + 1;
  Place place = kOutermost;
  while ((word = TakeWord(rest)) != nullptr) {
    std::uint64_t module = 0;
    std::uint64_t offset = 0;
    const char* end = nullptr;
    if (!ParseNumber(word, "+", 10, module, &end) || *end != '+' || module == 0 ||
        module >= kMaxAdvisedModules || path_[module] == nullptr ||
        !ParseNumber(end + 1, "", 16, offset, &end)) {
      return "a call is MODULE+0xOFFSET of a module above";
    }
    Place caller = CallerOf(place, static_cast<std::uint32_t>(module), offset);
    if (caller == 0) {
      if (calls_ + 1 == kMaxAdvisedCalls) return "there are too many calls";
      caller = ++calls_;
      call_[caller] = {.offset = offset,
                       .module = static_cast<std::uint32_t>(module),
                       .callers = 0,
                       .next = call_[place].callers,
                       .verdict = verdict};
      call_[place].callers = caller;
    } else if (call_[caller].verdict != verdict) {
      call_[caller].verdict = kLookDeeper;
    }
    place = caller;
  }
  return place != kOutermost ? nullptr : "a site has calls";
}

const char* Advice::Parse(char* text, std::uint32_t& line) {
  const ssize_t length = ::readlink("/proc/self/exe", program_, sizeof(program_) - 1);
  program_[length > 0 ? length : 0] = '\0';
  call_[kOutermost].verdict = kLookDeeper;
  line = 0;
  while (*text != '\0') {
    ++line;
    char* rest = text;
    text = ::strchrnul(text, '\n');
    if (*text != '\0') *text++ = '\0';
    if (line == 1) {
      if (std::strcmp(rest, kAdviceFirstLine) != 0) return "it is not 'tmprof-advice 1'";
      continue;
    }
    const char* word = *rest == '#' ? nullptr : TakeWord(rest);
    if (word == nullptr) continue;
    const char* wrong = "it is none of module, build, bind, room and site";
    if (std::strcmp(word, "module") == 0) wrong = ParseModule(rest);
    if (std::strcmp(word, "build") == 0) wrong = ParseBuild(rest);
    if (std::strcmp(word, "bind") == 0) wrong = ParseBind(rest);
    if (std::strcmp(word, "room") == 0) wrong = ParseRoom(rest);
    if (std::strcmp(word, "site") == 0) wrong = ParseSite(rest);
    if (wrong != nullptr) return wrong;
  }
  return line > 0 ? nullptr : "it is empty";
}

Advice::Place Advice::CallerOf(Place place, std::uint32_t module, std::uint64_t offset) const {
  Place caller = call_[place].callers;
  while (caller != 0 && (call_[caller].module != module || call_[caller].offset != offset)) {
    caller = call_[caller].next;
  }
  return caller;
}

std::uint32_t Advice::ModuleOf(std::uint64_t address, std::uint64_t& offset) const {
  dl_find_object found{};
  if (::_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return 0;
  const link_map& map = *found.dlfo_link_map;
  const char* path = map.l_name[0] == '\0' ? program_ : map.l_name;
  offset = address - map.l_addr;
  for (std::uint32_t i = 1; i < kMaxAdvisedModules; ++i) {
    if (path_[i] == nullptr || std::strcmp(path_[i], path) != 0) continue;
    return IsSameBuild(i, found.dlfo_map_start, map.l_addr) ? i : 0;
  }
  return 0;
}

bool Advice::IsSameBuild(std::uint32_t module, const void* file_start, std::uint64_t bias) const {
  if (build_id_bytes_[module] == 0) return true;
  const Build known = build_[module].load(std::memory_order_relaxed);
  if (known != Build::kNotChecked) return known == Build::kSame;
  const std::span<const std::uint8_t> loaded = BuildIdOf(SegmentsOf(file_start), bias);
  const bool is_same = loaded.size() == build_id_bytes_[module] &&
                       std::memcmp(loaded.data(), build_id_[module], loaded.size()) == 0;
  Build not_checked = Build::kNotChecked;
  build_[module].compare_exchange_strong(not_checked, is_same ? Build::kSame : Build::kOther,
                                         std::memory_order_relaxed);
  if (!is_same) has_other_build_.store(true, std::memory_order_release);
  return is_same;
}

const char* Advice::TakeOtherBuild() {
  has_other_build_.store(false, std::memory_order_relaxed);
  for (std::uint32_t i = 1; i < kMaxAdvisedModules; ++i) {
    Build other = Build::kOther;
    if (build_[i].load(std::memory_order_relaxed) == other &&
        build_[i].compare_exchange_strong(other, Build::kOtherAndReported,
                                          std::memory_order_relaxed)) {
      return path_[i];
    }
  }
  return nullptr;
}

bool Advice::Descend(Place& place, std::uint64_t return_address) const {
  std::uint64_t offset = 0;
  const std::uint32_t module = ModuleOf(return_address - 1, offset);
  place = module != 0 ? CallerOf(place, module, offset) : 0;
  return place != 0;
}

Advice::Place Advice::First(std::uint64_t return_address) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::atomic<std::uint64_t>& entry = cache_[return_address * kFactor >> 52];
  static_assert(kCacheEntries == 1 << 12);
  const std::uint64_t known = entry.load(std::memory_order_relaxed);
  if (known >> kPlaceBits == return_address) return static_cast<Place>(known & kPlaceMask);
  Place place = kOutermost;
  if (!Descend(place, return_address)) place = kOutermost;
  entry.store(return_address << kPlaceBits | place, std::memory_order_relaxed);
  return place;
}

}  // namespace tmprof::objtrace
