// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/control/control_address.h"
#include "tests/apps/program.h"

namespace tmprof::test {
namespace service_manager_test {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServiceManager, SpeaksAsSystemdListens) {
  std::vector<std::string> heard;
  ServiceManager manager([&](const std::string& message) { heard.push_back(message); },
                         microseconds(1000));
  manager.Ready("places 2 targets");
  manager.Say("two\nlines\nREADY=1");
  manager.Alive();
  manager.Reloading(MonotonicTime(std::chrono::milliseconds(5)));
  manager.Stopping();
  EXPECT_THAT(heard, ElementsAre("READY=1\nSTATUS=places 2 targets", "STATUS=two lines READY=1",
                                 "WATCHDOG=1", "RELOADING=1\nMONOTONIC_USEC=5000", "STOPPING=1"));
}

TEST(ServiceManager, SaysNoSignOfLifeWithoutAWatchdog) {
  std::vector<std::string> heard;
  ServiceManager manager([&](const std::string& message) { heard.push_back(message); }, {});
  manager.Alive();
  EXPECT_THAT(heard, IsEmpty());
}

TEST(ServiceManager, TakesSystemdsEnvironment) {
  const TemporaryFolder folder;
  const std::string path = folder.File("notify");
  const UniqueFd systemd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(systemd.get(), UnixAddressOf(path)->get(), UnixAddress::size()), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  ServiceManager manager = ServiceManager::FromEnvironment();
  EXPECT_EQ(manager.watchdog(), std::chrono::seconds(30));
  manager.Alive();
  char message[64];
  const ssize_t got = ::recv(systemd.get(), message, sizeof message, 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(message, static_cast<std::size_t>(got)), "WATCHDOG=1");

  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("WATCHDOG_PID");
  ServiceManager alone = ServiceManager::FromEnvironment();
  EXPECT_EQ(alone.watchdog(), std::nullopt);
  alone.Ready("for nobody");  // and nothing happens
}

}  // namespace service_manager_test
}  // namespace tmprof::test
