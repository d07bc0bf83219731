// SPDX-License-Identifier: Apache-2.0

#include "tests/apps/refusal.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace tmprof::test {
namespace {

// Offsets of the low halves; x86-64 is little-endian.
constexpr unsigned kNumber = offsetof(seccomp_data, nr);
constexpr unsigned Argument(unsigned index) {
  return offsetof(seccomp_data, args) + index * unsigned{sizeof(__u64)};
}

sock_filter Load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter Return(unsigned verdict) { return BPF_STMT(BPF_RET | BPF_K, verdict); }

void Install(std::vector<sock_filter> filter) {
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(126);
}

// Refuses perf_event_open(attr, pid, cpu, group, flags) if the CPU is named and the process is
// `process`, or is not (`is_it`).
void RefuseSamplingWhere(pid_t process, bool is_it, int error) {
  constexpr unsigned kNoCpu = ~0U;
  const auto match = static_cast<unsigned char>(is_it ? 0 : 1);
  const auto other = static_cast<unsigned char>(is_it ? 1 : 0);
  Install({Load(kNumber), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 5),
           Load(Argument(2)), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNoCpu, 3, 0), Load(Argument(1)),
           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(process), match, other),
           Return(SECCOMP_RET_ERRNO | static_cast<unsigned>(error)), Return(SECCOMP_RET_ALLOW)});
}

}  // namespace

void RefuseSystemCall(int number, int error) {
  Install({Load(kNumber), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
           Return(SECCOMP_RET_ERRNO | static_cast<unsigned>(error)), Return(SECCOMP_RET_ALLOW)});
}

void RefuseSampling(pid_t process, int error) { RefuseSamplingWhere(process, true, error); }

void RefuseSamplingOfOthers(int error) { RefuseSamplingWhere(getpid(), false, error); }

}  // namespace tmprof::test
