// SPDX-License-Identifier: Apache-2.0
// Processes that map files, made by hand.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"

namespace tmprof {

// Pages [start, start + pages) of a process show those of the file from `offset` on.
inline Mapping Shared(std::uint64_t start, std::uint64_t pages, std::uint64_t inode = 7,
                      std::uint64_t offset = 0) {
  return {.range = {Vpn(start), Vpn(start + pages)},
          .kind = MappingKind::kShared,
          .path = "/dev/shm/file",
          .file = FilePlace{.device = 1, .inode = inode, .offset = PageCount(offset)}};
}

inline Target Maps(std::uint32_t id, std::vector<Mapping> mappings) {
  return {.id = TargetId(id), .mappings = std::move(mappings)};
}

}  // namespace tmprof
