// SPDX-License-Identifier: Apache-2.0
// Memory to try things on.

#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace tmprof::abit {

// `flags`: MAP_SHARED or MAP_PRIVATE.
class AnonymousMemory {
 public:
  AnonymousMemory(std::size_t bytes, int flags)
      : bytes_(bytes),
        address_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0)) {}
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;
  ~AnonymousMemory() {
    if (valid()) ::munmap(address_, bytes_);
  }
  bool valid() const { return address_ != MAP_FAILED; }
  void* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* address_;
};

}  // namespace tmprof::abit
