/* SPDX-License-Identifier: Apache-2.0 */
/* A program with a library of its own, instrumented or not, and a child. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tmprof/objects.h"

void part_write(volatile int* at, int times);

volatile int whole_calls = 0;

int main(void) {
  volatile int* array = calloc(4, sizeof(*array));
  part_write(array, 40);
  printf("library %lu\n", (unsigned long)mem_access_count64((const void*)array));
  whole_calls = 1;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    whole_calls = 2;
    return 0;
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
