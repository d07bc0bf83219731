// SPDX-License-Identifier: Apache-2.0
// Locks memory of children of this test.

#include "locker/memory_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"

namespace tmprof {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kPages = 64;

// What a child and the test share.
struct Shared {
  std::atomic<int> ready{0};
  std::atomic<int> go{0};
  std::atomic<std::uint64_t> result{0};
};

std::string StatusLine(pid_t pid, const std::string& title) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(title)) return line.substr(title.size());
  return "";
}

std::uint64_t LockedKib(pid_t pid) { return std::stoull(StatusLine(pid, "VmLck:")); }

// Field 22 of its stat file; its name has no blanks.
std::uint64_t StartTime(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string field;
  for (int i = 1; i <= 22; ++i) file >> field;
  return std::stoull(field);
}

class MemoryLockTest : public testing::Test {
 public:
  MemoryLockTest() {
    void* const shared =
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TMPROF_CHECK(shared != MAP_FAILED);
    shared_ = new (shared) Shared();
    // At the same address in the child.
    memory_ = static_cast<char*>(
        mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TMPROF_CHECK(memory_ != MAP_FAILED && pipe(pipe_) == 0);
  }
  ~MemoryLockTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    munmap(memory_, kPages * 4096);
    munmap(shared_, 4096);
    close(pipe_[0]);
    close(pipe_[1]);
  }

  // Runs `program` in a child, which says that it is ready; its value is the exit status.
  void Start(const std::function<int()>& program) {
    child_ = fork();
    TMPROF_CHECK(child_ >= 0);
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (std::size_t page = 0; page < kPages; ++page) memory_[page * 4096] = 1;
      _exit(program());
    }
    while (shared_->ready == 0) sched_yield();
  }
  // Until it sleeps in a system call.
  void AwaitSleep() const {
    while (StatusLine(child_, "State:").find('S') == std::string::npos) sched_yield();
  }
  void SayReady() { shared_->ready = 1; }
  bool AwaitByte() {
    char byte = 0;
    return read(pipe_[0], &byte, 1) == 1;
  }
  void SendByte() { TMPROF_CHECK(write(pipe_[1], "x", 1) == 1); }
  int AwaitExit() {
    int status = 0;
    TMPROF_CHECK(waitpid(std::exchange(child_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  Vpn Page(std::size_t page) const {
    return VpnOfAddress(reinterpret_cast<std::uint64_t>(memory_) + page * 4096);
  }
  VpnRange Pages(std::size_t first, std::size_t end) const { return {Page(first), Page(end)}; }
  Result<LockOutcome> Lock(const std::vector<VpnRange>& ranges,
                           LockChange change = LockChange::kLock) {
    return ChangeLocks(Pid(child_), StartTime(child_), ranges, change);
  }

  Shared* shared_;
  char* memory_;
  int pipe_[2];
  pid_t child_ = 0;
};

TEST_F(MemoryLockTest, LocksAProcessThatWaitsWhichDoesNotNotice) {
  Start([this] {
    SayReady();
    return AwaitByte() ? 7 : 1;  // else the read was interrupted
  });
  AwaitSleep();
  const auto outcome = Lock({Pages(0, 10), Pages(20, 24)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->changed, PageCount(14));
  EXPECT_THAT(outcome->refused, IsEmpty());
  EXPECT_EQ(LockedKib(child_), 14u * 4);
  ASSERT_TRUE(Lock({Pages(0, 10)}, LockChange::kUnlock).has_value());
  EXPECT_EQ(LockedKib(child_), 4u * 4);
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

// Which the kernel restarts in another way, with the time that is left.
TEST_F(MemoryLockTest, APollGoesOnWaiting) {
  Start([this] {
    SayReady();
    pollfd wanted{.fd = pipe_[0], .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 600'000) == 1 ? 7 : 1;
  });
  AwaitSleep();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Lock({Pages(0, 10)}).has_value());
  AwaitSleep();
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

// What a sum of products is after so many steps.
std::uint64_t Sum(std::uint64_t steps) {
  std::uint64_t sum = 1;
  double mean = 1;
  for (std::uint64_t i = 0; i < steps; ++i) {
    sum = sum * 6364136223846793005u + i;
    mean = mean * 0.5 + static_cast<double>(sum >> 40);
  }
  return sum ^ static_cast<std::uint64_t>(mean);
}

TEST_F(MemoryLockTest, AProgramThatComputesComesToTheSameResult) {
  constexpr std::uint64_t kSteps = 1'000'003;
  const std::uint64_t expected = Sum(kSteps);
  Start([this, expected] {
    SayReady();
    std::uint64_t wrong = 0;
    while (shared_->go == 0) wrong += Sum(kSteps) != expected;
    shared_->result = wrong;
    return 7;
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Lock({Pages(0, 10)}).has_value());
    ASSERT_TRUE(Lock({Pages(0, 10)}, LockChange::kUnlock).has_value());
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
  EXPECT_EQ(shared_->result, 0u);
}

std::atomic<int> signals_seen{0};
void CountSignal(int /*signal*/) { ++signals_seen; }

TEST_F(MemoryLockTest, NoSignalIsLostOrDeliveredTwice) {
  constexpr int kSignals = 300;
  Start([this] {
    signal(SIGRTMIN, CountSignal);
    SayReady();
    while (shared_->go == 0) (void)Sum(1000);
    while (signals_seen < kSignals) sched_yield();
    return signals_seen == kSignals ? 7 : 1;
  });
  for (int i = 0; i < kSignals; ++i) {
    ASSERT_EQ(sigqueue(child_, SIGRTMIN, {}), 0);
    ASSERT_TRUE(Lock({Pages(0, 10)}).has_value());
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, AProcessThatWaitsForASignalHasItsMaskAndTheSignal) {
  Start([this] {
    signal(SIGUSR1, CountSignal);
    sigset_t blocked;
    sigset_t none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    SayReady();
    sigsuspend(&none);
    sigset_t now;
    sigprocmask(SIG_BLOCK, nullptr, &now);
    return signals_seen == 1 && sigismember(&now, SIGUSR1) == 1 ? 7 : 1;
  });
  AwaitSleep();
  ASSERT_TRUE(Lock({Pages(0, 10)}).has_value());
  AwaitSleep();
  kill(child_, SIGUSR1);
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, OneWhoseMainThreadHasExitedIsLockedByAnother) {
  Start([this] {
    pthread_t other{};
    const auto wait = [](void* test) -> void* {
      static_cast<MemoryLockTest*>(test)->SayReady();
      _exit(static_cast<MemoryLockTest*>(test)->AwaitByte() ? 7 : 1);
    };
    pthread_create(&other, nullptr, wait, this);
    syscall(SYS_exit, 0);
    return 1;
  });
  while (StatusLine(child_, "State:").find('Z') == std::string::npos) sched_yield();
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->changed, PageCount(10));
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, WhatIsNotMappedIsRefusedAndTheRestIsLocked) {
  Start([this] {
    munmap(memory_ + 20 * 4096, 4096);
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const auto outcome = Lock({Pages(0, 10), Pages(20, 21), Pages(30, 40)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->changed, PageCount(20));
  ASSERT_EQ(outcome->refused.size(), 1u);
  EXPECT_EQ(outcome->refused[0].range, Pages(20, 21));
  EXPECT_EQ(outcome->refused[0].system_error, ENOMEM);
  EXPECT_EQ(LockedKib(child_), 20u * 4);
}

TEST_F(MemoryLockTest, OneThatASignalHasStoppedIsRefusedAndStaysStopped) {
  Start([this] {
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  kill(child_, SIGSTOP);
  while (StatusLine(child_, "State:").find('T') == std::string::npos) sched_yield();
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().Message(), HasSubstr("kill -CONT"));
  while (StatusLine(child_, "State:").find("T (stopped)") == std::string::npos) sched_yield();
  EXPECT_EQ(LockedKib(child_), 0u);
  kill(child_, SIGCONT);
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, OneWithASeccompFilterIsNotTouched) {
  Start([this] {
    sock_filter kill_mlock2[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mlock2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = 4, .filter = kill_mlock2};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 1;
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().Message(), HasSubstr("seccomp"));
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, AnotherProcessOfTheSameNumberIsNotTouched) {
  Start([this] {
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const std::vector<VpnRange> ranges{Pages(0, 10)};
  const auto outcome = ChangeLocks(Pid(child_), StartTime(child_) + 1, ranges, LockChange::kLock);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().system_error, ESRCH);
  EXPECT_EQ(LockedKib(child_), 0u);
}

TEST_F(MemoryLockTest, OneThatHasEndedIsSaidToHaveEnded) {
  Start([this] {
    SayReady();
    return 7;
  });
  const std::uint64_t start_time = StartTime(child_);
  const pid_t pid = child_;
  EXPECT_EQ(AwaitExit(), 7);
  const std::vector<VpnRange> ranges{Pages(0, 10)};
  EXPECT_EQ(ChangeLocks(Pid(pid), start_time, ranges, LockChange::kLock).error().system_error,
            ESRCH);
}

TEST_F(MemoryLockTest, OneThatIsKilledAtAnyTimeIsReportedAndNothingHangs) {
  for (int i = 0; i < 50; ++i) {
    shared_->ready = 0;
    Start([this] {
      SayReady();
      while (true) (void)Sum(1000);
      return 1;
    });
    const pid_t killer = fork();
    TMPROF_CHECK(killer >= 0);
    if (killer == 0) {
      (void)Sum(static_cast<std::uint64_t>(i) * 40'000);
      kill(child_, SIGKILL);
      _exit(0);
    }
    const std::uint64_t start_time = StartTime(child_);
    const std::vector<VpnRange> ranges(64, Pages(0, 10));
    while (ChangeLocks(Pid(child_), start_time, ranges, LockChange::kLock)) continue;
    TMPROF_CHECK(waitpid(killer, nullptr, 0) > 0);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }
}

// Gives up CAP_IPC_LOCK and may lock so many bytes.
bool LimitLocks(rlim_t soft, rlim_t hard) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct held[2];
  if (syscall(SYS_capget, &header, held) != 0) return false;
  held[0].effective &= ~(1u << CAP_IPC_LOCK);
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && syscall(SYS_capset, &header, held) == 0;
}

TEST_F(MemoryLockTest, TheLimitOfAProcessWithoutTheCapabilityIsRaisedByWhatIsNeeded) {
  Start([this] {
    if (!LimitLocks(8192, 1 << 20)) return 1;
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->raised_limit, 10u * 4096);
  EXPECT_EQ(outcome->changed, PageCount(10));
  EXPECT_EQ(Lock({Pages(20, 22)})->raised_limit, 12u * 4096);
  EXPECT_EQ(LockedKib(child_), 12u * 4);
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, ALimitThatMayNotBeRaisedIsNamedAndNothingIsLocked) {
  Start([this] {
    if (!LimitLocks(8192, 8192)) return 1;
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const auto outcome = Lock({Pages(0, 10)});
  if (outcome && outcome->raised_limit)
    GTEST_SKIP() << "with CAP_SYS_RESOURCE any limit may be raised";
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().system_error, EPERM);
  EXPECT_THAT(outcome.error().Message(), HasSubstr("RLIMIT_MEMLOCK is 8 KiB"));
  EXPECT_EQ(LockedKib(child_), 0u);
}

TEST_F(MemoryLockTest, TheLimitOfAProcessWithTheCapabilityStays) {
  if (getuid() != 0) GTEST_SKIP() << "CAP_IPC_LOCK is root's";
  Start([this] {
    const rlimit limit{.rlim_cur = 8192, .rlim_max = 8192};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 1;
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->raised_limit, std::nullopt);
  EXPECT_EQ(outcome->changed, PageCount(10));
}

}  // namespace
}  // namespace tmprof
