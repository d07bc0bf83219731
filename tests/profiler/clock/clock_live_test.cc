// SPDX-License-Identifier: Apache-2.0
// The sampler on real children with known accesses.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <thread>

#include "base/clock.h"
#include "profiler/sources/clock/clock_sampler.h"
#include "testbed/workloads/access_loops.h"

namespace tmprof {
namespace clock_live_test {

using workloads::AccessLoop;

constexpr std::size_t kBufferBytes = std::size_t{16} << 20;

// Memory that exists before the fork, so that parent and child agree on where it is.
class Buffer {
 public:
  Buffer()
      : memory_(::mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::munmap(memory_, kBufferBytes); }

  std::span<std::uint64_t> words() const {
    return {static_cast<std::uint64_t*>(memory_), kBufferBytes / sizeof(std::uint64_t)};
  }
  VpnRange pages() const {
    const Vpn first = VpnOfAddress(reinterpret_cast<std::uint64_t>(memory_));
    return {first, first + PageCount(kBufferBytes / kBasePageBytes)};
  }

 private:
  void* memory_;
};

[[noreturn]] void LoopForever(AccessLoop loop, const Buffer& buffer) {
  for (;;) {
    volatile std::uint64_t sink = workloads::RunLoop(loop, buffer.words(), 1'000'000);
    (void)sink;
  }
}

// A child process that tells when it is ready and waits to be told to go on.
class Child {
 public:
  struct Pipes {
    int ready;
    int go;
    void Ready() const { EXPECT_EQ(::write(ready, "r", 1), 1); }
    void AwaitGo() const {
      char byte = 0;
      EXPECT_EQ(::read(go, &byte, 1), 1);
    }
  };
  explicit Child(const std::function<void(const Pipes&)>& body) {
    int ready[2];
    int go[2];
    EXPECT_EQ(::pipe(ready), 0);
    EXPECT_EQ(::pipe(go), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      body({ready[1], go[0]});
      ::_exit(0);
    }
    ready_ = UniqueFd(ready[0]);
    go_ = UniqueFd(go[1]);
    ::close(ready[1]);
    ::close(go[0]);
    AwaitReady();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (const pid_t other : others_) ::kill(other, SIGKILL);
  }
  void AwaitReady() const {
    char byte = 0;
    EXPECT_EQ(::read(ready_.get(), &byte, 1), 1);
  }
  void Go() const { EXPECT_EQ(::write(go_.get(), "g", 1), 1); }
  int ready_fd() const { return ready_.get(); }
  void KillToo(pid_t pid) { others_.push_back(pid); }
  Pid pid() const { return Pid(pid_); }
  void Kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_ = 0;
  UniqueFd ready_;
  UniqueFd go_;
  std::vector<pid_t> others_;
};

TrackedProcess Named(std::uint32_t id, Pid pid) {
  TrackedProcess process;
  process.id = TargetId(id);
  process.pid = pid;
  return process;
}

struct Seen {
  std::uint64_t observations = 0;
  std::map<std::string, std::uint64_t> details;
  std::map<PageKey, SampleRecord> pages;

  void Add(const SourceEpoch& epoch) {
    observations += *epoch.status.observations;
    for (const NamedCount& detail : epoch.status.details) details[detail.name] += detail.count;
    for (const SampleRecord& record : epoch.samples) {
      SampleRecord& sum = pages[record.key];
      sum.loads += record.loads;
      sum.stores += record.stores;
    }
  }
  std::uint64_t Total(const std::function<bool(PageKey)>& of = [](PageKey) { return true; }) const {
    std::uint64_t total = 0;
    for (const auto& [key, record] : pages) {
      if (of(key)) total += record.loads + record.stores;
    }
    return total;
  }
  std::uint64_t In(const VpnRange& range) const {
    return Total([&](PageKey key) { return range.Contains(key.vpn); });
  }
  std::uint64_t Of(std::uint32_t id) const {
    return Total([&](PageKey key) { return key.target == TargetId(id); });
  }
};

class ClockLiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Probe probe = ProbeClock(api_);
    if (!probe.usable) GTEST_SKIP() << probe.detail;
  }

  std::unique_ptr<ClockSampler> Sampler(double rate_hz = 2'000) {
    auto sampler = ClockSampler::Create(
        api_, clock_, {.max_overhead = rate_hz * 1e-5, .ns_per_sample = 10'000.0});
    EXPECT_TRUE(sampler.has_value());
    return std::move(*sampler);
  }

  // Services the sampler until `enough`, or for a minute on a machine that gives the child no CPU.
  Seen Collect(ClockSampler& sampler, const std::function<bool(const Seen&)>& enough) {
    Seen seen;
    const MonotonicTime end = clock_.Now() + std::chrono::seconds(60);
    while (!enough(seen) && clock_.Now() < end) {
      std::vector<pollfd> fds;
      for (const int fd : sampler.PollFds()) fds.push_back({fd, POLLIN, 0});
      ::poll(fds.data(), fds.size(), 20);
      seen.Add(sampler.TakeEpoch());
    }
    EXPECT_TRUE(enough(seen)) << "too few samples in a minute";
    return seen;
  }
  static std::function<bool(const Seen&)> Observations(std::uint64_t count) {
    return [=](const Seen& seen) { return seen.observations >= count; };
  }

  KernelPerfApi api_;
  SystemClock clock_;
};

class LoopTest : public ClockLiveTest, public ::testing::WithParamInterface<AccessLoop> {};

TEST_P(LoopTest, PutsFourOfFiveAddressesIntoTheBufferThatTheChildUses) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    workloads::RunLoop(AccessLoop::kRandomStores, buffer.words(), 10'000'000);
    pipes.Ready();
    LoopForever(GetParam(), buffer);
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  const Seen seen = Collect(*sampler, Observations(500));
  EXPECT_GE(seen.In(buffer.pages()), seen.Total() * 8 / 10);
  const bool stores =
      GetParam() == AccessLoop::kRandomStores || GetParam() == AccessLoop::kRandomUpdates;
  EXPECT_GE(seen.details.at(stores ? "store_samples" : "load_samples"), seen.Total() * 8 / 10);
}

INSTANTIATE_TEST_SUITE_P(Loops, LoopTest,
                         ::testing::Values(AccessLoop::kRandomLoads, AccessLoop::kRandomStores,
                                           AccessLoop::kRandomUpdates, AccessLoop::kStream),
                         [](const auto& tested) {
                           std::string name = workloads::Name(tested.param);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

TEST_F(ClockLiveTest, FindsNoAddressInAPointerChaseAndSaysWhy) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    workloads::LinkForChase(buffer.words());
    pipes.Ready();
    LoopForever(AccessLoop::kPointerChase, buffer);
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  const Seen seen = Collect(*sampler, [](const Seen& so_far) {
    const auto found = so_far.details.find("no_address_clobbered");
    return found != so_far.details.end() && found->second >= 300;
  });
  EXPECT_LT(seen.observations, 30u);
  EXPECT_GT(sampler->MemoryStallShare().value(), 0.9);
}

TEST_F(ClockLiveTest, FollowsThreadsFromBeforeAndAfterTheAttachment) {
  const Buffer before;
  const Buffer after;
  const Child child([&](const Child::Pipes& pipes) {
    std::thread first([&] { LoopForever(AccessLoop::kRandomUpdates, before); });
    pipes.Ready();
    pipes.AwaitGo();
    std::thread second([&] { LoopForever(AccessLoop::kRandomUpdates, after); });
    first.join();
    second.join();
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  child.Go();
  Collect(*sampler, [&](const Seen& seen) {
    return seen.In(before.pages()) >= 100 && seen.In(after.pages()) >= 100;
  });
}

TEST_F(ClockLiveTest, FollowsAForkedChildAndCreditsItOnceItIsNamed) {
  const Buffer buffer;
  Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    pipes.AwaitGo();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) LoopForever(AccessLoop::kRandomUpdates, buffer);
    EXPECT_EQ(::write(pipes.ready, &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
    ::pause();
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  child.Go();
  pid_t grandchild = 0;
  ASSERT_EQ(::read(child.ready_fd(), &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  child.KillToo(grandchild);
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid()), Named(2, Pid(grandchild))}).has_value());
  const Seen seen =
      Collect(*sampler, [&](const Seen& so_far) { return so_far.In(buffer.pages()) >= 200; });
  EXPECT_GE(seen.Of(2), 200u);
}

TEST_F(ClockLiveTest, DecodesAnewAfterTheTargetHasReplacedItselfByExec) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    pipes.AwaitGo();
    ::execl("/bin/sh", "sh", "-c", "while :; do :; done", nullptr);
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  child.Go();
  const Seen seen = Collect(*sampler, Observations(200));
  EXPECT_EQ(seen.In(buffer.pages()), 0u);
  EXPECT_GT(seen.details.at("decoded"), 0u);
}

TEST_F(ClockLiveTest, TakesAKilledTargetInItsStride) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    LoopForever(AccessLoop::kRandomUpdates, buffer);
  });
  const auto sampler = Sampler();
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  Collect(*sampler, Observations(50));
  child.Kill();
  EXPECT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  sampler->SetActive(false);
  sampler->SetActive(true);
  sampler->TakeEpoch();
  EXPECT_TRUE(sampler->SetTargets({}).has_value());
  EXPECT_EQ(sampler->TakeEpoch().status.observations, 0u);
}

TEST_F(ClockLiveTest, AcceptsATargetThatIsGoneAlready) {
  const Child child([](const Child::Pipes& pipes) { pipes.Ready(); });
  child.Kill();
  const auto sampler = Sampler();
  EXPECT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
}

TEST_F(ClockLiveTest, RespectsTheRate) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    LoopForever(AccessLoop::kRandomUpdates, buffer);
  });
  const auto sampler = Sampler(1'000);
  clockid_t cpu_clock{};
  ASSERT_EQ(::clock_getcpuclockid(child.pid().value(), &cpu_clock), 0);
  const auto cpu_seconds = [&] {
    timespec time{};
    EXPECT_EQ(::clock_gettime(cpu_clock, &time), 0);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  ASSERT_TRUE(sampler->SetTargets({Named(1, child.pid())}).has_value());
  const double start = cpu_seconds();
  const Seen seen = Collect(*sampler, Observations(500));
  const double per_second = static_cast<double>(seen.observations) / (cpu_seconds() - start);
  EXPECT_LE(per_second, 1'100);
}

TEST_F(ClockLiveTest, LetsTwoSamplersWatchOneTarget) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    LoopForever(AccessLoop::kRandomUpdates, buffer);
  });
  const auto one = Sampler();
  const auto two = Sampler();
  ASSERT_TRUE(one->SetTargets({Named(1, child.pid())}).has_value());
  ASSERT_TRUE(two->SetTargets({Named(1, child.pid())}).has_value());
  EXPECT_GT(Collect(*one, Observations(100)).In(buffer.pages()), 80u);
  EXPECT_GT(Collect(*two, Observations(100)).In(buffer.pages()), 80u);
}

TEST_F(ClockLiveTest, TakesNoSamplesWhileInactive) {
  const Buffer buffer;
  const Child child([&](const Child::Pipes& pipes) {
    pipes.Ready();
    LoopForever(AccessLoop::kRandomUpdates, buffer);
  });
  const auto quiet = Sampler();
  const auto witness = Sampler();
  ASSERT_TRUE(quiet->SetTargets({Named(1, child.pid())}).has_value());
  ASSERT_TRUE(witness->SetTargets({Named(1, child.pid())}).has_value());
  quiet->SetActive(false);
  quiet->TakeEpoch();
  Collect(*witness, Observations(100));
  EXPECT_EQ(quiet->TakeEpoch().status.observations, 0u);
  quiet->SetActive(true);
  Collect(*quiet, Observations(50));
}

TEST_F(ClockLiveTest, MeasuresACostThatAnInterruptCanHave) {
  const auto setup = FindClockSetup(api_);
  ASSERT_TRUE(setup.has_value());
  const auto cost = MeasureSampleCost(api_, *setup);
  ASSERT_TRUE(cost.has_value());
  EXPECT_GE(*cost, 500);
  EXPECT_LE(*cost, 1e6);
}

}  // namespace clock_live_test
}  // namespace tmprof
