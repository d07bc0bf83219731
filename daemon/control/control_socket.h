// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the control socket: made, held and removed.

#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace tmprof {

class ControlSocket {
 public:
  // Errors are those of ControlServer::Start().
  static Result<ControlSocket> Listen(std::string path);

  ControlSocket(ControlSocket&& other) noexcept = default;
  ControlSocket& operator=(ControlSocket&&) = delete;
  ~ControlSocket();  // removes the socket, unless another one is there by now

  int fd() const { return listener_.get(); }
  const std::string& path() const { return path_; }

 private:
  ControlSocket(std::string path, UniqueFd lock, UniqueFd listener)
      : path_(std::move(path)), lock_(std::move(lock)), listener_(std::move(listener)) {}

  std::string path_;
  UniqueFd lock_;
  UniqueFd listener_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace tmprof
