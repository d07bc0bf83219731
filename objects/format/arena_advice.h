// SPDX-License-Identifier: Apache-2.0
// Reads and writes advice files: text for programs that preload libtmprof_allocations. Its manual
// is objects/tracker/advice.h.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "objects/arena_advice.h"

namespace tmprof {

// A call that leads to an allocation, in one build of a module.
struct AdvisedCall {
  std::string module;        // path
  std::uint64_t offset = 0;  // in the addresses of the module's symbols
  friend auto operator<=>(const AdvisedCall&, const AdvisedCall&) = default;
};

struct AdvisedSite {
  std::optional<std::uint32_t> arena;  // unset: its objects stay where malloc(3) puts them
  std::vector<AdvisedCall> calls;      // innermost first; never empty
  friend bool operator==(const AdvisedSite&, const AdvisedSite&) = default;
};

struct ArenaAdvice {
  std::map<std::uint32_t, std::vector<std::uint32_t>> nodes;  // key: arena
  std::map<std::uint32_t, std::uint64_t> room_bytes;          // key: arena; others have no limit
  std::vector<AdvisedSite> sites;
  std::map<std::string, std::string> build_ids =
      {};  // bytes, by the module's path; others: unknown

  // True if calls of the site are known to be in another build of their module than these.
  bool IsOfOtherBuild(const AdvisedSite& site,
                      const std::map<std::string, std::string>& of_others) const;
  friend bool operator==(const ArenaAdvice&, const ArenaAdvice&) = default;
};

// Keeps advice within the room of the programs that read it.
class AdviceRoom {
 public:
  // Takes the room that the site needs. False: there is not enough, or its calls cannot be spelt.
  bool Take(const std::vector<AdvisedCall>& calls);

 private:
  std::map<std::string, std::uint32_t> modules_;
  // The key has the call that they lead to, which is 0 for the innermost.
  std::map<std::pair<std::uint32_t, AdvisedCall>, std::uint32_t> calls_;
};

// Precondition: all sites are within AdviceRoom. `comments` are lines without line feeds.
std::string AdviceText(const ArenaAdvice& advice, const std::vector<std::string>& comments = {});

// Errors name the file and the line.
Result<ArenaAdvice> ReadAdvice(const std::filesystem::path& path);

}  // namespace tmprof
