// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/translation_flusher.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <system_error>

#include "base/clock.h"
#include "base/host/own_cpus.h"
#include "base/units.h"
#include "profiler/sources/abit/punctual_thread.h"

namespace tmprof::abit {
namespace {

using std::chrono::microseconds;

// The helper's call takes 20 to 30 us with so many ranges (Intel Xeon guest, Linux 6.18). Each
// range has a gather of its own, which is open for most of the time.
constexpr std::size_t kRangesOfHelper = 64;
// A flush counts if this many calls of this thread lie wholly within the helper's. All 1 300
// flushes that counted left no translation (Linux 6.18, beside two busy loops).
constexpr int kCallsThatTell = 3;
// Each call that flushes interrupts the process: a pause keeps their number low.
constexpr auto kBetweenCalls = microseconds(1);
constexpr auto kLongestTry = microseconds(300);
// If this thread was held up for longer, all of the helper's call may lie between two of its own.
constexpr auto kLongestGap = microseconds(20);
constexpr int kTries = 2;

using Ranges = std::array<iovec, kRangesOfHelper>;

bool Deactivate(int pidfd, const Ranges& ranges, std::size_t count) {
  const long reached = ::syscall(SYS_process_madvise, pidfd, ranges.data(), count, MADV_COLD, 0U);
  return reached == static_cast<long>(count * kBasePageBytes);
}

Ranges Repeated(std::uint64_t page) {
  Ranges ranges;
  ranges.fill({.iov_base = reinterpret_cast<void*>(page), .iov_len = kBasePageBytes});
  return ranges;
}

}  // namespace

TranslationFlusher::~TranslationFlusher() {
  if (!helper_.joinable()) return;
  done_.wait(asked_.load() - 1);
  stopping_ = true;
  ++asked_;
  asked_.notify_one();
  helper_.join();
}

bool TranslationFlusher::Flush(int pidfd, std::uint64_t page) {
  for (int i = 0; i < kTries; ++i)
    if (Try(pidfd, page)) return true;
  return false;
}

bool TranslationFlusher::Try(int pidfd, std::uint64_t page) {
  // The helper may still wait for a CPU to do the job before.
  if (done_.load() != asked_.load()) return false;
  if (!helper_.joinable()) {
    try {
      helper_ = std::thread([this] { Help(); });
    } catch (const std::system_error&) {
      return false;  // there are as many threads as may be
    }
    thread_.wait(0);
  }
  if (!KeepHelperApart()) return false;
  const Ranges ranges = Repeated(page);
  pidfd_ = UniqueFd(::fcntl(pidfd, F_DUPFD_CLOEXEC, 0));
  if (!pidfd_) return false;
  page_ = page;
  const std::uint32_t job = asked_.load() + 1;
  asked_.store(job);
  asked_.notify_one();

  const SystemClock clock;
  const MonotonicTime end = clock.Now() + kLongestTry;
  while (begun_.load() != job)
    if (clock.Now() >= end) return false;
  MonotonicTime called = clock.Now();
  for (int calls = 0;; ++calls) {
    if (!Deactivate(pidfd, ranges, 1)) return false;
    const bool is_over = done_.load() == job;
    const MonotonicTime now = clock.Now();
    if (now >= end || now - called > kLongestGap) return false;
    called = now;
    if (is_over) return reached_ && calls >= kCallsThatTell;
    while (clock.Now() < now + kBetweenCalls) {
    }
  }
}

// Both threads must run at once. The recorder's threads may be kept off the CPUs of its targets
// (OwnCpus): the helper takes one of those for some 30 us. False: there is one CPU for all.
bool TranslationFlusher::KeepHelperApart() {
  cpu_set_t others;
  CPU_ZERO(&others);
  for (const CpuId cpu : CpusAtStart()) CPU_SET(cpu.value(), &others);
  CPU_CLR(::sched_getcpu(), &others);
  return CPU_COUNT(&others) > 0 && ::sched_setaffinity(thread_.load(), sizeof others, &others) == 0;
}

void TranslationFlusher::Help() {
  BePunctual("tmprof-flush");
  thread_.store(::gettid());
  thread_.notify_one();
  for (std::uint32_t job = 1;; ++job) {
    asked_.wait(job - 1);
    if (stopping_) return;
    const Ranges ranges = Repeated(page_);
    begun_.store(job);
    reached_ = Deactivate(pidfd_.get(), ranges, ranges.size());
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    cpu_ns_.store(used.tv_sec * std::int64_t{1'000'000'000} + used.tv_nsec);
    done_.store(job);
    done_.notify_one();
  }
}

}  // namespace tmprof::abit
