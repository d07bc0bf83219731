// SPDX-License-Identifier: Apache-2.0
// Locks memory of children of this test.

#include "locking/memory_lock.h"

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
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "locking/stopped_thread.h"

namespace tmprof {
namespace memory_lock_live_test {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kPages = 64;

// Memory that a child and the test share.
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

// Empty: children may be traced here, by a kernel that can be asked what forbids it.
std::string WhyNotTraced() {
  const pid_t child = fork();
  TMPROF_CHECK(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  std::string why;
  if (ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0) {
    why = "ptrace() is forbidden: errno " + std::to_string(errno);
  } else {
    int status = 0;
    ptrace(PTRACE_INTERRUPT, child, nullptr, nullptr);
    TMPROF_CHECK(waitpid(child, &status, __WALL) == child);
    constexpr auto kGetSyscallDispatcher = static_cast<__ptrace_request>(0x4211);
    std::uint64_t dispatcher[4];
    if (ptrace(kGetSyscallDispatcher, child, sizeof dispatcher, dispatcher) != 0)
      why = "the kernel is older than Linux 6.4";
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, __WALL);
  return why;
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

  void SetUp() override {
    static const std::string why = WhyNotTraced();
    if (!why.empty()) GTEST_SKIP() << why;
  }

  // Runs `program` in a child, which says that it is ready; its value is the exit status.
  void Start(const std::function<int()>& program) {
    child_ = fork();
    TMPROF_CHECK(child_ >= 0);
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // other children of the test may trace it, too
      for (std::size_t page = 0; page < kPages; ++page) memory_[page * 4096] = 1;
      _exit(program());
    }
    while (shared_->ready == 0) {
      ASSERT_FALSE(HasEnded()) << "the child cannot do what it should";
      sched_yield();
    }
  }
  // It stays to be waited for.
  bool HasEnded() const {
    siginfo_t ended{};
    return waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           ended.si_pid == child_;
  }
  void AwaitState(const std::string& state) const {
    while (StatusLine(child_, "State:").find(state) == std::string::npos) {
      ASSERT_FALSE(HasEnded());
      sched_yield();
    }
  }
  // Waits until it sleeps in a system call.
  void AwaitSleep() const { AwaitState("S (sleeping)"); }
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

  std::vector<VpnRange> SinglePages() const {
    std::vector<VpnRange> pages;
    for (std::size_t page = 0; page < kPages; ++page) pages.push_back(Pages(page, page + 1));
    return pages;
  }
  // nullopt: nothing kept it from anything.
  static std::optional<Error> WhyNotAll(const Result<LockOutcome>& outcome) {
    return outcome ? outcome->cut_short : outcome.error();
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

// The kernel restarts poll(2) in another way, with the time that is left.
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

// Returns a sum of products after so many steps.
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
  AwaitState("Z (zombie)");
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->changed, PageCount(10));
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, RefusesUnmappedMemoryAndLocksTheRest) {
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
  AwaitState("T (stopped)");
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().Message(), HasSubstr("kill -CONT"));
  AwaitState("T (stopped)");
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

// The mode allows read(), write(), and exit() only.
TEST_F(MemoryLockTest, OneInSeccompsStrictModeIsNotTouched) {
  Start([this] {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 1;
    SayReady();
    const bool good = AwaitByte();
    syscall(SYS_exit, good ? 7 : 1);
    return 1;
  });
  const auto outcome = Lock({Pages(0, 10)});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().Message(), HasSubstr("seccomp"));
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

// Computes until it is told to end; 7: with right results.
int ComputesRight(Shared& shared) {
  constexpr std::uint64_t kSteps = 10'007;
  const std::uint64_t expected = Sum(kSteps);
  shared.ready = 1;
  while (shared.go == 0)
    if (Sum(kSteps) != expected) return 1;
  return 7;
}

// Longer than a stop is waited for before the call.
TEST_F(MemoryLockTest, ACallIsWaitedForAsLongAsItTakes) {
  Start([this] {
    *reinterpret_cast<timespec*>(memory_) = {.tv_sec = 6, .tv_nsec = 0};
    return ComputesRight(*shared_);
  });
  {
    auto thread = StoppedThread::Stop(Pid(child_));
    ASSERT_TRUE(thread.has_value()) << thread.error().Message();
    const auto slept =
        thread->Call(SYS_nanosleep, {reinterpret_cast<std::uint64_t>(memory_), 0, 0});
    ASSERT_TRUE(slept.has_value()) << slept.error().Message();
    EXPECT_EQ(*slept, 0);
    EXPECT_TRUE(thread->Release().has_value());
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, OneThatIsStoppedWhileItIsHeldIsStoppedWhenItIsReleased) {
  Start([this] { return ComputesRight(*shared_); });
  for (int i = 0; i < 20; ++i) {
    auto thread = StoppedThread::Stop(Pid(child_));
    ASSERT_TRUE(thread.has_value()) << thread.error().Message();
    kill(child_, SIGSTOP);
    for (int call = 0; call < 3; ++call) EXPECT_EQ(thread->Call(SYS_getpid, {}).value(), child_);
    // Before the release, or between two calls.
    if (i % 2 == 1) {
      kill(child_, SIGSTOP);
      EXPECT_EQ(thread->Call(SYS_getpid, {}).value(), child_);
    }
    ASSERT_TRUE(thread->Release().has_value());
    AwaitState("T (stopped)");
    kill(child_, SIGCONT);
    AwaitState("R (running)");
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, AStopAtAnyTimeOfABatchStaysOne) {
  Start([this] { return ComputesRight(*shared_); });
  const std::vector<VpnRange> ranges = SinglePages();
  for (int i = 0; i < 50; ++i) {
    const pid_t stopper = fork();
    TMPROF_CHECK(stopper >= 0);
    if (stopper == 0) {
      (void)Sum(static_cast<std::uint64_t>(i) * 20'000);
      kill(child_, SIGSTOP);
      _exit(0);
    }
    // Were the stop lost, this would go on.
    std::optional<Error> error;
    while (!error) error = WhyNotAll(Lock(ranges));
    EXPECT_THAT(error->Message(), HasSubstr("kill -CONT"));
    AwaitState("T (stopped)");
    TMPROF_CHECK(waitpid(stopper, nullptr, 0) > 0);
    kill(child_, SIGCONT);
    AwaitState("R (running)");
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
}

// The signals are those of Ctrl-C, kill and the end of tmprof's terminal.
TEST_F(MemoryLockTest, AProgramComputesRightWhenWhoeverLocksItsMemoryIsEndedAtAnyTime) {
  // Most of the time goes into locking and unlocking this many bytes.
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* const many = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(many, MAP_FAILED);
  Start([this] { return ComputesRight(*shared_); });
  munmap(many, kBytes);
  const Vpn start = VpnOfAddress(reinterpret_cast<std::uint64_t>(many));
  const std::vector<VpnRange> ranges{{start, start + PageCount(kBytes / 4096)}};
  const std::vector<int> signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM};
  constexpr std::uint64_t kWorks = 1;
  constexpr std::uint64_t kFails = 2;
  for (int i = 0; i < 200; ++i) {
    const int signal = signals[static_cast<std::size_t>(i) % signals.size()];
    const pid_t locker = fork();
    TMPROF_CHECK(locker >= 0);
    if (locker == 0) {
      const rlimit no_core{};
      setrlimit(RLIMIT_CORE, &no_core);
      shared_->result = Lock(ranges).has_value() ? kWorks : kFails;
      while (Lock(ranges, LockChange::kUnlock) && Lock(ranges)) continue;
      _exit(1);
    }
    while (shared_->result == 0) sched_yield();
    ASSERT_EQ(shared_->result.exchange(0), kWorks);
    (void)Sum(static_cast<std::uint64_t>(i) * 10'000);
    kill(locker, signal);
    int status = 0;
    TMPROF_CHECK(waitpid(locker, &status, 0) > 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    ASSERT_FALSE(HasEnded());
    EXPECT_THAT(StatusLine(child_, "TracerPid:"), testing::EndsWith("\t0"));
  }
  shared_->go = 1;
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, AThreadThatWouldSeeAnErrorIsSparedWhereAnotherIsThere) {
  Start([this] {
    pthread_t other{};
    const auto wait = [](void* test) -> void* {
      _exit(static_cast<MemoryLockTest*>(test)->AwaitByte() ? 7 : 1);
    };
    pthread_create(&other, nullptr, wait, this);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    SayReady();
    sigwaitinfo(&signals, nullptr);  // ends with EINTR when its thread is stopped
    return 1;
  });
  AwaitSleep();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Lock({Pages(0, 10)}).has_value());
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

// Calls are of 16 MiB at most.
TEST_F(MemoryLockTest, AHugeRangeIsLockedWholeAndRefusedAsOne) {
  constexpr std::size_t kBytes = std::size_t{40} << 20;
  void* const huge = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(huge, MAP_FAILED);
  const Vpn start = VpnOfAddress(reinterpret_cast<std::uint64_t>(huge));
  const VpnRange range{start, start + PageCount(kBytes / 4096)};
  Start([&] {
    SayReady();
    const bool good = AwaitByte();
    munmap(huge, kBytes);
    shared_->result = 1;
    return good && AwaitByte() ? 7 : 1;
  });
  munmap(huge, kBytes);
  const auto outcome = Lock({range});
  ASSERT_TRUE(outcome.has_value()) << outcome.error().Message();
  EXPECT_EQ(outcome->changed, range.size());
  EXPECT_EQ(LockedKib(child_), kBytes / 1024);
  SendByte();
  while (shared_->result == 0) sched_yield();
  const auto refused = Lock({range});
  ASSERT_TRUE(refused.has_value()) << refused.error().Message();
  ASSERT_EQ(refused->refused.size(), 1u);
  EXPECT_EQ(refused->refused[0].range, range);
  SendByte();
  EXPECT_EQ(AwaitExit(), 7);
}

TEST_F(MemoryLockTest, TellsMemoryThatTheProgramLockedItself) {
  Start([this] {
    if (mlock(memory_ + 30 * 4096, 5 * 4096) != 0) return 1;
    SayReady();
    return AwaitByte() ? 7 : 1;
  });
  ASSERT_TRUE(Lock({Pages(10, 12), Pages(35, 37)}).has_value());
  const auto locked = LockedRanges(Pid(child_));
  ASSERT_TRUE(locked.has_value()) << locked.error().Message();
  EXPECT_THAT(*locked, testing::ElementsAre(Pages(10, 12), Pages(30, 37)));
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
  const std::vector<VpnRange> ranges = SinglePages();
  for (int i = 0; i < 50; ++i) {
    shared_->ready = 0;
    shared_->go = 0;
    Start([this] {
      SayReady();
      while (true) (void)Sum(1000);
      return 1;
    });
    const std::uint64_t start_time = StartTime(child_);
    const pid_t killer = fork();
    TMPROF_CHECK(killer >= 0);
    if (killer == 0) {
      while (shared_->go == 0) sched_yield();
      (void)Sum(static_cast<std::uint64_t>(i) * 40'000);
      kill(child_, SIGKILL);
      _exit(0);
    }
    std::optional<Error> error = WhyNotAll(Lock(ranges));
    EXPECT_FALSE(error.has_value()) << error->Message();
    shared_->go = 1;
    while (!error)
      error = WhyNotAll(ChangeLocks(Pid(child_), start_time, ranges, LockChange::kLock));
    EXPECT_EQ(error->system_error, ESRCH) << error->Message();
    TMPROF_CHECK(waitpid(killer, nullptr, 0) > 0);
    // Its tracer, this process, may have been told of its end.
    waitpid(std::exchange(child_, 0), nullptr, 0);
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
  const bool may_lock =
      (std::stoull(StatusLine(getpid(), "CapEff:"), nullptr, 16) >> CAP_IPC_LOCK & 1) != 0;
  if (!may_lock) GTEST_SKIP() << "without CAP_IPC_LOCK";
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

}  // namespace memory_lock_live_test
}  // namespace tmprof
