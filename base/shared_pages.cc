// SPDX-License-Identifier: Apache-2.0

#include "base/shared_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
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

// Returns the addresses of private mappings. The kernel's own mappings are none.
std::vector<VpnRange> PrivateParts(std::span<const Mapping> mappings) {
  std::vector<VpnRange> parts;
  for (const Mapping& mapping : mappings) {
    if (mapping.kind == MappingKind::kShared || mapping.kind == MappingKind::kSpecial) continue;
    parts.push_back(mapping.range);
  }
  return parts;
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

std::vector<SharedPages::Part> SharedPages::FileParts(const Target& target) {
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
  return parts;
}

void SharedPages::AddForked(TargetId target, std::vector<Part>& parts) const {
  const auto of_files = static_cast<std::ptrdiff_t>(parts.size());
  for (const ForkedPages::Run& run : forked_.RunsOf(target)) {
    const std::uint32_t number = run.name.target.value();
    if (number > std::numeric_limits<std::uint32_t>::max() - kFirstForked.value()) continue;
    parts.push_back(
        {.range = run.range, .name = {TargetId(kFirstForked.value() + number), run.name.vpn}});
  }
  std::ranges::inplace_merge(parts, parts.begin() + of_files, {},
                             [](const Part& part) { return part.range.start; });
}

void SharedPages::Add(const std::vector<Target>& targets, const PageColumns* pages) {
  if (pages != nullptr) forked_.Add(*pages);
  for (const Target& target : targets) {
    std::vector<Part> parts;
    const auto known = of_targets_.find(target.id);
    if (!target.mappings.empty()) {
      parts = FileParts(target);
      if (!forked_.RunsOf(target.id).empty()) {
        forked_.KeepWithin(target.id, PrivateParts(target.mappings));
      }
    } else if (known != of_targets_.end()) {
      parts = std::move(known->second.parts);
      std::erase_if(parts, [](const Part& part) { return part.name.target >= kFirstForked; });
    }
    AddForked(target.id, parts);
    if (!parts.empty()) {
      of_targets_[target.id] = {.parts = std::move(parts), .exited = target.exited};
    } else if (known != of_targets_.end()) {
      of_targets_.erase(known);
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
  forked_.KeepOnly(targets);
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
