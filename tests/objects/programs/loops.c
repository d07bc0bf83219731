/* SPDX-License-Identifier: Apache-2.0 */
/* Loops whose accesses can be counted by hand. As known.c. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tmprof/objects.h"

#define NOINLINE __attribute__((noinline))

static void say(const char* name, const void* object) {
  printf("%s %lu\n", name, (unsigned long)mem_access_count64(object));
}

/* Left in the midst: one read for each element up to the one that is found. */
NOINLINE static int find(const volatile int* array, int count, int value) {
  for (int i = 0; i < count; ++i) {
    if (array[i] == value) return i;
  }
  return -1;
}

/* The pointer begins behind the end: the object after it is not accessed. */
NOINLINE static long sum_backwards(const volatile int* end, int count) {
  long total = 0;
  for (int i = 1; i <= count; ++i) total += end[-i];
  return total;
}

/* Reads all of `which`, and writes to `to` where it is set. */
NOINLINE static void copy_some(const int* which, const int* from, int* to, int count) {
  for (int i = 0; i < count; ++i) {
    if (which[i] != 0) to[i] = from[i];
  }
}

/* Reads of `where`; and of `from`, at each of its values. */
NOINLINE static int gather(const int* where, const int* from, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i) total += from[where[i]];
  return total;
}

/* Reads and writes the first `count - late`: vectors whose first elements are masked lie before it.
 */
NOINLINE static void bump_late(int* array, int count, int late) {
  for (int i = 0; i < count; ++i) {
    if (i >= late) array[i - late] += 1;
  }
}
static int shifted[1024]; /* an address before it is not in its slot */
static int* volatile shifted_by_pointer = shifted;

/* Each row read once and written once; the table of rows read. */
NOINLINE static void scale(volatile int** rows, int height, int width) {
  for (int y = 0; y < height; ++y) {
    volatile int* row = rows[y];
    for (int x = 0; x < width; ++x) row[x] = row[x] * 2;
  }
}

/* Only the loop decides which of the two it is. */
NOINLINE static void alternate(volatile int* one, volatile int* other, int count) {
  for (int i = 0; i < count; ++i) *(i % 3 == 0 ? one : other) = i;
}

struct item {
  volatile long key;
  struct item* volatile next;
};

/* The key of each item up to the one that is found, the link of each but that one. */
NOINLINE static struct item* walk(struct item* at, long key) {
  while (at != NULL && at->key != key) at = at->next;
  return at;
}

/* All links, and keys alone of those after the first; two ways to leave. */
NOINLINE static long walk_to_end(struct item* first, long limit) {
  long keys = 0;
  for (struct item* at = first->next; at != NULL; at = at->next) {
    keys += at->key;
    if (keys > limit) break;
  }
  return keys;
}

/* Words of 8 bytes, none of the empty copies. */
NOINLINE static void copy_growing(char* to, const char* from, int count) {
  for (int i = 0; i < count; ++i) __builtin_memcpy(to, from, (size_t)i * 8);
}

/* A call that might free ends each count. */
NOINLINE static void call_between(volatile int* at, int count, void (*call)(void)) {
  for (int i = 0; i < count; ++i) {
    ++*at;
    call();
  }
}
static void nothing(void) {}

static volatile long counters[4];
NOINLINE static void count_in_variable(int count) {
  for (int i = 0; i < count; ++i) ++counters[i % 4];
}

static void* sum_in_thread(void* array) { return find(array, 1000, -1) == -1 ? NULL : array; }

/* Left by a switch, to two places and from two depths. */
NOINLINE static int parse(const volatile char* text) {
  int words = 0;
  while (1) {
    switch (*text++) {
      case 0:
        return words;
      case ' ':
        ++words;
        break;
      case '!':
        return -words;
      case '(':
        while (*text != ')') {
          if (*text == 0) return -1000;
          ++text;
        }
        break;
      default:
        break;
    }
  }
}

struct state {
  struct state* _Atomic next[2];
};

/* One read of the text and of a state for each byte. */
NOINLINE static struct state* step(struct state* at, const char* text, int count) {
  for (int i = 0; i < count; ++i) {
    at = atomic_load_explicit(&at->next[text[i] == 'a'], memory_order_acquire);
  }
  return at;
}

int main(void) {
  enum { COUNT = 1000 };
  int* array = calloc(COUNT, sizeof(*array));
  int* beside = calloc(COUNT, sizeof(*beside));
  array[99] = 7;
  mem_access_reset();
  if (find(array, COUNT, 7) != 99) return 1;
  say("found", array);
  find(array, COUNT, 8);
  say("not-found", array);
  find(NULL, 0, 7);

  /* Fills its slot: what is behind its end is another's. */
  int* whole = malloc(96);
  int* after = malloc(96);
  memset(whole, 0, 96);
  mem_access_reset();
  sum_backwards(whole + 24, 24);
  say("backwards", whole);
  say("behind", after);

  for (int i = 0; i < COUNT; ++i) array[i] = i % 10 == 0;
  int* chosen = calloc(COUNT, sizeof(*chosen));
  mem_access_reset();
  copy_some(array, beside, chosen, COUNT);
  say("which", array);
  say("copied-from", beside);
  say("copied-to", chosen);

  for (int i = 0; i < COUNT; ++i) array[i] = i % 7;
  mem_access_reset();
  if (gather(array, beside, COUNT) != 0) return 1;
  say("where", array);
  say("gathered", beside);

  bump_late(shifted_by_pointer, 1024, 1021); /* which the test reads in the file */

  volatile int** rows = malloc(5 * sizeof(*rows));
  for (int y = 0; y < 5; ++y) rows[y] = calloc(20, sizeof(int));
  mem_access_reset();
  scale(rows, 5, 20);
  scale(rows, 0, 20);
  say("rows", rows);
  say("row", (void*)rows[4]);

  mem_access_reset();
  alternate(array, beside, 30);
  say("one", array);
  say("other", beside);

  struct item* items[10];
  for (int i = 9; i >= 0; --i) {
    items[i] = malloc(sizeof(*items[i]));
    items[i]->key = i;
    items[i]->next = i < 9 ? items[i + 1] : NULL;
  }
  mem_access_reset();
  if (walk(items[0], 6) != items[6] || walk(items[0], 100) != NULL) return 1;
  say("passed-twice", items[0]);
  say("found-once", items[6]);
  say("last", items[9]);
  mem_access_reset();
  if (walk_to_end(items[0], 1000) != 45 || walk_to_end(items[0], 5) != 6) return 1;
  say("first-link", items[0]);
  say("left-at", items[3]);
  say("before-end", items[8]);

  mem_access_reset();
  copy_growing((char*)array, (const char*)beside, 10);
  say("grown-to", array);
  say("grown-from", beside);

  mem_access_reset();
  call_between(array, 10, nothing);
  say("called-between", array);

  count_in_variable(1000); /* which the test reads in the file */

  mem_access_reset();
  pthread_t threads[4];
  for (int t = 0; t < 4; ++t) pthread_create(&threads[t], NULL, sum_in_thread, array);
  for (int t = 0; t < 4; ++t) pthread_join(threads[t], NULL);
  say("threads", array);

  char* text = strdup("one (two three) four!");
  mem_access_reset();
  if (parse(text) != -2) return 1;
  say("parsed", text);

  struct state* even = malloc(sizeof(*even));
  struct state* odd = malloc(sizeof(*odd));
  even->next[0] = odd->next[1] = even;
  even->next[1] = odd->next[0] = odd;
  char* steps = malloc(30);
  for (int i = 0; i < 30; ++i) steps[i] = i % 3 == 2 ? 'b' : 'a';
  mem_access_reset();
  if (step(even, steps, 30) != even) return 1;
  say("steps", steps);
  say("even", even);
  say("odd", odd);
  return 0;
}
