// SPDX-License-Identifier: Apache-2.0
// Constants of advice files, which name the arenas for the objects of allocation sites
// (objects/format/arena_advice.h writes them, objects/tracker/advice.h is their manual).

#pragma once

#include <cstdint>

namespace tmprof {

inline constexpr char kAdviceFirstLine[] = "tmprof-advice 1";

inline constexpr std::uint32_t kArenas = 64;
inline constexpr std::uint32_t kHotArena = 0;
inline constexpr std::uint32_t kColdArena = 1;
inline constexpr std::uint32_t kFirstApartArena = 2;  // for sites that have to be told apart first

inline constexpr std::uint32_t kMaxAdvisedModules = 64;     // numbers; 0 is none
inline constexpr std::uint32_t kMaxAdvisedCalls = 1 << 14;  // numbers; 0 is none
inline constexpr std::uint32_t kMaxAdvisedNode = 63;
inline constexpr std::uint32_t kMaxBuildIdBytes = 64;  // linkers write 16 or 20

}  // namespace tmprof
