// SPDX-License-Identifier: Apache-2.0

#include "objects/format/arena_advice.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tmprof {
namespace {

// Takes a word up to the next blank, which is removed, too; empty: there is none.
std::string_view TakeWord(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  return word;
}

std::optional<std::uint64_t> Number(std::string_view word, int base = 10) {
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number, base);
  if (word.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

std::optional<std::uint32_t> NumberBelow(std::string_view word, std::uint32_t limit) {
  const auto number = Number(word);
  if (!number || *number >= limit) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

constexpr std::string_view kNoBuildId = "a build ID is up to 64 bytes, as pairs of digits";

class Parser {
 public:
  // Returns the fault; empty: the line was understood.
  std::string_view Line(std::string_view line) {
    if (line.starts_with('#')) return {};
    const std::string_view word = TakeWord(line);
    if (word.empty()) return {};
    if (word == "module") return Module(line);
    if (word == "build") return Build(line);
    if (word == "bind") return Bind(line);
    if (word == "room") return Room(line);
    if (word == "site") return Site(line);
    return "it is none of module, build, bind, room and site";
  }

  ArenaAdvice Take() { return std::move(advice_); }

 private:
  std::string_view Module(std::string_view rest) {
    const auto number = NumberBelow(TakeWord(rest), kMaxAdvisedModules);
    if (!number || *number == 0 || modules_.contains(*number)) {
      return "a module has a number from 1 to 63 that no other has";
    }
    if (rest.empty()) return "a module has a path";
    modules_[*number] = rest;
    return {};
  }

  std::string_view Build(std::string_view rest) {
    const auto number = NumberBelow(TakeWord(rest), kMaxAdvisedModules);
    const auto module = modules_.find(number.value_or(0));
    if (module == modules_.end()) return "a build ID is of a module above";
    const std::string_view digits = TakeWord(rest);
    std::string build_id;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      const auto byte = Number(digits.substr(i, 2), 16);
      if (!byte || digits.size() % 2 != 0) return kNoBuildId;
      build_id += static_cast<char>(*byte);
    }
    if (build_id.empty() || build_id.size() > kMaxBuildIdBytes) return kNoBuildId;
    advice_.build_ids[module->second] = std::move(build_id);
    return {};
  }

  std::string_view Bind(std::string_view rest) {
    const auto arena = NumberBelow(TakeWord(rest), kArenas);
    if (!arena) return "an arena is a number from 0 to 63";
    std::string_view words = TakeWord(rest);
    std::vector<std::uint32_t>& nodes = advice_.nodes[*arena];
    do {
      const std::string_view word = words.substr(0, words.find(','));
      words.remove_prefix(std::min(word.size() + 1, words.size()));
      const auto node = NumberBelow(word, kMaxAdvisedNode + 1);
      if (!node) return "nodes are numbers from 0 to 63 with commas between";
      nodes.push_back(*node);
    } while (!words.empty());
    return {};
  }

  std::string_view Room(std::string_view rest) {
    const auto arena = NumberBelow(TakeWord(rest), kArenas);
    if (!arena) return "an arena is a number from 0 to 63";
    const auto bytes = Number(TakeWord(rest));
    if (!bytes || *bytes == 0) return "room is a number of bytes";
    advice_.room_bytes[*arena] = *bytes;
    return {};
  }

  std::string_view Site(std::string_view rest) {
    AdvisedSite site;
    const std::string_view arena = TakeWord(rest);
    if (arena != "-") {
      site.arena = NumberBelow(arena, kArenas);
      if (!site.arena) return "an arena is a number from 0 to 63, or -";
    }
    for (std::string_view word = TakeWord(rest); !word.empty(); word = TakeWord(rest)) {
      const std::size_t plus = std::min(word.find('+'), word.size());
      const auto number = NumberBelow(word.substr(0, plus), kMaxAdvisedModules);
      const auto module = modules_.find(number.value_or(0));
      std::string_view offset = word.substr(plus);
      const bool is_hexadecimal = offset.starts_with("+0x");
      offset.remove_prefix(is_hexadecimal ? 3 : 0);
      const auto at = is_hexadecimal ? Number(offset, 16) : std::nullopt;
      if (module == modules_.end() || !at) return "a call is MODULE+0xOFFSET of a module above";
      site.calls.push_back({.module = module->second, .offset = *at});
    }
    if (site.calls.empty()) return "a site has calls";
    if (!room_.Take(site.calls)) return "there are too many calls";
    advice_.sites.push_back(std::move(site));
    return {};
  }

  ArenaAdvice advice_;
  AdviceRoom room_;
  std::map<std::uint32_t, std::string> modules_;
};

}  // namespace

bool ArenaAdvice::IsOfOtherBuild(const AdvisedSite& site,
                                 const std::map<std::string, std::string>& of_others) const {
  return std::ranges::any_of(site.calls, [&](const AdvisedCall& call) {
    const auto own = build_ids.find(call.module);
    const auto other = of_others.find(call.module);
    return own != build_ids.end() && other != of_others.end() && own->second != other->second;
  });
}

bool AdviceRoom::Take(const std::vector<AdvisedCall>& calls) {
  std::size_t new_modules = 0;
  std::map<std::string, std::uint32_t> modules = modules_;
  for (const AdvisedCall& call : calls) {
    if (call.module.empty() || call.module.find('\n') != std::string::npos) return false;
    if (modules.try_emplace(call.module, 0).second) ++new_modules;
  }
  if (calls.empty() || modules_.size() + new_modules >= kMaxAdvisedModules) return false;
  // Assumes that no call is shared.
  if (calls_.size() + calls.size() >= kMaxAdvisedCalls) return false;
  modules_ = std::move(modules);
  std::uint32_t place = 0;
  for (const AdvisedCall& call : calls) {
    const auto number = static_cast<std::uint32_t>(calls_.size() + 1);
    place = calls_.try_emplace({place, call}, number).first->second;
  }
  return true;
}

std::string AdviceText(const ArenaAdvice& advice, const std::vector<std::string>& comments) {
  std::string text = std::string(kAdviceFirstLine) + "\n";
  for (const std::string& comment : comments) text += fmt::format("# {}\n", comment);
  std::map<std::string_view, std::size_t> modules;
  for (const AdvisedSite& site : advice.sites) {
    for (const AdvisedCall& call : site.calls) {
      const auto [module, is_new] = modules.try_emplace(call.module, modules.size() + 1);
      if (!is_new) continue;
      text += fmt::format("module {} {}\n", module->second, call.module);
      const auto build = advice.build_ids.find(call.module);
      if (build == advice.build_ids.end()) continue;
      text += fmt::format("build {} ", module->second);
      for (const char byte : build->second) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      text += "\n";
    }
  }
  for (const auto& [arena, nodes] : advice.nodes) {
    text += fmt::format("bind {} {}\n", arena, fmt::join(nodes, ","));
  }
  for (const auto& [arena, bytes] : advice.room_bytes) {
    text += fmt::format("room {} {}\n", arena, bytes);
  }
  for (const AdvisedSite& site : advice.sites) {
    text += "site " + (site.arena ? fmt::format("{}", *site.arena) : "-");
    for (const AdvisedCall& call : site.calls) {
      text += fmt::format(" {}+{:#x}", modules.at(call.module), call.offset);
    }
    text += "\n";
  }
  return text;
}

Result<ArenaAdvice> ReadAdvice(const std::filesystem::path& path) {
  constexpr const char* kAttempt = "read advice";
  std::ifstream file(path);
  if (!file) return Fail(Refused(kAttempt, path.string(), errno));
  Parser parser;
  std::uint64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    std::string_view wrong;
    if (++number > 1) {
      wrong = parser.Line(line);
    } else if (line != kAdviceFirstLine) {
      wrong = "it is not 'tmprof-advice 1'";
    }
    if (!wrong.empty()) {
      return Fail(BadInput(kAttempt, path.string(), fmt::format("line {}: {}", number, wrong)));
    }
  }
  if (file.bad()) return Fail(Refused(kAttempt, path.string(), errno));
  if (number == 0) return Fail(BadInput(kAttempt, path.string(), "it is empty"));
  return parser.Take();
}

}  // namespace tmprof
