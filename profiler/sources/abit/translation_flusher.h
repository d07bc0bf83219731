// SPDX-License-Identifier: Apache-2.0
// Makes the CPUs forget the translations of another process.

#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/unique_fd.h"

namespace tmprof::abit {

// No system call flushes another process's translations for its own sake. But a call that puts off
// its flush to its end (struct mmu_gather) flushes all of them if another such call is under way in
// the same address space, even if neither has changed an entry (tlb_finish_mmu() in
// mm/mmu_gather.c, Linux 4.14 to 6.18). So two threads call process_madvise(MADV_COLD) for one page
// at the same time. The page is of the kernel's own code, which is mapped in all processes, so that
// MADV_COLD leaves its accessed bit alone.
//
// Not thread-safe.
class TranslationFlusher {
 public:
  TranslationFlusher() = default;
  TranslationFlusher(const TranslationFlusher&) = delete;
  TranslationFlusher& operator=(const TranslationFlusher&) = delete;
  ~TranslationFlusher();

  // `page`: the address of a page that MADV_COLD accepts. False: the flush may not have happened,
  // because the second thread got no CPU of its own soon enough, or the kernel refused. Takes some
  // 100 us, and at most a millisecond.
  bool Flush(int pidfd, std::uint64_t page);

  std::chrono::nanoseconds HelperCpuTime() const {
    return std::chrono::nanoseconds(cpu_ns_.load(std::memory_order_relaxed));
  }

 private:
  bool Try(int pidfd, std::uint64_t page);
  bool KeepHelperApart();
  void Help();

  std::thread helper_;            // runs since the first Flush()
  std::atomic<pid_t> thread_{0};  // its number
  // Jobs are numbered from 1. What a job is about belongs to the helper from `asked_` to `done_`.
  std::atomic<std::uint32_t> asked_{0};
  std::atomic<std::uint32_t> begun_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::int64_t> cpu_ns_{0};
  UniqueFd pidfd_;
  std::uint64_t page_ = 0;
  bool reached_ = false;
  bool stopping_ = false;
};

}  // namespace tmprof::abit
