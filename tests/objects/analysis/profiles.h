// SPDX-License-Identifier: Apache-2.0
// Object profiles for tests, made by hand.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "objects/analysis/counted_objects.h"

namespace tmprof {

struct CountedStack {
  std::vector<SourceFrame> frames;    // innermost first
  std::uint64_t accesses = 0;         // to what was freed
  std::vector<LiveObject> live = {};  // its `site` is set by who adds it
};

inline void AddProfile(ObjectProfiles& profiles, std::string file,
                       const std::vector<CountedStack>& stacks) {
  constexpr std::uint64_t kMostCalls = 100;
  ObjectsPart all;
  for (const CountedStack& stack : stacks) {
    AllocationSite& site = all.sites.emplace_back();
    site.id = static_cast<std::uint32_t>(all.sites.size());
    site.freed_accesses = stack.accesses;
    for (std::uint64_t call = 0; call < stack.frames.size(); ++call) {
      site.return_addresses.push_back(site.id * kMostCalls + call);
    }
    for (LiveObject object : stack.live) {
      object.site = site.id;
      all.objects.push_back(object);
    }
  }
  profiles.Add(std::move(file), {.pid = Pid(42), .program = "/bin/counted"}, std::move(all),
               [&](std::uint64_t address) {
                 const CountedStack& stack = stacks.at(address / kMostCalls - 1);
                 return std::vector<SourceFrame>{stack.frames.at(address % kMostCalls)};
               });
}

inline ObjectProfiles ProfileOf(const std::vector<CountedStack>& stacks) {
  ObjectProfiles profiles;
  AddProfile(profiles, "run.objects", stacks);
  return profiles;
}

}  // namespace tmprof
