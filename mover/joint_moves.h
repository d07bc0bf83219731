// SPDX-License-Identifier: Apache-2.0
// Checks the privilege to move a page for all processes that map it.

#pragma once

#include "base/result.h"

namespace tmprof {

// Asks the kernel by a call of move_pages(2) with MPOL_MF_MOVE_ALL and no page. Fails with EPERM
// without CAP_SYS_NICE in the initial user namespace (mm/migrate.c, kernel_move_pages()).
Status MayMoveJointPages();

}  // namespace tmprof
