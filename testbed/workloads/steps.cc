// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/workload.h"

namespace {

using tmprof::workload::Pattern;

constexpr std::uint64_t kObjects = 8;  // Daptrace-MW, Fig. 4

class Steps final : public tmprof::workload::Workload {
 public:
  std::string name() const override { return "steps"; }
  std::string description() const override {
    return "Accesses eight equal objects one after another, each for an eighth of the duration.";
  }
  void AddOptions(CLI::App&) override {}
  std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const override {
    if (spans % kObjects != 0) {
      return std::unexpected("--footprint must be eight objects of whole pages (with --thp: huge)");
    }
    return tmprof::workload::StepsPattern(spans, kObjects);
  }
  // Rounded up, so that eight phases fill the duration and there is no ninth.
  std::chrono::nanoseconds Shift(std::chrono::nanoseconds duration) const override {
    return (duration + std::chrono::nanoseconds(kObjects - 1)) / kObjects;
  }
};

}  // namespace

int main(int argc, char** argv) {
  Steps steps;
  return tmprof::workload::RunWorkload(steps, argc, argv);
}
