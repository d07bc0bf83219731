// SPDX-License-Identifier: Apache-2.0

#include "base/shared_pages.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tmprof {
namespace {

bool IsOfSystemV(std::string_view path) { return path.starts_with("/SYSV"); }

// A private mapping gets a page of its own when the page is written. All anonymous inodes are one
// inode, and a device may show other memory at an offset to each that opens it.
bool IsOfSharedFile(const Mapping& mapping) {
  if (mapping.kind != MappingKind::kShared || !mapping.file) return false;
  const std::string_view path = mapping.path;
  if (path.starts_with("anon_inode:")) return false;
  if (!path.starts_with("/dev/")) return true;
  constexpr std::string_view kMemory[] = {"/dev/zero", "/dev/shm/", "/dev/hugepages/", "/dev/dax"};
  return std::ranges::any_of(kMemory, [path](auto prefix) { return path.starts_with(prefix); });
}

}  // namespace

TargetId SharedPages::NumberOf(const Mapping& mapping) {
  const auto next = static_cast<std::uint32_t>(kFirstFile.value() + files_.size());
  const auto [file, is_new] =
      files_.try_emplace(File(mapping.file->device, mapping.file->inode,
                              IsOfSystemV(mapping.path) ? mapping.path : ""),
                         TargetId(next));
  return file->second;
}

void SharedPages::Add(const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    std::vector<Part> parts;
    for (const Mapping& mapping : target.mappings) {
      if (!IsOfSharedFile(mapping)) continue;
      parts.push_back({mapping.range, {NumberOf(mapping), Vpn(mapping.file->offset.value())}});
    }
    if (!parts.empty()) {
      parts_[target.id] = std::move(parts);
    } else if (!parts_.empty()) {
      parts_.erase(target.id);
    }
  }
}

PageKey SharedPages::NameOf(PageKey first, PageCount span) const {
  const auto of_target = parts_.find(first.target);
  if (of_target == parts_.end()) return first;
  const std::vector<Part>& parts = of_target->second;
  const auto after = std::ranges::upper_bound(parts, first.vpn, {},
                                              [](const Part& part) { return part.range.start; });
  if (after == parts.begin()) return first;
  const Part& part = *std::prev(after);
  if (part.range.end < first.vpn + span) return first;
  return {part.name.target, part.name.vpn + (first.vpn - part.range.start)};
}

}  // namespace tmprof
