// SPDX-License-Identifier: Apache-2.0
// Macroscopic cross sections from a unionised energy grid, as in XSBench (Tramm, Siegel, Islam and
// Schulz, "XSBench - The Development and Verification of a Performance Abstraction for Monte Carlo
// Reactor Analysis", PHYSOR 2014): each nuclide has a grid of energies of its own; the union of all
// of them holds, per energy, where it lies in each nuclide's grid.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "testbed/workloads/computation.h"

namespace tmprof::workload {

// The two Hoogenboom-Martin reactors. Nuclides are numbered by the materials that they are in.
enum class Reactor : std::uint8_t { kSmall, kLarge };
std::uint32_t NuclideCount(Reactor reactor);

inline constexpr std::size_t kMaterials = 12;  // the first is the fuel
inline constexpr std::size_t kChannels = 5;    // total, elastic, absorption, fission, nu-fission

// How often a lookup is of each material, as in XSBench; they sum to 1.001, as there.
extern const std::array<double, kMaterials> kMaterialShares;

// The nuclides of each material: how many, and which of them several materials share, is XSBench's.
std::vector<std::uint32_t> NuclidesOf(Reactor reactor, std::size_t material);

struct GridPoint {
  double energy;
  std::array<double, kChannels> xs;
};

class EnergyGrid {
 public:
  static std::uint64_t Bytes(Reactor reactor, std::uint64_t points_per_nuclide);

  // Precondition: at least 2 points per nuclide. Energies are uniform in [0, 1), as are cross
  // sections and densities.
  EnergyGrid(Arena& arena, Reactor reactor, std::uint64_t points_per_nuclide, std::uint64_t seed);

  using Xs = std::array<double, kChannels>;
  // Sum over the material's nuclides of density × cross section, interpolated between the two grid
  // points around the energy; beyond a nuclide's grid the line through its last two goes on.
  Xs Lookup(double energy, std::size_t material) const;

  // Elements that a lookup loads.
  std::uint64_t Accesses(std::size_t material) const;

  std::span<const GridPoint> PointsOf(std::uint32_t nuclide) const {
    return points_.subspan(nuclide * points_per_nuclide_, points_per_nuclide_);
  }
  struct Part {
    std::uint32_t nuclide;
    double density;
  };
  const std::vector<Part>& PartsOf(std::size_t material) const { return materials_[material]; }

 private:
  std::uint64_t nuclides_;
  std::uint64_t points_per_nuclide_;
  std::array<std::vector<Part>, kMaterials> materials_;
  std::span<double> energies_;          // of all nuclides, ascending
  std::span<std::uint32_t> positions_;  // per energy, then nuclide: the grid point at or below
  std::span<GridPoint> points_;         // per nuclide, ascending
};

}  // namespace tmprof::workload
