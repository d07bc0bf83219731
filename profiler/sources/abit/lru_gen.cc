// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/lru_gen.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/parse_integer.h"

namespace tmprof::abit {
namespace {

constexpr int kMostTries = 4;

// Takes the next word of a line: what stands before the next space.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// "memcg     2 /a b": a path may hold spaces. It is empty in a kernel without memory cgroups.
std::optional<LruGenGroup> GroupOf(std::string_view line) {
  const auto id = ParseInteger<std::uint64_t>(TakeWord(line));
  if (!id) return std::nullopt;
  if (!line.empty()) line.remove_prefix(1);
  return LruGenGroup{.id = *id, .path = line.empty() ? "/" : std::string(line)};
}

struct Generation {
  std::uint64_t number;
  PageCount anonymous;
  PageCount file;
};

// A line holds a generation's number, its age in ms, and its pages of each kind.
std::optional<Generation> GenerationOf(std::string_view line) {
  const auto number = ParseInteger<std::uint64_t>(TakeWord(line));
  const auto age_ms = ParseInteger<std::uint64_t>(TakeWord(line));
  const auto anonymous = ParseInteger<std::uint64_t>(TakeWord(line));
  const auto file = ParseInteger<std::uint64_t>(TakeWord(line));
  if (!number || !age_ms || !anonymous || !file) return std::nullopt;
  return Generation{
      .number = *number, .anonymous = PageCount(*anonymous), .file = PageCount(*file)};
}

const LruGenGroup* Find(const std::vector<LruGenGroup>& groups, std::string_view path) {
  const auto found = std::ranges::lower_bound(groups, path, {}, &LruGenGroup::path);
  return found == groups.end() || found->path != path ? nullptr : &*found;
}

}  // namespace

std::vector<LruGenGroup> ParseLruGen(std::string_view text) {
  std::map<std::string, LruGenGroup> by_path;
  LruGenGroup* group = nullptr;  // that the lines are of; null: it is left out
  bool in_node = false;
  std::int32_t node = 0;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos;
       text.remove_prefix(end + 1)) {
    const std::string_view line = text.substr(0, end);
    std::string_view rest = line;
    const std::string_view first = TakeWord(rest);
    if (first == "memcg") {
      in_node = false;
      group = nullptr;
      if (auto begun = GroupOf(rest)) {
        const std::string path = begun->path;
        group = &by_path.insert_or_assign(path, *std::move(begun)).first->second;
      }
    } else if (first == "node") {
      const auto number = ParseInteger<std::int32_t>(TakeWord(rest));
      in_node = group != nullptr && number;
      node = number.value_or(0);
    } else if (const auto generation = GenerationOf(line); generation && in_node) {
      std::vector<LruGenGroup::Node>& nodes = group->nodes;
      if (nodes.empty() || nodes.back().number != node)
        nodes.push_back({.number = node, .youngest = generation->number});
      nodes.back().youngest = std::max(nodes.back().youngest, generation->number);
      group->anonymous += generation->anonymous;
      group->file += generation->file;
    }
  }
  std::vector<LruGenGroup> groups;
  groups.reserve(by_path.size());
  for (auto& [path, each] : by_path) groups.push_back(std::move(each));
  return groups;
}

const LruGenGroup* ChargedGroup(const std::vector<LruGenGroup>& groups, std::string_view cgroup) {
  while (!cgroup.empty() && cgroup != "/") {
    if (const LruGenGroup* group = Find(groups, cgroup)) return group;
    const std::size_t slash = cgroup.rfind('/');
    cgroup = cgroup.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return Find(groups, "/");
}

Status AgeGroup(LruGenFile& file, std::string_view path) {
  const auto fail = [&](int error) {
    return Fail(Refused("age", fmt::format("the memory of cgroup {}", path), error));
  };
  std::map<std::int32_t, std::uint64_t> asked;  // the generation that was youngest, by node
  int error = 0;
  for (int tries = 0; tries <= kMostTries; ++tries) {
    auto text = file.Read();
    if (!text) return Fail(std::move(text.error()));
    const std::vector<LruGenGroup> groups = ParseLruGen(*text);
    const LruGenGroup* group = Find(groups, path);
    if (group == nullptr || group->nodes.empty()) return fail(ENOENT);
    bool all_aged = true;
    for (const LruGenGroup::Node& node : group->nodes) {
      const auto before = asked.find(node.number);
      if (before != asked.end() && node.youngest == before->second + 1) continue;
      all_aged = false;
      if (tries == kMostTries) break;
      asked[node.number] = node.youngest;
      // "can_swap" and "force_scan": anonymous memory ages, too, and all pages are walked although
      // no generation is free. If the number has become too small, kernels return success and do
      // nothing, age all the same, or return EEXIST.
      if (const int refused =
              file.Write(fmt::format("+ {} {} {} 1 1\n", group->id, node.number, node.youngest)))
        error = refused;
    }
    if (all_aged) return {};
  }
  return fail(error != 0 ? error : EBUSY);
}

}  // namespace tmprof::abit
