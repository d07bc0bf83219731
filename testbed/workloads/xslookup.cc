// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "testbed/workloads/computation.h"
#include "testbed/workloads/energy_grid.h"
#include "testbed/workloads/pattern.h"

namespace {

using tmprof::workload::Arena;
using tmprof::workload::EnergyGrid;
using tmprof::workload::Fraction;
using tmprof::workload::Progress;
using tmprof::workload::Random;
using tmprof::workload::Reactor;

tmprof::workload::Parsed<Reactor> ParseReactor(std::string_view text) {
  if (text == "small") return Reactor::kSmall;
  if (text == "large") return Reactor::kLarge;
  return std::unexpected(fmt::format("'{}' is not a reactor: write small or large", text));
}

class XsLookup final : public tmprof::workload::Computation {
 public:
  std::string name() const override { return "xslookup"; }
  std::string description() const override {
    return "Looks up macroscopic cross sections of random materials at random energies in a "
           "unionised energy grid, as XSBench does.";
  }
  std::string unit() const override { return "lookups"; }
  void AddOptions(CLI::App& app) override {
    tmprof::workload::AddOption(app, "--reactor", reactor_, ParseReactor, "small",
                                "Hoogenboom-Martin: small, with 68 nuclides, or large, with 355");
  }
  std::expected<std::uint64_t, std::string> Fit(std::uint64_t footprint_bytes) override {
    constexpr std::uint64_t kFewestPoints = 2;
    // Each array may take a page more than its elements.
    const std::uint64_t per_point_bytes = EnergyGrid::Bytes(reactor_, kSample) / kSample;
    points_ = footprint_bytes / per_point_bytes + 1;
    while (points_ >= kFewestPoints && EnergyGrid::Bytes(reactor_, points_) > footprint_bytes) {
      --points_;
    }
    if (points_ < kFewestPoints) {
      return std::unexpected(fmt::format("--footprint must hold {} bytes for this reactor",
                                         EnergyGrid::Bytes(reactor_, kFewestPoints)));
    }
    return EnergyGrid::Bytes(reactor_, points_);
  }
  void Build(Arena arena, std::uint64_t seed) override {
    grid_.emplace(arena, reactor_, points_, seed);
    random_ = Random(Random::Mix(seed + 1));
  }
  Progress Step(std::uint64_t most_units) override {
    Progress progress;
    for (; progress.units < std::min<std::uint64_t>(most_units, 16); ++progress.units) {
      const std::size_t material = materials_.Draw(Fraction(random_.Next()));
      const double energy = static_cast<double>(random_.Next() >> 11) * 0x1p-53;
      for (const double xs : grid_->Lookup(energy, material)) {
        checksum_ += std::bit_cast<std::uint64_t>(xs);
      }
      progress.accesses += grid_->Accesses(material);
    }
    return progress;
  }
  std::uint64_t checksum() const override { return checksum_; }
  std::string Figures() const override {
    return fmt::format("\"nuclides\":{},\"points_per_nuclide\":{}",
                       tmprof::workload::NuclideCount(reactor_), points_);
  }

 private:
  static constexpr std::uint64_t kSample = 1 << 20;

  Reactor reactor_ = Reactor::kSmall;
  std::uint64_t points_ = 0;
  std::optional<EnergyGrid> grid_;
  tmprof::workload::AliasTable materials_{
      {tmprof::workload::kMaterialShares.begin(), tmprof::workload::kMaterialShares.end()}};
  Random random_{0};
  std::uint64_t checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  XsLookup lookup;
  return tmprof::workload::RunComputation(lookup, argc, argv);
}
