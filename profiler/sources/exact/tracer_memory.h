// SPDX-License-Identifier: Apache-2.0
// The memory that all processes of one exact recording share
// (profiler/sources/exact/plugin/format/exact_shared.h).

#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"

namespace tmprof::exact {

// A System V segment that is marked for removal from the start: the kernel frees it when the last
// process that has it attached ends, however that happens. While this object lives, processes that
// know its number can attach it.
class TracerMemory {
 public:
  // Zeroed, for a modelled cache of so many lines and sets; 0 and 0: without a cache.
  static Result<TracerMemory> Create(std::uint64_t lines, std::uint64_t sets);
  TracerMemory(TracerMemory&& other) noexcept
      : id_(other.id_), address_(std::exchange(other.address_, nullptr)) {}
  TracerMemory& operator=(TracerMemory&&) = delete;
  ~TracerMemory();

  int id() const { return id_; }

 private:
  TracerMemory(int id, void* address) : id_(id), address_(address) {}

  int id_;
  void* address_;
};

}  // namespace tmprof::exact
