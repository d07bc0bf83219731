// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/tracer_memory.h"

#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <optional>

#include "profiler/sources/exact/plugin/format/exact_shared.h"

namespace tmprof::exact {
namespace tracer_memory_test {

bool Exists(int id) {
  shmid_ds status{};
  return shmctl(id, IPC_STAT, &status) == 0;
}

tmprof_exact_shared* Attach(int id) {
  void* const address = shmat(id, nullptr, 0);
  return address == reinterpret_cast<void*>(-1) ? nullptr
                                                : static_cast<tmprof_exact_shared*>(address);
}

TEST(TracerMemory, IsAttachedByItsNumberAndZeroedForTheCache) {
  const auto memory = TracerMemory::Create(1 << 14, 1 << 10);
  ASSERT_TRUE(memory) << memory.error().Message();
  tmprof_exact_shared* const shared = Attach(memory->id());
  ASSERT_NE(shared, nullptr);
  EXPECT_EQ(shared->magic, TMPROF_EXACT_SHARED_MAGIC);
  EXPECT_EQ(shared->bytes, sizeof *shared + (1 << 14) * 8 + (1 << 10));
  EXPECT_EQ(shared->border, 0u);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(shared);
  EXPECT_EQ(bytes[shared->bytes - 1], 0);
  shmdt(shared);
}

TEST(TracerMemory, GoesWithTheLastProcessThatHasItAttached) {
  auto memory = std::optional(TracerMemory::Create(0, 0));
  ASSERT_TRUE(*memory) << memory->error().Message();
  const int id = (*memory)->id();
  tmprof_exact_shared* const shared = Attach(id);
  ASSERT_NE(shared, nullptr);
  memory.reset();
  EXPECT_TRUE(Exists(id)) << "this process has it, as a traced one whose recorder was killed";
  const pid_t child = fork();  // has it attached, too
  if (child == 0) {
    pause();
    _exit(0);
  }
  shmdt(shared);
  EXPECT_TRUE(Exists(id));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(Exists(id));
}

}  // namespace tracer_memory_test
}  // namespace tmprof::exact
