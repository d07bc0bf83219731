// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace tmprof::abit {

// Memory of a BPF map.
class MapView {
 public:
  MapView() = default;
  MapView(const MapView&) = delete;
  MapView& operator=(const MapView&) = delete;
  ~MapView() {
    if (address_ != nullptr) ::munmap(address_, bytes_);
  }
  // Call it once. False: errno says why.
  bool Map(int fd, std::size_t bytes, int protection = PROT_READ) {
    void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) return false;
    address_ = address;
    bytes_ = bytes;
    return true;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tmprof::abit
