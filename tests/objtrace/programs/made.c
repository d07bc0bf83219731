/* SPDX-License-Identifier: Apache-2.0 */
/* A library that allocates. */

#include <stdlib.h>

void* library_make(size_t bytes);
void* library_make(size_t bytes) {
  void* volatile made = malloc(bytes);
  return made;
}
