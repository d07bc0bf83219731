// SPDX-License-Identifier: Apache-2.0
/* A kernel under lockdown. There is no way back, so this program runs last in its machine. */

#include <sys/mount.h>

#include "tests/driver/guest/guest.h"

static const char* const kLockdown = "/sys/kernel/security/lockdown";

static void lock_down(const char* level) {
  FILE* file = fopen(kLockdown, "w");

  EXPECT(file != NULL && fputs(level, file) >= 0 && fclose(file) == 0);
}

static void integrity_leaves_the_driver_alone(void) {
  lock_down("integrity");
  close(open_session());
}

static void confidentiality_refuses_open_but_not_what_is_open(void) {
  int session = open_session();
  __u32 self = add_target(session, getpid());
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request),
                                          .target_id = self};

  lock_down("confidentiality");
  EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), EPERM);
  EXPECT(ioctl(session, TMPROF_IOC_GET_TARGET, &request) == 0);
  close(session);
}

int main(void) {
  if (mount("securityfs", "/sys/kernel/security", "securityfs", 0, NULL) != 0 && errno != EBUSY) {
    printf("skipped: this kernel has no securityfs\n");
    return 0;
  }
  if (access(kLockdown, W_OK) != 0) {
    printf("skipped: this kernel has no lockdown\n");
    return 0;
  }
  RUN(integrity_leaves_the_driver_alone);
  RUN(confidentiality_refuses_open_but_not_what_is_open);
  return 0;
}
