// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/workload.h"

namespace {

using tmprof::workload::AddOption;
using tmprof::workload::Pattern;

class HalfIdle final : public tmprof::workload::Workload {
 public:
  std::string name() const override { return "half_idle"; }
  std::string description() const override {
    return "Accesses half of the pages next to never and the k-th hottest of the others in "
           "proportion to k^-skew, all scattered over the memory.";
  }
  void AddOptions(CLI::App& app) override {
    AddOption(app, "--skew", skew_, tmprof::workload::ParseNumber, "0.99",
              "Exponent; 0 makes all pages of the used half alike");
  }
  std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const override {
    if (spans < 2) return std::unexpected("--footprint must hold a used and an idle page");
    return tmprof::workload::HalfIdlePattern(spans, skew_);
  }
  std::chrono::nanoseconds Shift(std::chrono::nanoseconds duration) const override {
    return duration;
  }

 private:
  double skew_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  HalfIdle half_idle;
  return tmprof::workload::RunWorkload(half_idle, argc, argv);
}
