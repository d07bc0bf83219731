// SPDX-License-Identifier: Apache-2.0
// The example of a source: its own file.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/source.h"
#include "profiler/source_kind.h"

namespace tmprof {

inline constexpr SourceKind kExampleSource{"example", "an example of samples", SourceRole::kSamples,
                                           false, SampleSubject::kMemory};

// Sees one load of page 5 of each target in each epoch.
class ExampleSource final : public Source {
 public:
  std::string_view name() const override { return kExampleSource.name; }
  SourceRole role() const override { return kExampleSource.role; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override {
    targets_ = targets;
    return {};
  }
  void SetActive(bool /*active*/) override {}
  SourceEpoch TakeEpoch() override {
    SourceEpoch epoch;
    epoch.status = {.name = std::string(kExampleSource.name),
                    .label = std::string(kExampleSource.label),
                    .role = kExampleSource.role,
                    .samples_of = kExampleSource.samples_of};
    for (const TrackedProcess& target : targets_)
      epoch.samples.push_back({.key = {target.id, Vpn(5)}, .loads = 1});
    return epoch;
  }

 private:
  std::vector<TrackedProcess> targets_;
};

inline Result<std::unique_ptr<Source>> OpenExample() { return std::make_unique<ExampleSource>(); }

}  // namespace tmprof
