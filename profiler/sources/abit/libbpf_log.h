// SPDX-License-Identifier: Apache-2.0
// Keeps what libbpf complains of while a program is loaded.

#pragma once

#include <string>

namespace tmprof::abit {

// An object keeps the first complaint of its thread, which libbpf would print otherwise. After the
// first object libbpf prints nothing any more. Each thread has one at a time.
class LibbpfLog {
 public:
  LibbpfLog();
  LibbpfLog(const LibbpfLog&) = delete;
  LibbpfLog& operator=(const LibbpfLog&) = delete;
  ~LibbpfLog();

  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

}  // namespace tmprof::abit
