// SPDX-License-Identifier: Apache-2.0

#include <optional>

#include "testbed/workloads/workload.h"

namespace {

using tmprof::workload::AddFlag;
using tmprof::workload::AddOption;
using tmprof::workload::AddOptional;
using tmprof::workload::Pattern;

class Zipf final : public tmprof::workload::Workload {
 public:
  std::string name() const override { return "zipf"; }
  std::string description() const override {
    return "Accesses the k-th hottest page in proportion to k^-skew, the pages scattered over the "
           "memory.";
  }
  void AddOptions(CLI::App& app) override {
    AddOption(app, "--skew", skew_, tmprof::workload::ParseNumber, "0.99",
              "Exponent; 0 makes all pages alike");
    AddOptional(app, "--shift", shift_, tmprof::workload::ParseDuration,
                "Make another eighth the hottest after so long (default: never)");
    AddFlag(app, "--contiguous", contiguous_, "Pages in order of heat instead of scattered");
  }
  std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const override {
    if (shift_ && shift_->count() == 0) return std::unexpected("--shift must be above 0");
    Pattern pattern = tmprof::workload::ZipfPattern(spans, skew_);
    pattern.shuffled = !contiguous_;
    return pattern;
  }
  std::chrono::nanoseconds Shift(std::chrono::nanoseconds duration) const override {
    return shift_.value_or(duration);
  }

 private:
  double skew_ = 0;
  std::optional<std::chrono::nanoseconds> shift_;
  bool contiguous_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  Zipf zipf;
  return tmprof::workload::RunWorkload(zipf, argc, argv);
}
