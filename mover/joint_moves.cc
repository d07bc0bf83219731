// SPDX-License-Identifier: Apache-2.0

#include "mover/joint_moves.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace tmprof {

Status MayMoveJointPages() {
  if (::syscall(SYS_move_pages, /*pid=*/0, 0UL, nullptr, nullptr, nullptr, MPOL_MF_MOVE_ALL) == 0) {
    return {};
  }
  return Fail(Refused("move shared pages by", "move_pages(2)", errno,
                      "run tmprofd as root or with CAP_SYS_NICE, in the initial user namespace"));
}

}  // namespace tmprof
