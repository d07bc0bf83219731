// SPDX-License-Identifier: Apache-2.0
// `tmprof advise --mlock`. It needs component locking/.

#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/tmprof/advice_request.h"
#include "base/result.h"
#include "base/text/format.h"

namespace tmprof {

class AdvisedLocks {
 public:
  AdvisedLocks();
  ~AdvisedLocks();
  AdvisedLocks(const AdvisedLocks&) = delete;
  AdvisedLocks& operator=(const AdvisedLocks&) = delete;

  // Adds the options, and returns the one that asks for this advice. `objects` asks for other
  // advice.
  CLI::Option* AddOptions(CLI::App& command, CLI::Option* objects);

  bool is_wanted() const;
  // Prints the advice, and locks memory. Returns the exit status.
  Result<int> Advise(const AdviceRequest& request, Format format) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
