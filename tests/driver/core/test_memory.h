// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>

#include "driver/core/memory.h"

namespace tmprof {

/** Malloc for the driver's stores, failing on order, and knowing what was not given back. */
class TestMemory {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  explicit TestMemory(std::uint64_t limit_bytes = kNever) {
    memory_.allocate = &Allocate;
    memory_.release = &Release;
    memory_.context = this;
    memory_.limit_bytes = limit_bytes;
  }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  ~TestMemory() {
    for (const auto& [block, bytes] : live_) std::free(block);
  }

  tmprof_memory* get() { return &memory_; }
  [[nodiscard]] std::size_t live_blocks() const { return live_.size(); }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  [[nodiscard]] bool released_as_allocated() const { return released_as_allocated_; }

  /** The allocation that has this number, counted from 0 now on, fails; once. */
  void FailAllocation(std::uint64_t number) { fail_at_ = allocations_ + number; }

 private:
  static void* Allocate(void* context, std::size_t bytes) {
    auto* self = static_cast<TestMemory*>(context);
    if (self->allocations_++ == self->fail_at_) return nullptr;
    void* block = std::malloc(bytes);
    self->live_[block] = bytes;
    return block;
  }
  static void Release(void* context, void* block, std::size_t bytes) {
    auto* self = static_cast<TestMemory*>(context);
    const auto found = self->live_.find(block);
    if (found == self->live_.end() || found->second != bytes) {
      self->released_as_allocated_ = false;
      return;
    }
    self->live_.erase(found);
    std::free(block);
  }

  tmprof_memory memory_{};
  std::map<void*, std::size_t> live_;
  std::uint64_t allocations_ = 0;
  std::uint64_t fail_at_ = kNever;
  bool released_as_allocated_ = true;
};

}  // namespace tmprof
