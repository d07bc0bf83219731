// SPDX-License-Identifier: Apache-2.0
// No address space, and no order of changes to it, may leave the regions with an overlap, a hole,
// too few or too many, or take them out of their memory.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "driver/core/regions.h"
#include "tests/driver/core/region_rules.h"

namespace tmprof {
namespace {

// The input, taken from its start; zeros past its end.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  template <typename T>
  T Take() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

__u64 NextOf(void* input) { return static_cast<Input*>(input)->Take<std::uint64_t>(); }

// Gaps and lengths from one page to the size of an address space of 57 bits.
std::uint64_t TakeLength(Input& input) {
  const auto shift = input.Take<std::uint8_t>();
  return (std::uint64_t{1} << shift % 42) + input.Take<std::uint8_t>();
}

std::vector<tmprof_area> TakeAreas(Input& input) {
  std::vector<tmprof_area> mappings;
  std::uint64_t at = input.Take<std::uint16_t>();
  for (std::size_t left = input.Take<std::uint8_t>() % 24; left > 0; --left) {
    if (input.Take<std::uint8_t>() % 2 == 0) at += TakeLength(input);
    const std::uint64_t end = at + (input.Take<std::uint8_t>() % 8 == 0 ? 0 : TakeLength(input));
    mappings.push_back({at, end});
    at = end;
  }
  std::vector<tmprof_area> areas(TMPROF_REGION_AREAS);
  areas.resize(tmprof_region_areas(mappings.data(), mappings.size(), areas.data()));
  const std::vector<tmprof_area> expected = NaiveAreas(mappings);
  TMPROF_CHECK(std::ranges::equal(areas, expected, [](const auto& a, const auto& b) {
    return a.start == b.start && a.end == b.end;
  }));
  return areas;
}

void Run(Input input) {
  tmprof_region_params params = tmprof_region_params_default();
  params.min_regions = 3 + input.Take<std::uint8_t>() % 32;
  params.max_regions = params.min_regions + input.Take<std::uint8_t>();
  TMPROF_CHECK(tmprof_region_params_check(&params, 0).error == 0);
  // Exactly as much as is asked for, so that the sanitizer sees what lies beyond.
  const auto memory =
      std::make_unique<tmprof_region[]>(tmprof_regions_capacity(params.max_regions));
  const tmprof_random random{NextOf, &input};
  tmprof_region_set set{};
  std::vector<tmprof_area> areas = TakeAreas(input);
  tmprof_regions_start(&set, memory.get(), &params, areas.data(),
                       static_cast<std::uint32_t>(areas.size()));
  while (true) {
    TMPROF_CHECK(BrokenRule(set, areas).empty());
    if (input.empty()) return;
    tmprof_regions_reset(&set);
    switch (input.Take<std::uint8_t>() % 5) {
      case 0:
      case 1:
        areas = TakeAreas(input);
        tmprof_regions_update(&set, areas.data(), static_cast<std::uint32_t>(areas.size()));
        break;
      case 2:
        for (tmprof_region& region : std::span(set.regions, set.count))
          region.count = input.Take<std::uint8_t>();
        tmprof_regions_merge(&set);
        break;
      case 3:
        tmprof_regions_split(&set, &random);
        break;
      default:
        tmprof_regions_split_at(&set, input.Take<std::uint32_t>());
        break;
    }
  }
}

}  // namespace
}  // namespace tmprof

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tmprof::Run(tmprof::Input({data, size}));
  return 0;
}
