/* SPDX-License-Identifier: Apache-2.0 */
/* The interface as C has it: an array of structures, walked by element and in the middle. */

#include "objects/include/tmprof/objects.h"

struct point {
  int x, y, z;
};

int c_walk(int points) {
  struct point* array = hcalloc((size_t)points, sizeof(*array));
  if (array == NULL) return -1;
  for (int i = 0; i < points; ++i) {
    mem_access(&array[i].y, 1);
    array[i].y = i;
  }
  const int count = mem_access_count(array);
  hfree(array);
  return count;
}
