// SPDX-License-Identifier: Apache-2.0
// Owns one file descriptor. Any negative number means none, such as the result of a failed call.

#pragma once

#include <unistd.h>

#include <utility>

namespace tmprof {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, kNone)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, kNone);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  int Release() { return std::exchange(fd_, kNone); }
  void Reset() {
    if (valid()) ::close(std::exchange(fd_, kNone));
  }

 private:
  static constexpr int kNone = -1;
  int fd_ = kNone;
};

}  // namespace tmprof
