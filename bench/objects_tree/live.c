/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that all live at once: a list of 16 bytes each, written and walked once.
 *
 * Usage: live OBJECTS
 * Prints a JSON object: the sum of what the list holds, and its peak memory. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct node {
  struct node* next;
  unsigned long value;
};

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const unsigned long objects = strtoul(argv[1], NULL, 10);
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
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"sum\": %lu, \"peak_kib\": %ld}\n", sum, usage.ru_maxrss);
  return 0;
}
