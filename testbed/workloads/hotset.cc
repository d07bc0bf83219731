// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "testbed/workloads/workload.h"

namespace {

using tmprof::workload::AddFlag;
using tmprof::workload::AddOption;
using tmprof::workload::Pattern;

class Hotset final : public tmprof::workload::Workload {
 public:
  std::string name() const override { return "hotset"; }
  std::string description() const override {
    return "Spends most accesses on a small set of pages, scattered over the memory, and moves on "
           "to "
           "another set after a while.";
  }
  void AddOptions(CLI::App& app) override {
    AddOption(app, "--hot-fraction", hot_fraction_, tmprof::workload::ParseShare, "1/16",
              "Share of the memory that is hot");
    AddOption(app, "--hot-share", hot_share_, tmprof::workload::ParseShare, "0.9",
              "Share of the accesses that go there");
    AddOption(app, "--shift", shift_, tmprof::workload::ParseDuration, "10s",
              "Move on to the next hot set after so long");
    AddFlag(app, "--contiguous", contiguous_, "Hot pages side by side instead of scattered");
  }
  std::expected<Pattern, std::string> MakePattern(std::uint64_t spans) const override {
    const auto hot_spans =
        static_cast<std::uint64_t>(std::llround(hot_fraction_ * static_cast<double>(spans)));
    if (hot_spans == 0 || hot_spans >= spans) {
      return std::unexpected("--hot-fraction of --footprint must leave both hot and cold pages");
    }
    if (shift_.count() == 0) return std::unexpected("--shift must be above 0");
    Pattern pattern = tmprof::workload::HotsetPattern(spans, hot_spans, hot_share_);
    pattern.shuffled = !contiguous_;
    return pattern;
  }
  std::chrono::nanoseconds Shift(std::chrono::nanoseconds) const override { return shift_; }

 private:
  double hot_fraction_ = 0;
  double hot_share_ = 0;
  std::chrono::nanoseconds shift_{0};
  bool contiguous_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  Hotset hotset;
  return tmprof::workload::RunWorkload(hotset, argc, argv);
}
