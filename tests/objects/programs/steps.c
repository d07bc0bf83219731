/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the counts of an object at the places where steps.ll calls. */

#include <stdio.h>
#include <stdlib.h>

#include "tmprof/objects.h"

struct node {
  struct node* next;
  long key;
};

void publish(int* at, long count);
void walk(struct node* first);
void walk_late(struct node* first);

void step(const void* at) { printf(" %lu", (unsigned long)mem_access_count64(at)); }

static struct node* new_node(struct node* next, long key) {
  struct node* node = malloc(sizeof(*node));
  node->next = next;
  node->key = key;
  return node;
}

int main(void) {
  int* array = calloc(4, sizeof(*array));
  struct node* nodes = new_node(new_node(new_node(NULL, 0), 1), 1);
  mem_access_reset();
  printf("publish");
  publish(array, 3);
  printf("\nwalk");
  walk(nodes);
  mem_access_reset();
  printf("\nwalk-late");
  walk_late(nodes);
  printf("\n");
  return 0;
}
