// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/workload.h"

namespace {

using tmprof::workload::Pattern;

class Gups final : public tmprof::workload::Workload {
 public:
  std::string name() const override { return "gups"; }
  std::string description() const override {
    return "Accesses words all over the memory, every one equally often (with --write: "
           "giga-updates "
           "per second, as in HPC Challenge RandomAccess).";
  }
  void AddOptions(CLI::App&) override {}
  std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const override {
    return tmprof::workload::UniformPattern(spans);
  }
  std::chrono::nanoseconds Shift(std::chrono::nanoseconds duration) const override {
    return duration;
  }
};

}  // namespace

int main(int argc, char** argv) {
  Gups gups;
  return tmprof::workload::RunWorkload(gups, argc, argv);
}
