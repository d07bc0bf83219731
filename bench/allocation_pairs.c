/* SPDX-License-Identifier: Apache-2.0 */
/* allocation_pairs BYTES PAIRS: CPU time of a malloc(3) and a free(3), in ns, of objects of which a
   few live at once. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LIVE = 64, WARM_PAIRS = 1000 };

static void* live[LIVE];

static void allocate(size_t bytes, unsigned long pairs) {
  for (unsigned long i = 0; i < pairs; ++i) {
    void** place = &live[i % LIVE];
    free(*place);
    void* volatile made = malloc(bytes); /* it is not left out */
    *place = made;
  }
}

static double cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const size_t bytes = strtoul(arguments[1], NULL, 10);
  const unsigned long pairs = strtoul(arguments[2], NULL, 10);
  if (pairs == 0) return 2;
  allocate(bytes, WARM_PAIRS);
  const double begin = cpu_ns();
  allocate(bytes, pairs);
  printf("%.3f\n", (cpu_ns() - begin) / (double)pairs);
  return 0;
}
