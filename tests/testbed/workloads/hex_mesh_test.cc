// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/hex_mesh.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "testbed/workloads/memory.h"

namespace tmprof::workload {
namespace hex_mesh_test {

constexpr int kSide = 3;
constexpr int kNodes = (kSide + 1) * (kSide + 1) * (kSide + 1);
constexpr int kElements = kSide * kSide * kSide;

void Sweep(HexMesh& mesh) {
  for (std::uint64_t accesses = 0; !mesh.Step(accesses);) {
  }
}

class CubeOfThree : public testing::Test {
 protected:
  Memory memory_ = *Memory::Map(HexMesh::Bytes(kSide), false);
  Arena arena_{memory_.words()};
  HexMesh mesh_{arena_, kSide, 1};
};

using Vector = std::array<double, 3>;

int Node(int x, int y, int z) { return (z * (kSide + 1) + y) * (kSide + 1) + x; }
int Element(int x, int y, int z) { return (z * kSide + y) * kSide + x; }

double Determinant(const Vector& a, const Vector& b, const Vector& c) {
  return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) +
         a[2] * (b[0] * c[1] - b[1] * c[0]);
}

// Integrates by Gauss's rule with two points per axis. It is exact for the determinant of the map
// from the unit cube: a polynomial of degree 2 per axis.
double NaiveVolume(const std::vector<Vector>& at, int x, int y, int z) {
  double volume = 0;
  for (int point = 0; point < 8; ++point) {
    Vector u{};
    for (int axis = 0; axis < 3; ++axis) {
      u[axis] = 0.5 + ((point >> axis & 1) != 0 ? 0.5 : -0.5) / std::sqrt(3.0);
    }
    Vector derivative[3] = {};
    for (int corner = 0; corner < 8; ++corner) {
      const int bit[3] = {corner & 1, corner >> 1 & 1, corner >> 2 & 1};
      const Vector& position = at[Node(x + bit[0], y + bit[1], z + bit[2])];
      for (int by = 0; by < 3; ++by) {
        double weight = bit[by] != 0 ? 1 : -1;
        for (int axis = 0; axis < 3; ++axis) {
          if (axis != by) weight *= bit[axis] != 0 ? u[axis] : 1 - u[axis];
        }
        for (int axis = 0; axis < 3; ++axis) derivative[by][axis] += weight * position[axis];
      }
    }
    volume += Determinant(derivative[0], derivative[1], derivative[2]) / 8;
  }
  return volume;
}

// The sweep written out by node: each sums up the quarters of the faces around it.
struct NaiveMesh {
  std::vector<Vector> position{kNodes};
  std::vector<Vector> velocity{kNodes};
  std::vector<double> energy{kElements};
  std::vector<double> pressure = std::vector<double>(kElements);
  std::vector<double> volume = std::vector<double>(kElements, 1);

  // Returns the area vector of an element's face across `axis`, on its low or high side: half the
  // cross product of the diagonals, pointing up the axis.
  Vector Area(int x, int y, int z, int axis, int side) const {
    const int b = (axis + 1) % 3;
    const int c = (axis + 2) % 3;
    const auto corner = [&](int at_b, int at_c) {
      int at[3] = {x, y, z};
      at[axis] += side;
      at[b] += at_b;
      at[c] += at_c;
      return position[Node(at[0], at[1], at[2])];
    };
    Vector first;
    Vector second;
    for (int i = 0; i < 3; ++i) {
      first[i] = corner(1, 1)[i] - corner(0, 0)[i];
      second[i] = corner(0, 1)[i] - corner(1, 0)[i];
    }
    return {(first[1] * second[2] - first[2] * second[1]) / 2,
            (first[2] * second[0] - first[0] * second[2]) / 2,
            (first[0] * second[1] - first[1] * second[0]) / 2};
  }

  Vector ForceOn(int i, int j, int k, double& mass) const {
    Vector force{};
    mass = 0;
    for (int neighbour = 0; neighbour < 8; ++neighbour) {
      const int side[3] = {neighbour & 1, neighbour >> 1 & 1, neighbour >> 2 & 1};
      const int x = i - side[0];
      const int y = j - side[1];
      const int z = k - side[2];
      if (x < 0 || y < 0 || z < 0 || x >= kSide || y >= kSide || z >= kSide) continue;
      mass += 1.0 / 8;
      for (int axis = 0; axis < 3; ++axis) {
        const Vector area = Area(x, y, z, axis, side[axis]);
        const double outwards = side[axis] != 0 ? 1 : -1;
        for (int at = 0; at < 3; ++at) {
          force[at] += outwards * pressure[Element(x, y, z)] * area[at] / 4;
        }
      }
    }
    return force;
  }

  void Sweep() {
    std::vector<Vector> acceleration(kNodes);
    for (int node = 0; node < kNodes; ++node) {
      const int at[3] = {node % 4, node / 4 % 4, node / 16};
      double mass = 0;
      const Vector force = ForceOn(at[0], at[1], at[2], mass);
      for (int axis = 0; axis < 3; ++axis) {
        const bool wall = at[axis] == 0 || at[axis] == kSide;
        acceleration[node][axis] = wall ? 0 : force[axis] / mass;
      }
    }
    for (int node = 0; node < kNodes; ++node) {
      for (int axis = 0; axis < 3; ++axis) {
        velocity[node][axis] += acceleration[node][axis] * kTimeStep;
        position[node][axis] += velocity[node][axis] * kTimeStep;
      }
    }
    for (int element = 0; element < kElements; ++element) {
      const double now = NaiveVolume(position, element % 3, element / 3 % 3, element / 9);
      energy[element] -= pressure[element] * (now - volume[element]);
      pressure[element] = (kGamma - 1) * energy[element] / now;
      volume[element] = now;
    }
  }
};

TEST_F(CubeOfThree, SweepsAccessEachPageAsOftenAsTheySayInAll) {
  std::uint64_t accesses = 0;
  while (!mesh_.Step(accesses)) {
  }
  PageCounts counts(memory_.start_address(), memory_.footprint_bytes());
  mesh_.Count(counts);
  EXPECT_EQ(counts.total(), accesses);
  // Its arrays have a page each; the last three are those of elements.
  const std::vector<SpanRange> ranges = counts.Ranges();
  ASSERT_GE(ranges.size(), 2u);
  EXPECT_EQ(ranges.back().end, HexMesh::Bytes(kSide) / kBasePageBytes);
  EXPECT_NEAR(ranges.back().weight * static_cast<double>(accesses), 2 * kElements, 1e-6);
}

TEST_F(CubeOfThree, SweepsAsAComputationByNodesDoes) {
  NaiveMesh naive;
  for (int node = 0; node < kNodes; ++node) {
    naive.position[node] = {node % 4 * 1.0, node / 4 % 4 * 1.0, node / 16 * 1.0};
  }
  naive.energy.assign(mesh_.energies().begin(), mesh_.energies().end());
  for (int element = 0; element < kElements; ++element) {
    naive.pressure[element] = (kGamma - 1) * naive.energy[element];
  }
  for (int sweep = 0; sweep < 20; ++sweep) {
    Sweep(mesh_);
    naive.Sweep();
    for (int node = 0; node < kNodes; ++node) {
      for (int axis = 0; axis < 3; ++axis) {
        ASSERT_NEAR(mesh_.velocities()[axis][node], naive.velocity[node][axis], 1e-12) << sweep;
        ASSERT_NEAR(mesh_.positions()[axis][node], naive.position[node][axis], 1e-12) << sweep;
      }
    }
    for (int element = 0; element < kElements; ++element) {
      ASSERT_NEAR(mesh_.volumes()[element], naive.volume[element], 1e-12) << sweep;
      ASSERT_NEAR(mesh_.energies()[element], naive.energy[element], 1e-12) << sweep;
    }
  }
  double fastest = 0;
  for (const double velocity : mesh_.velocities()[0]) fastest = std::max(fastest, velocity);
  EXPECT_GT(fastest, 1e-5) << "nothing moves";
}

TEST_F(CubeOfThree, FillsTheSpaceBetweenItsWallsForALongTime) {
  for (int sweep = 0; sweep < 5000; ++sweep) Sweep(mesh_);
  double volume = 0;
  for (const double of_element : mesh_.volumes()) {
    EXPECT_NEAR(of_element, 1, 0.1);
    volume += of_element;
  }
  EXPECT_NEAR(volume, kElements, 1e-9);
}

TEST_F(CubeOfThree, StartsFromTheSeed) {
  const Memory other = *Memory::Map(HexMesh::Bytes(kSide), false);
  Arena arena(other.words());
  const HexMesh mesh(arena, kSide, 2);
  EXPECT_NE(mesh.energies()[0], mesh_.energies()[0]);
  for (const double energy : mesh.energies()) {
    EXPECT_NEAR(energy, kMeanEnergy, kMeanEnergy * kEnergyNoise);
  }
}

}  // namespace hex_mesh_test
}  // namespace tmprof::workload
