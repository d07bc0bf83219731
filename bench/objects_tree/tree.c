/* SPDX-License-Identifier: Apache-2.0 */
/* The binary search tree of Tracer's evaluation: creation, random reads, updates, traversal.
 *
 * Usage: tree NODES READS UPDATES ROUNDS [SEQUENCE]
 * Each round's tree is another. Keys to read and update are drawn at random; with SEQUENCE, so many
 * that come again and again in the same order, which processors learn.
 * Prints a JSON object: nanoseconds per operation of each phase, the least of ROUNDS rounds, and a
 * sum that is the same for the same arguments. */

#include "bench/objects_tree/tree.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct node {
  long key;
  long value;
  struct node *left, *right;
};

static const uint64_t seed = 88172645463325252ULL;
static uint64_t state;
static uint64_t first_key; /* of this round's tree */
static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* The finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t mixed(uint64_t number) {
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ number >> 27) * 0x94d049bb133111ebULL;
  return number ^ number >> 31;
}

/* A number below `end` from 32 random bits. It avoids a division, which would hide the cost of a
 * search. */
static long below(uint64_t random, long end) {
  return (long)((random & UINT32_MAX) * (uint64_t)end >> 32);
}

/* Key of the i-th node: in no order, and each once. */
static long key_of(long i, long nodes) {
  return below(mixed(first_key + (uint64_t)i), nodes) * nodes + i;
}

static long any_key(long done, long sequence, long nodes) {
  if (sequence > 0 && done % sequence == 0) state = seed;
  return key_of(below(next_random(), nodes), nodes);
}

/* CPU time of this process: neighbours take the CPU, too. */
static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static struct node* insert(struct node** root, long key) {
  struct node** at = root;
  while (*at != NULL) at = key < (*at)->key ? &(*at)->left : &(*at)->right;
  struct node* made = tree_allocate(sizeof(*made));
  if (made == NULL) abort();
  made->key = key;
  made->value = key ^ 1;
  made->left = made->right = NULL;
  *at = made;
  return made;
}

static struct node* find(struct node* at, long key) {
  while (at->key != key) at = key < at->key ? at->left : at->right;
  return at;
}

static long sum(const struct node* at) {
  return at == NULL ? 0 : sum(at->left) + at->value + sum(at->right);
}

static void release(struct node* at) {
  if (at == NULL) return;
  release(at->left);
  release(at->right);
  tree_free(at, sizeof(*at));
}

enum { CREATE, READ, UPDATE, TRAVERSE, PHASES };

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  const long nodes = atol(argv[1]);
  const long reads = atol(argv[2]);
  const long updates = atol(argv[3]);
  const int rounds = atoi(argv[4]);
  const long sequence = argc == 6 ? atol(argv[5]) : 0;
  double least[PHASES] = {1e300, 1e300, 1e300, 1e300};
  long check = 0;
  for (int round = 0; round < rounds; ++round) {
    state = seed;
    first_key = 1 + (uint64_t)round * (uint64_t)nodes;
    struct node* root = NULL;
    double start = now_ns();
    for (long i = 0; i < nodes; ++i) {
      insert(&root, key_of(i, nodes));
    }
    double taken[PHASES];
    taken[CREATE] = (now_ns() - start) / (double)nodes;

    start = now_ns();
    for (long done = 0; done < reads; ++done) {
      check += find(root, any_key(done, sequence, nodes))->value;
    }
    taken[READ] = (now_ns() - start) / (double)reads;

    start = now_ns();
    for (long done = 0; done < updates; ++done) {
      struct node* found = find(root, any_key(done, sequence, nodes));
      ++found->value;
    }
    taken[UPDATE] = (now_ns() - start) / (double)updates;

    start = now_ns();
    check += sum(root);
    taken[TRAVERSE] = (now_ns() - start) / (double)nodes;
    release(root);
    for (int phase = 0; phase < PHASES; ++phase) {
      if (taken[phase] < least[phase]) least[phase] = taken[phase];
    }
  }
  printf(
      "{\"create\": %.2f, \"read\": %.2f, \"update\": %.2f, \"traverse\": %.2f, \"check\": %ld}\n",
      least[CREATE], least[READ], least[UPDATE], least[TRAVERSE], check);
  return 0;
}
