// SPDX-License-Identifier: Apache-2.0

#include "base/host/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tmprof {
namespace stop_signals_test {

TEST(StopSignals, RememberTheFirstOneThatAsksToStop) {
  Result<StopSignals> signals = StopSignals::Catch();
  ASSERT_TRUE(signals.has_value());
  std::raise(SIGCHLD);
  std::raise(SIGPIPE);
  EXPECT_FALSE(signals->StopRequested());
  std::raise(SIGTERM);
  ASSERT_TRUE(signals->StopRequested());
  std::raise(SIGINT);
  EXPECT_EQ(signals->StopRequested()->signal, SIGTERM);
  EXPECT_FALSE(signals->StopRequested()->from_terminal);
  signals->Restore();
}

TEST(StopSignals, ForgetThoseFromBeforeTheyWereRestored) {
  Result<StopSignals> signals = StopSignals::Catch();
  ASSERT_TRUE(signals.has_value());
  std::raise(SIGPIPE);
  std::raise(SIGTERM);
  signals->Restore();
  SUCCEED() << "either would have ended this process";
}

}  // namespace stop_signals_test
}  // namespace tmprof
