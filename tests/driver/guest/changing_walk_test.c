// SPDX-License-Identifier: Apache-2.0
/* Page tables whose entries change while the driver walks them: see tests/driver/changing_walk. */

#include "tests/driver/guest/guest.h"

static long result(const char* name) {
  char path[128], text[32] = "";
  FILE* file;

  snprintf(path, sizeof(path), "/sys/module/changing_walk/parameters/%s", name);
  file = fopen(path, "r");
  EXPECT(file != NULL && fgets(text, sizeof(text), file) != NULL);
  fclose(file);
  return strtol(text, NULL, 10);
}

/* Walks 512 pages of `memory` while the entry of their table changes so often. */
static void walk(volatile char* memory, int changes) {
  char command[128];

  snprintf(command, sizeof(command), "insmod changing_walk.ko pid=%d address=%lu changes=%d",
           getpid(), (unsigned long)memory, changes);
  EXPECT(system(command) == 0);
}

static void expect_seen(volatile char* memory, int changes, long present, long races) {
  walk(memory, changes);
  EXPECT_EQ(result("present"), present);
  EXPECT_EQ(result("races"), races);
  EXPECT(system("rmmod changing_walk") == 0);
}

static void a_table_that_changed_is_looked_at_again(void) {
  volatile char* memory = map_aligned(PAGES_PER_HUGE * PAGE, MADV_NOHUGEPAGE);

  touch(memory, PAGES_PER_HUGE, 1);
  expect_seen(memory, 0, PAGES_PER_HUGE, 0);
  expect_seen(memory, 1, PAGES_PER_HUGE, 0);
  expect_seen(memory, 3, PAGES_PER_HUGE, 0);
}

static void a_table_that_keeps_changing_is_a_race(void) {
  volatile char* memory = map_aligned(PAGES_PER_HUGE * PAGE, MADV_NOHUGEPAGE);

  touch(memory, PAGES_PER_HUGE, 1);
  expect_seen(memory, 1000, 0, 1);
}

int main(void) {
  RUN(a_table_that_changed_is_looked_at_again);
  RUN(a_table_that_keeps_changing_is_a_race);
  return 0;
}
