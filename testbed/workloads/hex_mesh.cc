// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/hex_mesh.h"

#include <algorithm>

#include "testbed/workloads/pattern.h"

namespace tmprof::workload {
namespace {

// The loops over corners, faces and axes are unrolled on request, as -O2 leaves them alone: twice
// as fast (`stencil --footprint 2MiB`), so that the mesh and not the loop is what takes time.

using Vector = std::array<double, 3>;

// Corners 0 to 3 go round the bottom, counter-clockwise seen from above, 4 to 7 round the top; the
// corners of a face go round it counter-clockwise seen from outside.
constexpr std::array<std::array<int, 4>, 6> kFaces = {
    {{0, 3, 2, 1}, {4, 5, 6, 7}, {0, 1, 5, 4}, {1, 2, 6, 5}, {2, 3, 7, 6}, {3, 0, 4, 7}}};

Vector Cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// The face's area as a vector outwards: that of the bilinear patch between its corners, the cross
// product of the lines that join the middles of opposite sides.
Vector FaceArea(const std::array<Vector, 8>& corners, const std::array<int, 4>& face) {
  Vector along{};
  Vector across{};
#pragma GCC unroll 8
  for (int axis = 0; axis < 3; ++axis) {
    const double a = corners[face[0]][axis];
    const double b = corners[face[1]][axis];
    const double c = corners[face[2]][axis];
    const double d = corners[face[3]][axis];
    along[axis] = 0.5 * (b + c - a - d);
    across[axis] = 0.5 * (c + d - a - b);
  }
  return Cross(along, across);
}

// The divergence theorem gives the volume, exact for bilinear faces: a third of the sum of each
// face's middle times its area.
double Volume(const std::array<Vector, 8>& corners) {
  double volume = 0;
#pragma GCC unroll 8
  for (const auto& face : kFaces) {
    const Vector area = FaceArea(corners, face);
#pragma GCC unroll 8
    for (int axis = 0; axis < 3; ++axis) {
      const double middle = 0.25 * (corners[face[0]][axis] + corners[face[1]][axis] +
                                    corners[face[2]][axis] + corners[face[3]][axis]);
      volume += middle * area[axis] / 3;
    }
  }
  return volume;
}

}  // namespace

std::uint64_t HexMesh::Bytes(std::uint64_t side_elements) {
  const std::uint64_t elements = side_elements * side_elements * side_elements;
  const std::uint64_t nodes = (side_elements + 1) * (side_elements + 1) * (side_elements + 1);
  return 10 * ArrayBytes<double>(nodes) + ArrayBytes<std::array<std::uint32_t, 8>>(elements) +
         3 * ArrayBytes<double>(elements);
}

HexMesh::HexMesh(Arena& arena, std::uint64_t side_elements, std::uint64_t seed)
    : side_elements_(side_elements), side_nodes_(side_elements + 1) {
  const std::uint64_t elements = side_elements * side_elements * side_elements;
  const std::uint64_t nodes = side_nodes_ * side_nodes_ * side_nodes_;
  for (Vectors* vectors : {&positions_, &velocities_, &forces_}) {
    for (std::span<double>& axis : *vectors) axis = arena.Take<double>(nodes);
  }
  masses_ = arena.Take<double>(nodes);
  nodes_ = arena.Take<std::array<std::uint32_t, 8>>(elements);
  energies_ = arena.Take<double>(elements);
  pressures_ = arena.Take<double>(elements);
  volumes_ = arena.Take<double>(elements);

  std::ranges::fill(masses_, 0);
  for (std::uint64_t node = 0; node < nodes; ++node) {
    const std::uint64_t at[3] = {node % side_nodes_, node / side_nodes_ % side_nodes_,
                                 node / side_nodes_ / side_nodes_};
    for (int axis = 0; axis < 3; ++axis) {
      positions_[axis][node] = static_cast<double>(at[axis]);
      velocities_[axis][node] = 0;
    }
  }
  Random random(Random::Mix(seed));
  const auto row = static_cast<std::uint32_t>(side_nodes_);
  const std::uint32_t layer = row * row;
  for (std::uint64_t element = 0; element < elements; ++element) {
    const std::uint64_t x = element % side_elements;
    const std::uint64_t y = element / side_elements % side_elements;
    const std::uint64_t z = element / side_elements / side_elements;
    const auto first = static_cast<std::uint32_t>((z * row + y) * row + x);
    nodes_[element] = {
        first,         first + 1,         first + 1 + row,         first + row,
        first + layer, first + layer + 1, first + layer + 1 + row, first + layer + row};
    for (const std::uint32_t node : nodes_[element]) masses_[node] += 1.0 / 8;
    const double noise = static_cast<double>(random.Next()) * 0x1p-63 - 1;
    energies_[element] = kMeanEnergy * (1 + kEnergyNoise * noise);
    volumes_[element] = 1;
    pressures_[element] = (kGamma - 1) * energies_[element];
  }
}

bool HexMesh::Step(std::uint64_t& accesses) {
  const bool by_node = stage_ == Stage::kClear || stage_ == Stage::kMotion;
  const std::uint64_t side = by_node ? side_nodes_ : side_elements_;
  switch (stage_) {
    case Stage::kClear:
      Clear(row_);
      accesses += side * 3;
      break;
    case Stage::kForces:
      Forces(row_);
      accesses +=
          side * (8 + 8 * 3 + 1 + 2 * 8 * 3);  // nodes, positions, pressure, forces added to
      break;
    case Stage::kMotion:
      Motion(row_);
      accesses += side * (1 + 3 + 2 * 3 + 2 * 3);  // mass, force, velocity, position
      break;
    case Stage::kEnergies:
      Energies(row_);
      accesses += side * (8 + 8 * 3 + 2 + 2 + 2);  // nodes, positions, energy, pressure, volume
      break;
  }
  if (++row_ < side * side) return false;
  row_ = 0;
  const bool swept = stage_ == Stage::kEnergies;
  stage_ = swept ? Stage::kClear : static_cast<Stage>(static_cast<int>(stage_) + 1);
  return swept;
}

HexMesh::Corners HexMesh::Gather(std::uint64_t element) const {
  Corners corners;
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t node = nodes_[element][i];
#pragma GCC unroll 8
    for (int axis = 0; axis < 3; ++axis) corners[i][axis] = positions_[axis][node];
  }
  return corners;
}

void HexMesh::Clear(std::uint64_t row) {
  for (std::span<double>& axis : forces_) {
    std::ranges::fill(axis.subspan(row * side_nodes_, side_nodes_), 0);
  }
}

// Each face's pressure is shared by its four corners.
void HexMesh::Forces(std::uint64_t row) {
  const std::uint64_t start = row * side_elements_;
  for (std::uint64_t element = start; element < start + side_elements_; ++element) {
    const Corners corners = Gather(element);
    const double pressure = pressures_[element];
    Corners force{};
#pragma GCC unroll 8
    for (const auto& face : kFaces) {
      const Vector area = FaceArea(corners, face);
#pragma GCC unroll 8
      for (const int corner : face) {
#pragma GCC unroll 8
        for (int axis = 0; axis < 3; ++axis) force[corner][axis] += 0.25 * pressure * area[axis];
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t node = nodes_[element][i];
#pragma GCC unroll 8
      for (int axis = 0; axis < 3; ++axis) forces_[axis][node] += force[i][axis];
    }
  }
}

void HexMesh::Motion(std::uint64_t row) {
  const std::uint64_t last = side_elements_;
  const std::uint64_t y = row % side_nodes_;
  const std::uint64_t z = row / side_nodes_;
  for (std::uint64_t x = 0; x < side_nodes_; ++x) {
    const std::uint64_t node = row * side_nodes_ + x;
    const bool at_wall[3] = {x == 0 || x == last, y == 0 || y == last, z == 0 || z == last};
#pragma GCC unroll 8
    for (int axis = 0; axis < 3; ++axis) {
      const double acceleration = at_wall[axis] ? 0 : forces_[axis][node] / masses_[node];
      velocities_[axis][node] += acceleration * kTimeStep;
      positions_[axis][node] += velocities_[axis][node] * kTimeStep;
    }
  }
}

// The gas loses its pressure times its gain in volume as energy.
void HexMesh::Energies(std::uint64_t row) {
  const std::uint64_t start = row * side_elements_;
  for (std::uint64_t element = start; element < start + side_elements_; ++element) {
    const double volume = Volume(Gather(element));
    energies_[element] -= pressures_[element] * (volume - volumes_[element]);
    pressures_[element] = (kGamma - 1) * energies_[element] / volume;
    volumes_[element] = volume;
  }
}

void HexMesh::Count(PageCounts& counts) const {
  for (int axis = 0; axis < 3; ++axis) {
    counts.AddEach(forces_[axis], 1 + 1);  // cleared, and used by the motion
    counts.AddEach(velocities_[axis], 2);
    counts.AddEach(positions_[axis], 2);
  }
  counts.AddEach(masses_, 1);
  for (const auto& corners : nodes_) {
    counts.Add(corners, 2 * 8);  // by forces and by energies
    for (const std::uint32_t node : corners) {
      for (int axis = 0; axis < 3; ++axis) {
        counts.Add(positions_[axis][node], 2);
        counts.Add(forces_[axis][node], 2);
      }
    }
  }
  counts.AddEach(pressures_, 1 + 2);
  counts.AddEach(energies_, 2);
  counts.AddEach(volumes_, 2);
}

}  // namespace tmprof::workload
