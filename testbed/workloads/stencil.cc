// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <optional>

#include "testbed/workloads/computation.h"
#include "testbed/workloads/hex_mesh.h"

namespace {

using tmprof::workload::Arena;
using tmprof::workload::HexMesh;
using tmprof::workload::PageCounts;
using tmprof::workload::Progress;

class Stencil final : public tmprof::workload::Computation {
 public:
  std::string name() const override { return "stencil"; }
  std::string description() const override {
    return "Sweeps over a mesh of hexahedra, gathers from and scatters to their nodes, as LULESH "
           "does.";
  }
  std::string unit() const override { return "sweeps"; }
  void AddOptions(CLI::App&) override {}
  std::expected<std::uint64_t, std::string> Fit(std::uint64_t footprint_bytes) override {
    constexpr std::uint64_t kMostSide = 1500;  // node numbers have 32 bits
    while (side_ < kMostSide && HexMesh::Bytes(side_ + 1) <= footprint_bytes) ++side_;
    if (side_ == 0) {
      return std::unexpected(
          fmt::format("--footprint must hold {} bytes for one element", HexMesh::Bytes(1)));
    }
    return HexMesh::Bytes(side_);
  }
  void Build(Arena arena, std::uint64_t seed) override { mesh_.emplace(arena, side_, seed); }
  Progress Step(std::uint64_t) override {
    Progress progress;
    if (!mesh_->Step(progress.accesses)) return progress;
    // One element's: the disturbance of each reaches it in time.
    checksum_ += std::bit_cast<std::uint64_t>(mesh_->energies()[mesh_->energies().size() / 2]);
    progress.units = 1;
    return progress;
  }
  bool Counts() const override { return true; }
  void CountUnit(PageCounts& counts) override {
    std::uint64_t accesses = 0;
    while (!mesh_->Step(accesses)) {
    }
    mesh_->Count(counts);
  }
  std::uint64_t checksum() const override { return checksum_; }
  std::string Figures() const override { return fmt::format("\"side_elements\":{}", side_); }

 private:
  std::uint64_t side_ = 0;
  std::optional<HexMesh> mesh_;
  std::uint64_t checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Stencil stencil;
  return tmprof::workload::RunComputation(stencil, argc, argv);
}
