// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "testbed/workloads/computation.h"
#include "testbed/workloads/kronecker.h"

namespace {

using tmprof::workload::AddOption;
using tmprof::workload::AddOptional;
using tmprof::workload::Arena;
using tmprof::workload::Bound;
using tmprof::workload::BreadthFirstSearch;
using tmprof::workload::CsrGraph;
using tmprof::workload::GraphSize;
using tmprof::workload::PageCounts;
using tmprof::workload::ParseInteger;
using tmprof::workload::Progress;

constexpr std::uint64_t kLeastScale = 6;  // that there are edges is certain for all that matters
constexpr std::uint64_t kMostScale = 31;  // vertices have 32 bits, one value of which is none
constexpr std::uint64_t kRoots = 64;      // Graph500 2.1, section 4

std::uint64_t Bytes(const GraphSize& size) {
  return CsrGraph::Bytes(size) + BreadthFirstSearch::Bytes(size.vertices());
}

class Bfs final : public tmprof::workload::Computation {
 public:
  std::string name() const override { return "bfs"; }
  std::string description() const override {
    return "Searches a Kronecker graph breadth first from sampled roots, as Graph500 does.";
  }
  std::string unit() const override { return "searches"; }
  void AddOptions(CLI::App& app) override {
    Bound(AddOptional(app, "--scale", scale_, ParseInteger,
                      "Log2 of the vertices, whatever the footprint (default: what fits there)"),
          kLeastScale, kMostScale);
    Bound(
        AddOption(app, "--edge-factor", size_.edge_factor, ParseInteger, "16", "Edges per vertex"),
        1, 1024);
  }
  std::expected<std::uint64_t, std::string> Fit(std::uint64_t footprint_bytes) override {
    size_.scale = scale_.value_or(kLeastScale);
    if (!scale_ && Bytes(size_) > footprint_bytes) {
      return std::unexpected(
          fmt::format("--footprint must hold {} bytes for scale {}", Bytes(size_), kLeastScale));
    }
    const auto larger = [this] { return GraphSize{size_.scale + 1, size_.edge_factor}; };
    while (!scale_ && size_.scale < kMostScale && Bytes(larger()) <= footprint_bytes) {
      ++size_.scale;
    }
    return Bytes(size_);
  }
  void Build(Arena arena, std::uint64_t seed) override {
    graph_.emplace(arena, size_, tmprof::workload::KroneckerEdges(size_, seed));
    roots_ = tmprof::workload::SampleRoots(*graph_, kRoots, seed + 1);
    search_.emplace(arena, *graph_);
    search_->Start(roots_.front());
  }
  Progress Step(std::uint64_t) override {
    Progress progress;
    if (search_->Step(progress.accesses)) return progress;
    ++searches_;
    checksum_ += search_->traversed_edges();
    seconds_per_edge_ += std::chrono::duration<double>(search_->cpu_time()).count() /
                         static_cast<double>(search_->traversed_edges());
    search_->Start(roots_[searches_ % roots_.size()]);
    progress.units = 1;
    return progress;
  }
  bool Counts() const override { return true; }
  void CountUnit(PageCounts& counts) override {
    std::uint64_t accesses = 0;
    while (search_->Step(accesses)) {
    }
    search_->Count(counts);
  }
  std::uint64_t checksum() const override { return checksum_; }
  std::string Figures() const override {
    // The specification's mean over searches: harmonic.
    const std::string teps =
        searches_ == 0 ? "null"
                       : fmt::format("{:.1f}", static_cast<double>(searches_) / seconds_per_edge_);
    return fmt::format("\"scale\":{},\"edge_factor\":{},\"traversed_edges_per_cpu_second\":{}",
                       size_.scale, size_.edge_factor, teps);
  }

 private:
  std::optional<std::uint64_t> scale_;
  GraphSize size_;
  std::optional<CsrGraph> graph_;
  std::optional<BreadthFirstSearch> search_;
  std::vector<std::uint32_t> roots_;
  std::uint64_t searches_ = 0;
  double seconds_per_edge_ = 0;  // summed over the searches
  std::uint64_t checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Bfs bfs;
  return tmprof::workload::RunComputation(bfs, argc, argv);
}
