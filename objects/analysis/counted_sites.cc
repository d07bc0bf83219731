// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/counted_sites.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "objects/analysis/objects.h"

namespace tmprof {
namespace {

// Returns the name without what compilers and linkers append: " [clone .isra.0]", "@@GLIBC_2.34",
// and ".constprop.0" on a name that is not mangled.
std::string_view Plain(std::string_view function) {
  function = function.substr(0, function.find(" [clone "));
  function = function.substr(0, function.find('@', 1));
  if (function.find_first_of("(<: ") == std::string_view::npos) {
    function = function.substr(0, function.find('.', 1));
  }
  return function;
}

// True if the compiler split this part off a function, which then calls it.
bool IsPart(std::string_view function) { return function.find(".part.") != std::string_view::npos; }

// Returns the position behind the bracket that closes the one at `at`.
std::size_t BehindBracket(std::string_view text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at + 1;
  }
  return at;
}

// The last part of a function's name: "push_back" of "void std::vector<int>::push_back(int
// const&)".
struct FunctionName {
  std::string_view last;      // without template arguments
  bool is_qualified = false;  // its scope, parameters or return type are known, too
};

FunctionName Parse(std::string_view name) {
  constexpr std::string_view kOperator = "operator";
  constexpr std::string_view kScope = "::";
  std::size_t begin = 0;
  int depth = 0;  // nesting of template arguments and of the brackets that spell lambdas
  std::size_t at = 0;
  while (at < name.size()) {
    const std::string_view rest = name.substr(at);
    if (depth == 0 && at == begin && rest.starts_with(kOperator) &&
        (rest.size() == kOperator.size() ||
         (std::isalnum(static_cast<unsigned char>(rest[kOperator.size()])) == 0 &&
          rest[kOperator.size()] != '_'))) {
      const bool is_call = rest.substr(kOperator.size()).starts_with("()");
      const std::size_t parameters = rest.find('(', kOperator.size() + (is_call ? 2 : 0));
      return {.last = rest.substr(0, parameters),
              .is_qualified = begin > 0 || parameters != std::string_view::npos};
    }
    if (depth == 0 && rest.starts_with(kScope)) {
      begin = at += kScope.size();
      continue;
    }
    if (depth == 0 && rest[0] == '(') {
      const std::size_t behind = BehindBracket(name, at);
      const std::size_t scope = name.find(kScope, behind);
      // "(anonymous namespace)::f", or "f(int) const::{lambda()#1}::operator()".
      const bool is_scope = scope != std::string_view::npos &&
                            (scope == behind || name.substr(behind, scope - behind) == " const");
      if (!is_scope) break;
      at = scope;
      continue;
    }
    if (rest[0] == '<' || rest[0] == '{') ++depth;
    if ((rest[0] == '>' || rest[0] == '}') && depth > 0) --depth;
    ++at;
    if (depth == 0 && rest[0] == ' ') begin = at;
  }
  const std::string_view last = name.substr(begin, at - begin);
  return {.last = last.substr(0, last.find('<', 1)), .is_qualified = begin > 0 || at < name.size()};
}

// Compilers name lambdas as they like.
bool HasLambda(std::string_view name) {
  return name.find("lambda") != std::string_view::npos || name.find("$_") != std::string_view::npos;
}

bool IsOwnLibrary(const SourceFrame& frame) {
  const std::string file = FileName(frame.module);
  return file == "libtmprof_allocations.so" || file == "libtmprof_objects.so";
}

// Numbers calls. Calls that agree in everything that is compared have one number.
class Calls {
 public:
  struct Call {
    std::uint32_t last_name = 0;  // its number
    std::string name;
    bool is_whole = false;  // complete: different names are different functions
    std::string file;       // without folders
    int line = 0;           // 0: unknown
  };

  const Call& operator[](std::uint32_t number) const { return calls_[number]; }

  // Returns the calls, innermost first. A recursion is one call, however deep. A split-off part and
  // the rest of its function are one call, too.
  std::vector<std::uint32_t> StackOf(std::span<const SourceFrame> frames) {
    std::vector<std::uint32_t> stack;
    std::string_view part;  // function of which the call before is a split-off part
    for (const SourceFrame& frame : frames) {
      if (IsOwnLibrary(frame)) continue;
      const std::string_view name = Plain(frame.function);
      if (name.empty()) break;
      if (name == std::exchange(part, IsPart(frame.function) ? name : "")) continue;
      const FunctionName parsed = Parse(name);
      if (stack.empty() && (parsed.last == "operator new" || parsed.last == "operator new[]")) {
        continue;
      }
      const std::uint32_t number = NumberOf(frame, name, parsed);
      if (stack.empty() || stack.back() != number) stack.push_back(number);
    }
    return stack;
  }

 private:
  std::uint32_t NumberOf(const SourceFrame& frame, std::string_view name,
                         const FunctionName& parsed) {
    Call call{.last_name = last_names_
                               .try_emplace(std::string(parsed.last),
                                            static_cast<std::uint32_t>(last_names_.size()))
                               .first->second,
              .name = std::string(name),
              .is_whole = parsed.is_qualified && !HasLambda(name),
              .file = FileName(frame.file),
              .line = frame.line};
    const auto [at, is_new] = numbers_.try_emplace(std::tuple(call.name, call.file, call.line),
                                                   static_cast<std::uint32_t>(calls_.size()));
    if (is_new) calls_.push_back(std::move(call));
    return at->second;
  }

  std::vector<Call> calls_;
  std::map<std::tuple<std::string, std::string, int>, std::uint32_t> numbers_;
  std::map<std::string, std::uint32_t> last_names_;
};

enum class Likeness : std::uint8_t {
  kNone,
  kFunctions,  // lines differ
  kSomeLines,  // only one side knows the line of some calls
  kLines,
};

Likeness LikenessOf(const Calls::Call& a, const Calls::Call& b) {
  if (a.last_name != b.last_name || (a.is_whole && b.is_whole && a.name != b.name)) {
    return Likeness::kNone;
  }
  if (a.line != 0 && b.line != 0 && a.file != b.file) return Likeness::kNone;
  if (a.line == b.line) return Likeness::kLines;
  return a.line == 0 || b.line == 0 ? Likeness::kSomeLines : Likeness::kFunctions;
}

using Stack = std::vector<std::uint32_t>;

// Compares the calls that both stacks have.
Likeness LikenessOf(const Calls& calls, const Stack& a, const Stack& b) {
  Likeness likeness = Likeness::kLines;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && likeness != Likeness::kNone; ++i) {
    likeness = std::min(likeness, LikenessOf(calls[a[i]], calls[b[i]]));
  }
  return likeness;
}

// Stacks that are found by what they begin with.
class Stacks {
 public:
  explicit Stacks(const Calls& calls) : calls_(calls) {}

  // Returns the number of the stack, from 0 on; equal stacks share one. nullopt: the stack has
  // nothing to compare.
  std::optional<std::size_t> Add(Stack stack) {
    if (stack.empty()) return std::nullopt;
    const auto [at, is_new] = numbers_.try_emplace(std::move(stack), stacks_.size());
    if (is_new) {
      by_names_[NamesOf(at->first)].push_back(stacks_.size());
      stacks_.push_back(&at->first);
    }
    return at->second;
  }

  const Stack& operator[](std::size_t number) const { return *stacks_[number]; }
  std::size_t size() const { return stacks_.size(); }

  // Returns the numbers of the stacks that are at least this much like it.
  std::vector<std::size_t> Like(const Stack& stack, Likeness least) const {
    std::vector<std::size_t> found;
    const auto add = [&](const std::vector<std::size_t>& numbers) {
      for (const std::size_t number : numbers) {
        if (LikenessOf(calls_, *stacks_[number], stack) >= least) found.push_back(number);
      }
    };
    std::vector<std::uint32_t> names = NamesOf(stack);
    for (auto longer = by_names_.lower_bound(names);
         longer != by_names_.end() && longer->first.size() >= names.size() &&
         std::ranges::equal(names, std::span(longer->first).first(names.size()));
         ++longer) {
      add(longer->second);
    }
    while (names.size() > 1) {
      names.pop_back();
      const auto shorter = by_names_.find(names);
      if (shorter != by_names_.end()) add(shorter->second);
    }
    return found;
  }

 private:
  std::vector<std::uint32_t> NamesOf(const Stack& stack) const {
    std::vector<std::uint32_t> names;
    for (const std::uint32_t call : stack) names.push_back(calls_[call].last_name);
    return names;
  }

  const Calls& calls_;
  std::map<Stack, std::size_t> numbers_;
  std::vector<const Stack*> stacks_;  // index: number
  std::map<std::vector<std::uint32_t>, std::vector<std::size_t>> by_names_;
};

// True if all calls of `stack` are in `other` in the same order, by lines, as far as both lead. The
// further calls of `other` are functions that ended in a jump to what they called last. A single
// call proves nothing.
bool IsWithoutJumps(const Calls& calls, const Stack& stack, const Stack& other) {
  std::size_t found = 0;
  bool is_last = false;  // the last call of `other` is in `stack`
  for (const std::uint32_t call : other) {
    if (found == stack.size()) break;
    is_last = LikenessOf(calls[stack[found]], calls[call]) == Likeness::kLines;
    if (is_last) ++found;
  }
  return found > 1 && (found == stack.size() || is_last);
}

// The places of the trace that a stack of a profile may be.
struct Match {
  std::set<std::uint32_t> places;
  bool is_sure = false;  // it certainly is that place
  // Places it may be if `places` is empty; other stacks are as much like them.
  std::set<std::uint32_t> unclear;
};

class Matcher {
 public:
  explicit Matcher(const std::vector<TracedSite>& sites) {
    for (const TracedSite& site : sites) {
      const auto number = traced_.Add(calls_.StackOf(site.frames));
      if (!number) continue;
      places_.resize(traced_.size());
      places_[*number].insert(site.place);
    }
  }

  // Returns the number of the stack. nullopt: it has nothing to compare.
  std::optional<std::size_t> Add(std::span<const SourceFrame> frames, std::uint64_t accesses) {
    const auto number = counted_.Add(calls_.StackOf(frames));
    accesses_.resize(counted_.size());
    if (number) accesses_[*number] += accesses;
    return number;
  }

  // Returns the matches by number, after all stacks were added.
  std::vector<Match> Take() const {
    std::vector<Match> matches;
    for (std::size_t number = 0; number < counted_.size(); ++number) {
      matches.push_back(MatchOf(counted_[number]));
    }
    FindThoseWithJumps(matches);
    std::set<std::uint32_t> unknown;
    for (std::size_t number = 0; number < counted_.size(); ++number) {
      const Match& match = matches[number];
      if (match.is_sure || accesses_[number] == 0) continue;
      unknown.insert(match.places.begin(), match.places.end());
    }
    for (Match& match : matches) {
      match.is_sure = match.is_sure && !unknown.contains(*match.places.begin());
    }
    return matches;
  }

  std::uint64_t accesses(std::size_t number) const { return accesses_[number]; }

 private:
  Match MatchOf(const Stack& stack) const {
    const std::vector<std::size_t> by_lines = traced_.Like(stack, Likeness::kSomeLines);
    if (!by_lines.empty()) {
      Match match{.places = PlacesOf(by_lines)};
      match.is_sure = match.places.size() == 1 && (!traced_.Like(stack, Likeness::kLines).empty() ||
                                                   AreOfOne(by_lines, Likeness::kSomeLines));
      return match;
    }
    const std::vector<std::size_t> by_functions = traced_.Like(stack, Likeness::kFunctions);
    Match match{.places = PlacesOf(by_functions)};
    match.is_sure = match.places.size() == 1 && AreOfOne(by_functions, Likeness::kFunctions);
    return match.is_sure ? match : Match{.unclear = std::move(match.places)};
  }

  // Matches stacks that have no place yet. Such a stack gets a place if it fits there, jumps aside,
  // fits nowhere else, and no other stack is at that place.
  void FindThoseWithJumps(std::vector<Match>& matches) const {
    std::set<std::uint32_t> taken;
    for (const Match& match : matches) taken.insert(match.places.begin(), match.places.end());
    std::map<std::uint32_t, std::vector<std::size_t>> by_innermost;
    for (std::size_t number = 0; number < traced_.size(); ++number) {
      const std::set<std::uint32_t>& places = places_[number];
      if (std::ranges::any_of(places, [&](std::uint32_t place) { return taken.contains(place); })) {
        continue;
      }
      by_innermost[calls_[traced_[number][0]].last_name].push_back(number);
    }
    std::map<std::uint32_t, std::vector<std::size_t>> counted_at;  // key: place
    std::vector<std::set<std::uint32_t>> found(matches.size());
    for (std::size_t number = 0; number < matches.size(); ++number) {
      if (!matches[number].places.empty()) continue;
      std::set<std::uint32_t> names;
      for (const std::uint32_t call : counted_[number]) names.insert(calls_[call].last_name);
      for (const std::uint32_t name : names) {
        const auto traced = by_innermost.find(name);
        if (traced == by_innermost.end()) continue;
        for (const std::size_t other : traced->second) {
          if (!IsWithoutJumps(calls_, traced_[other], counted_[number])) continue;
          found[number].insert(places_[other].begin(), places_[other].end());
        }
      }
      for (const std::uint32_t place : found[number]) counted_at[place].push_back(number);
    }
    for (std::size_t number = 0; number < matches.size(); ++number) {
      matches[number].unclear.insert(found[number].begin(), found[number].end());
      if (found[number].size() != 1 || counted_at[*found[number].begin()].size() != 1) continue;
      matches[number] = {.places = found[number], .is_sure = true};
    }
  }

  std::set<std::uint32_t> PlacesOf(const std::vector<std::size_t>& traced) const {
    std::set<std::uint32_t> places;
    for (const std::size_t number : traced) {
      places.insert(places_[number].begin(), places_[number].end());
    }
    return places;
  }

  // True if exactly one stack of the profiles is so much like each of these.
  bool AreOfOne(const std::vector<std::size_t>& traced, Likeness least) const {
    return std::ranges::all_of(traced, [&](std::size_t number) {
      return counted_.Like(traced_[number], least).size() == 1;
    });
  }

  Calls calls_;
  Stacks traced_{calls_};
  Stacks counted_{calls_};
  std::vector<std::set<std::uint32_t>> places_;  // one set per stack of the trace
  std::vector<std::uint64_t> accesses_;          // one per stack of the profiles
};

Error NothingFound(const std::string& profile, std::uint64_t sites, const std::string& trace) {
  constexpr const char* kAttempt = "use object profile";
  if (sites == 0) {
    return BadInput(kAttempt, profile, "it counted no access to anything that was allocated",
                    "name the profile of a run of the program that tmprof cc built");
  }
  return BadInput(
      kAttempt, profile,
      fmt::format("of its {} allocation sites with accesses none is known to be one of '{}'",
                  Grouped(sites), trace),
      "build both programs of the same sources with -g, and record the other one with tmprof "
      "record --objects; the profile's functions and lines come from its program's file, unless "
      "tmprof convert --to objects put them in");
}

}  // namespace

Result<SiteCounts> CountSites(const ObjectProfiles& profiles, const std::vector<TracedSite>& sites,
                              const std::string& trace) {
  SiteCounts counts;
  const std::vector<ObjectProfiles::CountedSites> counted = profiles.Sites();
  Matcher matcher(sites);
  std::vector<std::map<std::uint32_t, std::size_t>> numbers;  // per profile; key: its site
  for (const ObjectProfiles::CountedSites& profile : counted) {
    auto& of_profile = numbers.emplace_back();
    for (const ObjectProfiles::CountedSite& site : profile.sites) {
      counts.accesses += site.accesses;
      const auto number = matcher.Add(site.frames, site.accesses);
      if (number) {
        of_profile[site.id] = *number;
      } else if (site.accesses > 0) {
        ++counts.missing_sites;
      }
    }
  }
  const std::vector<Match> matches = matcher.Take();
  for (std::size_t i = 0; i < counted.size(); ++i) {
    auto& places = counts.places.emplace_back();
    for (const auto& [id, number] : numbers[i]) {
      if (matches[number].is_sure) places[id] = *matches[number].places.begin();
    }
    std::uint64_t with_accesses = 0;
    bool is_found = false;
    for (const ObjectProfiles::CountedSite& site : counted[i].sites) {
      if (site.accesses == 0) continue;
      ++with_accesses;
      is_found = is_found || places.contains(site.id);
    }
    if (!is_found) return Fail(NothingFound(counted[i].file, with_accesses, trace));
  }
  for (std::size_t number = 0; number < matches.size(); ++number) {
    if (!matches[number].is_sure) continue;
    counts.by_place[*matches[number].places.begin()] += matcher.accesses(number);
    counts.found += matcher.accesses(number);
  }
  for (std::size_t number = 0; number < matches.size(); ++number) {
    const Match& match = matches[number];
    if (match.is_sure || matcher.accesses(number) == 0) continue;
    // The site cannot be a place that certainly is another one's.
    const bool may_be_there =
        !match.places.empty() || std::ranges::any_of(match.unclear, [&](std::uint32_t place) {
          return !counts.by_place.contains(place);
        });
    ++(may_be_there ? counts.ambiguous_sites : counts.missing_sites);
  }
  return counts;
}

}  // namespace tmprof
