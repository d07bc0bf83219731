/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that all live at once: a list of 16 bytes each, written and walked once.
 *
 * Usage: live OBJECTS
 * Prints a JSON object: the sum of what the list holds, and the memory that it took at its peak. */

#include <stdio.h>
#include <stdlib.h>

struct node {
  struct node* next;
  unsigned long value;
};

/* Peak memory of this program since it began, and of none that started it; proc(5). */
static long peak_kib(void) {
  char line[256];
  long kib = -1;
  FILE* status = fopen("/proc/self/status", "r");

  while (status != NULL && fgets(line, sizeof(line), status) != NULL)
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  if (status != NULL) fclose(status);
  return kib;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const unsigned long objects = strtoul(argv[1], NULL, 10);
  const long before_kib = peak_kib();
  struct node* first = NULL;
  for (unsigned long i = 0; i < objects; ++i) {
    struct node* made = malloc(sizeof(*made));
    if (made == NULL) {
      fprintf(stderr, "live: no memory for object %lu\n", i);
      return 1;
    }
    made->next = first;
    made->value = i;
    first = made;
  }
  unsigned long sum = 0;
  for (const struct node* at = first; at != NULL; at = at->next) sum += at->value;
  printf("{\"sum\": %lu, \"peak_kib\": %ld}\n", sum, peak_kib() - before_kib);
  return 0;
}
