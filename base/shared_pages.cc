// SPDX-License-Identifier: Apache-2.0

#include "base/shared_pages.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

namespace tmprof {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// A private mapping gets a page of its own when the page is written. All anonymous inodes are one
// inode. A device may show other memory at an offset to each process that opens it.
bool IsOfSharedFile(const Mapping& mapping) {
  if (mapping.kind != MappingKind::kShared || !mapping.file) return false;
  const std::string_view path = mapping.path;
  if (path.starts_with("anon_inode:")) return false;
  if (!path.starts_with("/dev/")) return true;
  constexpr std::string_view kMemory[] = {"/dev/zero", "/dev/shm/", "/dev/hugepages/", "/dev/dax"};
  return std::ranges::any_of(kMemory, [path](auto prefix) { return path.starts_with(prefix); });
}

}  // namespace

TargetId SharedPages::NumberOf(const Mapping& mapping, std::optional<std::uint64_t> ipc_namespace) {
  std::string_view path = mapping.path;
  const bool unlinked = path.ends_with(kDeleted);
  if (unlinked) path.remove_suffix(kDeleted.size());
  const auto [file, is_new] = files_.try_emplace(
      File(mapping.file->device, mapping.file->inode, path, ipc_namespace),
      Numbered{.number = TargetId(kFirstFile.value() + next_file_), .unlinked = false});
  if (is_new) ++next_file_;
  file->second.unlinked |= unlinked;
  return file->second.number;
}

std::optional<FilePlace> SharedPages::PlaceOf(PageKey name) const {
  const auto found = std::ranges::find_if(
      files_, [name](const auto& file) { return file.second.number == name.target; });
  if (found == files_.end()) return std::nullopt;
  const auto& [device, inode, path, ipc_namespace] = found->first;
  return FilePlace{.device = device, .inode = inode, .offset = PageCount(name.vpn.value())};
}

template <typename MayEnd>
void SharedPages::EndUnmapped(MayEnd may_end) {
  std::set<TargetId> mapped;
  for (const auto& [id, target] : of_targets_) {
    if (target.exited) continue;
    for (const Part& part : target.parts) mapped.insert(part.name.target);
  }
  std::erase_if(files_, [&](const auto& file) {
    return may_end(file.second) && !mapped.contains(file.second.number);
  });
}

void SharedPages::Add(const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    std::vector<Part> parts;
    for (const Mapping& mapping : target.mappings) {
      if (!IsOfSharedFile(mapping)) continue;
      const bool is_segment = mapping.path.starts_with("/SYSV");
      const TargetId file = NumberOf(mapping, is_segment ? target.ipc_namespace : std::nullopt);
      parts.push_back({.range = mapping.range,
                       .name = {file, Vpn(mapping.file->offset.value())},
                       .is_segment = is_segment,
                       .may_be_another = is_segment && !target.ipc_namespace});
    }
    if (!parts.empty()) {
      of_targets_[target.id] = {.parts = std::move(parts), .exited = target.exited};
    } else if (const auto known = of_targets_.find(target.id); known != of_targets_.end()) {
      if (target.mappings.empty()) {
        known->second.exited = target.exited;
      } else {
        of_targets_.erase(known);
      }
    }
  }
  const auto is_unlinked = [](const Numbered& file) { return file.unlinked; };
  if (std::ranges::any_of(files_, [&](const auto& file) { return is_unlinked(file.second); })) {
    EndUnmapped(is_unlinked);
  }
}

void SharedPages::KeepOnly(std::span<const TargetId> targets) {
  std::erase_if(of_targets_, [targets](const auto& of_target) {
    return !std::ranges::binary_search(targets, of_target.first);
  });
  EndUnmapped([](const Numbered&) { return true; });
}

std::vector<TargetId> SharedPages::Mappers() const {
  std::vector<TargetId> mappers;
  for (const auto& [id, target] : of_targets_) mappers.push_back(id);
  return mappers;
}

std::span<const SharedPages::Part> SharedPages::PartsOf(TargetId target) const {
  const auto of_target = of_targets_.find(target);
  if (of_target == of_targets_.end()) return {};
  return of_target->second.parts;
}

PageKey SharedPages::NameOf(PageKey first, PageCount span) const {
  const auto of_target = of_targets_.find(first.target);
  if (of_target == of_targets_.end()) return first;
  const std::vector<Part>& parts = of_target->second.parts;
  const auto after = std::ranges::upper_bound(parts, first.vpn, {},
                                              [](const Part& part) { return part.range.start; });
  if (after == parts.begin()) return first;
  const Part& part = *std::prev(after);
  if (part.range.end < first.vpn + span) return first;
  return {part.name.target, part.name.vpn + (first.vpn - part.range.start)};
}

std::vector<std::optional<FilePlace>> SharedFilesAt(std::span<const Mapping> mappings,
                                                    std::span<const Vpn> pages) {
  std::vector<std::optional<FilePlace>> files;
  files.reserve(pages.size());
  auto mapping = mappings.begin();
  for (const Vpn page : pages) {
    while (mapping != mappings.end() && mapping->range.end <= page) ++mapping;
    std::optional<FilePlace>& file = files.emplace_back();
    if (mapping == mappings.end() || page < mapping->range.start) continue;
    if (!IsOfSharedFile(*mapping)) continue;
    file = mapping->file;
    file->offset += page - mapping->range.start;
  }
  return files;
}

}  // namespace tmprof
