// SPDX-License-Identifier: Apache-2.0
// The privilege that moving a page for all processes that map it takes.

#pragma once

#include "base/result.h"

namespace tmprof {

// Asks the kernel by a call of move_pages(2) with MPOL_MF_MOVE_ALL for no page. Fails with EPERM
// without CAP_SYS_NICE in the initial user namespace (mm/migrate.c, kernel_move_pages()).
Status MayMoveJointPages();

}  // namespace tmprof
