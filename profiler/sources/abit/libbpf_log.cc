// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/libbpf_log.h"

#include <bpf/libbpf.h>

#include <cstdarg>
#include <cstdio>

namespace tmprof::abit {
namespace {

thread_local std::string* libbpf_log = nullptr;

int KeepLog(libbpf_print_level level, const char* format, va_list arguments) {
  if (libbpf_log == nullptr || level != LIBBPF_WARN) return 0;
  char line[512];
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  if (length > 0 && libbpf_log->empty()) {
    *libbpf_log = line;
    while (!libbpf_log->empty() && libbpf_log->back() == '\n') libbpf_log->pop_back();
  }
  return length;
}

}  // namespace

LibbpfLog::LibbpfLog() {
  libbpf_set_print(KeepLog);
  libbpf_log = &first_;
}

LibbpfLog::~LibbpfLog() { libbpf_log = nullptr; }

}  // namespace tmprof::abit
