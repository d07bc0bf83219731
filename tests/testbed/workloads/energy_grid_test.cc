// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/energy_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "testbed/workloads/memory.h"

namespace tmprof::workload {
namespace energy_grid_test {

using testing::ElementsAre;

class EnergyGridOfTenPoints : public testing::TestWithParam<Reactor> {
 protected:
  static constexpr std::uint64_t kPoints = 10;

  Memory memory_ = *Memory::Map(EnergyGrid::Bytes(GetParam(), kPoints), false);
  Arena arena_{memory_.words()};
  EnergyGrid grid_{arena_, GetParam(), kPoints, 7};
};

// Without a unionised grid: each nuclide's own is searched from its start.
EnergyGrid::Xs NaiveLookup(const EnergyGrid& grid, double energy, std::size_t material) {
  EnergyGrid::Xs sum{};
  for (const auto& [nuclide, density] : grid.PartsOf(material)) {
    const auto points = grid.PointsOf(nuclide);
    std::size_t high = 1;
    while (high + 1 < points.size() && points[high].energy <= energy) ++high;
    const GridPoint& below = points[high - 1];
    const GridPoint& above = points[high];
    const double way = (energy - below.energy) / (above.energy - below.energy);
    for (std::size_t i = 0; i < kChannels; ++i) {
      sum[i] += density * (below.xs[i] * (1 - way) + above.xs[i] * way);
    }
  }
  return sum;
}

TEST_P(EnergyGridOfTenPoints, LooksUpWhatASearchOfEachNuclidesGridFinds) {
  for (std::size_t material = 0; material < kMaterials; ++material) {
    for (int i = 0; i < 1000; ++i) {
      const double energy = i / 1000.0;  // below and above every nuclide's grid, too
      const EnergyGrid::Xs found = grid_.Lookup(energy, material);
      const EnergyGrid::Xs expected = NaiveLookup(grid_, energy, material);
      for (std::size_t channel = 0; channel < kChannels; ++channel) {
        // Beyond the last points lines go on far where two points are close together.
        ASSERT_NEAR(found[channel], expected[channel], 1e-9 * (1 + std::abs(expected[channel])))
            << material << " " << energy;
      }
    }
  }
}

TEST_P(EnergyGridOfTenPoints, InterpolatesExactlyAtAGridPoint) {
  // Cladding is of five nuclides; the energy of one's point is between two of each other's.
  const auto [nuclide, density] = grid_.PartsOf(1)[2];
  const double energy = grid_.PointsOf(nuclide)[4].energy;
  EXPECT_NEAR(grid_.Lookup(energy, 1)[0], NaiveLookup(grid_, energy, 1)[0], 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Reactors, EnergyGridOfTenPoints,
                         testing::Values(Reactor::kSmall, Reactor::kLarge));

TEST(Materials, HaveAsManyNuclidesAsInTheHoogenboomMartinReactors) {
  std::vector<std::size_t> counts;
  for (std::size_t material = 0; material < kMaterials; ++material) {
    counts.push_back(NuclidesOf(Reactor::kSmall, material).size());
  }
  EXPECT_THAT(counts, ElementsAre(34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9));
  EXPECT_EQ(NuclidesOf(Reactor::kLarge, 0).size(), 321u);
}

TEST(Materials, UseEachNuclideAndNoOther) {
  for (const Reactor reactor : {Reactor::kSmall, Reactor::kLarge}) {
    std::set<std::uint32_t> used;
    for (std::size_t material = 0; material < kMaterials; ++material) {
      const auto nuclides = NuclidesOf(reactor, material);
      const std::set<std::uint32_t> own(nuclides.begin(), nuclides.end());
      EXPECT_EQ(own.size(), nuclides.size()) << "one twice in " << material;
      used.insert(own.begin(), own.end());
    }
    EXPECT_EQ(used.size(), NuclideCount(reactor));
    EXPECT_EQ(*used.rbegin(), NuclideCount(reactor) - 1);
  }
  EXPECT_EQ(NuclideCount(Reactor::kSmall), 68u);
  EXPECT_EQ(NuclideCount(Reactor::kLarge), 355u);
}

TEST(Materials, SharesSumToAsMuchAsInXsBench) {
  EXPECT_NEAR(std::accumulate(kMaterialShares.begin(), kMaterialShares.end(), 0.0), 1.001, 1e-9);
}

}  // namespace energy_grid_test
}  // namespace tmprof::workload
