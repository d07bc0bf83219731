// SPDX-License-Identifier: Apache-2.0
// The parts of commands that component locking/ has, for a build without it.

#include "apps/tmprof/advised_locks.h"
#include "apps/tmprof/components.h"

namespace tmprof {

constexpr const char* kComponent = "locking";

bool HasLocking() { return false; }

struct AdvisedLocks::State {};
AdvisedLocks::AdvisedLocks() = default;
AdvisedLocks::~AdvisedLocks() = default;
bool AdvisedLocks::is_wanted() const { return false; }

CLI::Option* AdvisedLocks::AddOptions(CLI::App& command, CLI::Option* /*objects*/) {
  for (const char* option : {"--limit", "--pid"}) AddMissingOption(command, option, kComponent);
  for (const char* flag : {"--apply", "--undo"}) AddMissingFlag(command, flag, kComponent);
  return AddMissingFlag(command, "--mlock", kComponent);
}

Result<int> AdvisedLocks::Advise(const AdviceRequest& /*request*/, Format /*format*/) const {
  return Fail(BadInput("advise", "--mlock", LacksComponent(kComponent)));
}

}  // namespace tmprof
