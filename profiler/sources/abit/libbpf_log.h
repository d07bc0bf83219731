// SPDX-License-Identifier: Apache-2.0
// What libbpf complains of while a program is loaded.

#pragma once

#include <string>

namespace tmprof::abit {

// While one lives, the first complaint in its thread is kept instead of printed. Once there was
// one, libbpf prints nothing any more. One at a time in each thread.
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
