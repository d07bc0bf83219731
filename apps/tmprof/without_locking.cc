// SPDX-License-Identifier: Apache-2.0
// The parts of commands that component locking/ has, for a build without it.

#include "apps/tmprof/advised_locks.h"
#include "apps/tmprof/components.h"

namespace tmprof {

namespace {

constexpr const char* kLocking = "locking";

}  // namespace

bool HasLocking() { return false; }

struct AdvisedLocks::State {};
AdvisedLocks::AdvisedLocks() = default;
AdvisedLocks::~AdvisedLocks() = default;
bool AdvisedLocks::is_wanted() const { return false; }

CLI::Option* AdvisedLocks::AddOptions(CLI::App& command, CLI::Option* /*objects*/) {
  for (const char* option : {"--limit", "--pid"}) AddMissingOption(command, option, kLocking);
  for (const char* flag : {"--apply", "--undo"}) AddMissingFlag(command, flag, kLocking);
  return AddMissingFlag(command, "--mlock", kLocking);
}

Result<int> AdvisedLocks::Advise(const AdviceRequest& /*request*/, Format /*format*/) const {
  return Fail(BadInput("advise", "--mlock", LacksComponent(kLocking)));
}

}  // namespace tmprof
