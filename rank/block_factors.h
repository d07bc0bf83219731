// SPDX-License-Identifier: Apache-2.0
// Learns how much more accesses to memory the pages of a 2 MiB block make than other pages of their
// rates. Only rank/ uses it. docs/design/memory-model.md describes it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/page_key.h"
#include "rank/memory_weights.h"

namespace tmprof {

// Returns the 2 MiB block of a span. nullopt: it lies in several.
std::optional<std::uint64_t> BlockOf(PageKey key, std::uint32_t span_pages);

// Sets the factors of rows that belong to a block (MemoryRow::block), for targets with enough
// samples. Blocks of pages whose samples follow their rates alone get a factor of 1.
void LearnBlockFactors(std::vector<MemoryRow>& rows);

}  // namespace tmprof
