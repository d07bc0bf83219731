// SPDX-License-Identifier: Apache-2.0
// A thread with one capability less.

#pragma once

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tmprof::test {

// Takes one of the first 32 capabilities from the calling thread until the end of its life.
class WithoutCapability {
 public:
  explicit WithoutCapability(int capability) {
    EXPECT_EQ(::syscall(SYS_capget, &header_, before_), 0);
    __user_cap_data_struct fewer[2] = {before_[0], before_[1]};
    fewer[0].effective &= ~(1U << capability);
    EXPECT_EQ(::syscall(SYS_capset, &header_, fewer), 0);
  }
  ~WithoutCapability() { EXPECT_EQ(::syscall(SYS_capset, &header_, before_), 0); }
  WithoutCapability(const WithoutCapability&) = delete;
  WithoutCapability& operator=(const WithoutCapability&) = delete;

  bool had(int capability) const { return (before_[0].effective & (1U << capability)) != 0; }

 private:
  __user_cap_header_struct header_{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct before_[2]{};
};

}  // namespace tmprof::test
