// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/set_lock.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace set_lock_test {

TEST(SetLock, LetsOneInAtATime) {
  std::uint8_t lock = 0;
  int counted = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) {
        tiersim_lock_set(&lock, INT64_MAX);
        ++counted;
        tiersim_unlock_set(&lock);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted, 4 * 10000);
}

TEST(SetLock, IsTakenFromAProcessThatDiedWithIt) {
  void* const memory = mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const lock = static_cast<std::uint8_t*>(memory);
  const pid_t child = fork();
  if (child == 0) {
    tiersim_lock_set(lock, INT64_MAX);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::milliseconds kPatience(1);
  tiersim_lock_set(lock, std::chrono::nanoseconds(kPatience).count());
  EXPECT_GE(std::chrono::steady_clock::now() - start, kPatience)
      << "a holder that is only slow is waited for";
  EXPECT_EQ(*lock, 1);
  tiersim_unlock_set(lock);
  EXPECT_EQ(*lock, 0) << "later ones do not wait";
  munmap(memory, 1);
}

}  // namespace set_lock_test
