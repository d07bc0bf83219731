// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/energy_grid.h"

#include <algorithm>
#include <bit>

#include "testbed/workloads/pattern.h"

namespace tmprof::workload {
namespace {

double Uniform(Random& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-53; }

// Runs of nuclides, [start, end). In XSBench's Materials.c (version 20) fuel and water have one
// nuclide in common, as have fuel and the vessel's steel; there they are numbered otherwise.
struct NuclideRun {
  std::uint32_t start;
  std::uint32_t end;
};
constexpr NuclideRun kFuel = {0, 34};
constexpr NuclideRun kVessel = {32, 33};  // and the next
constexpr NuclideRun kVesselOnly = {59, 68};
constexpr NuclideRun kWater = {33, 37};
constexpr NuclideRun kCladding = {37, 42};
constexpr NuclideRun kSteel = {42, 59};
constexpr NuclideRun kFuelOfLarge = {68, 355};

}  // namespace

// XSBench, pick_mat: fuel, cladding, cold and hot borated water, pressure vessel, lower radial
// reflector, upper reflector, bottom plate, bottom and top nozzle, top and bottom of the
// assemblies.
const std::array<double, kMaterials> kMaterialShares = {0.140, 0.052, 0.275, 0.134, 0.154, 0.064,
                                                        0.066, 0.055, 0.008, 0.015, 0.025, 0.013};

std::uint32_t NuclideCount(Reactor reactor) {
  return reactor == Reactor::kSmall ? kVesselOnly.end : kFuelOfLarge.end;
}

std::vector<std::uint32_t> NuclidesOf(Reactor reactor, std::size_t material) {
  std::vector<NuclideRun> runs;
  switch (material) {
    case 0:
      runs = {kFuel};
      if (reactor == Reactor::kLarge) runs.push_back(kFuelOfLarge);
      break;
    case 1:
      runs = {kCladding};
      break;
    case 2:
    case 3:
      runs = {kWater};
      break;
    case 4:
      runs = {kSteel, kVessel, kVesselOnly};
      break;
    case 10:
    case 11:
      runs = {kWater, kCladding};
      break;
    default:
      runs = {kWater, kSteel};
  }
  std::vector<std::uint32_t> nuclides;
  for (const NuclideRun& run : runs) {
    for (std::uint32_t nuclide = run.start; nuclide < run.end; ++nuclide) {
      nuclides.push_back(nuclide);
    }
  }
  return nuclides;
}

std::uint64_t EnergyGrid::Bytes(Reactor reactor, std::uint64_t points_per_nuclide) {
  const std::uint64_t nuclides = NuclideCount(reactor);
  const std::uint64_t points = nuclides * points_per_nuclide;
  return ArrayBytes<double>(points) + ArrayBytes<std::uint32_t>(points * nuclides) +
         ArrayBytes<GridPoint>(points);
}

EnergyGrid::EnergyGrid(Arena& arena, Reactor reactor, std::uint64_t points_per_nuclide,
                       std::uint64_t seed)
    : nuclides_(NuclideCount(reactor)),
      points_per_nuclide_(points_per_nuclide),
      energies_(arena.Take<double>(nuclides_ * points_per_nuclide)),
      positions_(arena.Take<std::uint32_t>(energies_.size() * nuclides_)),
      points_(arena.Take<GridPoint>(energies_.size())) {
  Random random(Random::Mix(seed));
  for (std::size_t material = 0; material < kMaterials; ++material) {
    for (const std::uint32_t nuclide : NuclidesOf(reactor, material)) {
      materials_[material].push_back({nuclide, Uniform(random)});
    }
  }
  for (std::uint64_t nuclide = 0; nuclide < nuclides_; ++nuclide) {
    const auto own = energies_.subspan(nuclide * points_per_nuclide_, points_per_nuclide_);
    for (double& energy : own) energy = Uniform(random);
    std::ranges::sort(own);
    for (std::uint64_t i = 0; i < own.size(); ++i) {
      GridPoint& point = points_[nuclide * points_per_nuclide_ + i];
      point.energy = own[i];
      for (double& xs : point.xs) xs = Uniform(random);
    }
  }
  std::ranges::sort(energies_);
  // The last point of a grid has none above it: the two before serve from there on.
  const auto last = static_cast<std::uint32_t>(points_per_nuclide_ - 2);
  std::vector<std::uint32_t> position(nuclides_);
  for (std::uint64_t row = 0; row < energies_.size(); ++row) {
    for (std::uint32_t nuclide = 0; nuclide < nuclides_; ++nuclide) {
      const auto grid = PointsOf(nuclide);
      while (position[nuclide] < last && grid[position[nuclide] + 1].energy <= energies_[row]) {
        ++position[nuclide];
      }
      positions_[row * nuclides_ + nuclide] = position[nuclide];
    }
  }
}

EnergyGrid::Xs EnergyGrid::Lookup(double energy, std::size_t material) const {
  // The last energy at or below, or the first: halves without a branch to miss.
  const double* row = energies_.data();
  for (std::uint64_t left = energies_.size(); left > 1;) {
    const std::uint64_t half = left / 2;
    row += row[half] <= energy ? half : 0;
    left -= half;
  }
  const std::uint32_t* positions =
      &positions_[static_cast<std::uint64_t>(row - energies_.data()) * nuclides_];
  Xs sum{};
  for (const Part& part : materials_[material]) {
    const GridPoint* low = &points_[part.nuclide * points_per_nuclide_ + positions[part.nuclide]];
    const GridPoint& high = low[1];
    const double share_of_low = (high.energy - energy) / (high.energy - low->energy);
    for (std::size_t channel = 0; channel < kChannels; ++channel) {
      const double xs = high.xs[channel] - share_of_low * (high.xs[channel] - low->xs[channel]);
      sum[channel] += part.density * xs;
    }
  }
  return sum;
}

std::uint64_t EnergyGrid::Accesses(std::size_t material) const {
  const auto halvings = static_cast<std::uint64_t>(std::bit_width(energies_.size() - 1));
  constexpr std::uint64_t kPerNuclide = 1 + 2 * (1 + kChannels);
  return halvings + materials_[material].size() * kPerNuclide;
}

}  // namespace tmprof::workload
