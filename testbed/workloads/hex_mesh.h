// SPDX-License-Identifier: Apache-2.0
// Lagrangian hydrodynamics on a mesh of hexahedra, with the access pattern of LULESH (Karlin,
// Keasler and Neely, "LULESH 2.0 Updates and Changes", LLNL-TR-641973, 2013): node-centred and
// element-centred arrays, and an array that names each element's eight nodes, through which node
// data are gathered and forces scattered.
//
// Simplified: one ideal gas, without artificial viscosity, hourglass control or regions; the time
// step is fixed; all six faces of the cube are walls; and the gas starts everywhere with nearly the
// same energy, disturbed at random by 1 %, so that it may go on for ever. LULESH explodes a Sedov
// blast, and its 2.0 keeps some 40 arrays, of which these are 12 and the element's nodes.

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "testbed/workloads/computation.h"
#include "testbed/workloads/truth.h"

namespace tmprof::workload {

inline constexpr double kGamma = 5.0 / 3;     // of a monatomic gas
inline constexpr double kTimeStep = 0.1;      // sound crosses an element in 0.77
inline constexpr double kMeanEnergy = 1.5;    // of an element of volume 1: pressure 1
inline constexpr double kEnergyNoise = 0.01;  // largest disturbance, as a share

class HexMesh {
 public:
  static std::uint64_t Bytes(std::uint64_t side_elements);

  // A cube of side_elements³ unit cubes of mass 1, at rest.
  HexMesh(Arena& arena, std::uint64_t side_elements, std::uint64_t seed);

  // Goes on by one row of nodes or elements. Adds the array elements it accessed to `accesses`;
  // true when that completes a sweep: forces, motion and new energies of all the mesh.
  bool Step(std::uint64_t& accesses);

  // The accesses of a sweep, by page.
  void Count(PageCounts& counts) const;

  // Vectors by node, x fastest. Valid between sweeps.
  using Vectors = std::array<std::span<double>, 3>;  // x, y, z
  const Vectors& positions() const { return positions_; }
  const Vectors& velocities() const { return velocities_; }
  // Values by element, x fastest.
  std::span<const double> energies() const { return energies_; }
  std::span<const double> volumes() const { return volumes_; }

 private:
  enum class Stage : std::uint8_t { kClear, kForces, kMotion, kEnergies };
  using Corners = std::array<std::array<double, 3>, 8>;

  Corners Gather(std::uint64_t element) const;
  void Clear(std::uint64_t row);
  void Forces(std::uint64_t row);
  void Motion(std::uint64_t row);
  void Energies(std::uint64_t row);

  std::uint64_t side_elements_;
  std::uint64_t side_nodes_;
  Vectors positions_;
  Vectors velocities_;
  Vectors forces_;
  std::span<double> masses_;
  std::span<std::array<std::uint32_t, 8>> nodes_;  // of each element
  std::span<double> energies_;
  std::span<double> pressures_;
  std::span<double> volumes_;
  Stage stage_ = Stage::kClear;
  std::uint64_t row_ = 0;
};

}  // namespace tmprof::workload
