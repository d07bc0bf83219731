// SPDX-License-Identifier: Apache-2.0
// A source of epoch profiles in order: a trace file, a live session, or a test's vector.

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"

namespace tmprof {

class EpochStream {
 public:
  virtual ~EpochStream() = default;

  // Overwrites `epoch` with the next one; false at the end, `epoch` then unspecified. After an
  // error every further call returns the same error: what came before it stands, nothing after it
  // can be trusted.
  virtual Result<bool> Next(EpochProfile& epoch) = 0;
};

class VectorEpochStream final : public EpochStream {
 public:
  explicit VectorEpochStream(std::vector<EpochProfile> epochs) : epochs_(std::move(epochs)) {}

  Result<bool> Next(EpochProfile& epoch) override {
    if (next_ == epochs_.size()) return false;
    epoch = epochs_[next_++];
    return true;
  }

 private:
  std::vector<EpochProfile> epochs_;
  std::size_t next_ = 0;
};

}  // namespace tmprof
