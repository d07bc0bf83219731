// SPDX-License-Identifier: Apache-2.0
// `tmprof advise --objects`. It needs component objects/.

#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/tmprof/advice_request.h"
#include "base/result.h"
#include "base/text/format.h"

namespace tmprof {

class AdvisedObjects {
 public:
  AdvisedObjects();
  ~AdvisedObjects();
  AdvisedObjects(const AdvisedObjects&) = delete;
  AdvisedObjects& operator=(const AdvisedObjects&) = delete;

  // Adds the flag that asks for this advice.
  CLI::Option* AddFlag(CLI::App& command);
  // Adds the other options. `flag` is that of AddFlag(), and `locks` asks for other advice.
  void AddOptions(CLI::App& command, CLI::Option* flag, CLI::Option* locks);

  bool is_wanted() const;
  // Prints the advice, and writes it into a file. Returns the exit status.
  Result<int> Advise(const AdviceRequest& request, Format format) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
