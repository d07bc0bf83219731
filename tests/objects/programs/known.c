/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses that can be counted by hand. Prints "NAME COUNT" by what the runtime says; the test
 * knows what they must be. What must not be optimised away is volatile or passes through a call. */

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tmprof/objects.h"

#define NOINLINE __attribute__((noinline))

static void say(const char* name, const void* object) {
  printf("%s %lu\n", name, (unsigned long)mem_access_count64(object));
}

/* Each element written once: 1000, however wide the stores are. */
NOINLINE static void fill(int* array, int count) {
  for (int i = 0; i < count; ++i) array[i] = i;
}

/* Each element read once. */
NOINLINE static long sum(const int* array, int count) {
  long total = 0;
  for (int i = 0; i < count; ++i) total += array[i];
  return total;
}

struct particle {
  volatile double x, y, z;
  volatile int charge;
};

/* Per particle: x is read and written, y written, charge read: 4. */
NOINLINE static void move(struct particle* all, int count) {
  for (int i = 0; i < count; ++i) {
    all[i].x = all[i].x + 1;
    all[i].y = all[i].charge;
  }
}

struct columns {
  volatile double *x, *y;
};

/* A round reads 2 pointers of the structure, and accesses x and y once each. */
NOINLINE static void add_columns(struct columns* of, int count) {
  for (int i = 0; i < count; ++i) of->y[i] = of->x[i];
}

/* 100 bytes: 13 words of each. */
NOINLINE static void copy_constant(char* to, const char* from) { __builtin_memcpy(to, from, 100); }

NOINLINE static void bump(volatile int* at) { *at = *at + 1; }

static jmp_buf jump;
NOINLINE static void write_and_jump(volatile int* at) {
  at[0] = 1;
  longjmp(jump, 1);
}
/* 1 before the call, which does not return, and none after. */
NOINLINE static void jump_between(volatile int* at) {
  write_and_jump(at);
  at[1] = 2;
  at[2] = 3;
}

struct shared {
  volatile int* array;
  int rounds;
};
static void* count_in_thread(void* context) {
  struct shared* shared = context;
  for (int i = 0; i < shared->rounds; ++i) bump(&shared->array[i % 16]);
  return NULL;
}

int main(void) {
  int* array = malloc(1000 * sizeof(*array));
  fill(array, 1000);
  say("array-filled", array);
  const long total = sum(array, 1000);
  say("array-summed", array + 500);
  if (total != 499500) return 1;
  free(array);

  struct particle* particles = calloc(100, sizeof(*particles));
  move(particles, 100);
  say("array-of-structures", particles);
  free(particles);

  struct columns* columns = malloc(sizeof(*columns));
  double* x = calloc(50, sizeof(double));
  double* y = calloc(50, sizeof(double));
  columns->x = x;
  columns->y = y;
  mem_access_reset();
  add_columns(columns, 50);
  say("structure-of-arrays-x", x);
  say("structure-of-arrays-y", y);
  free(x);
  free(y);
  free(columns);

  char* from = calloc(1, 200);
  char* to = malloc(200);
  copy_constant(to, from);
  say("copied-from", from);
  say("copied-to", to);
  free(from);
  free(to);

  volatile int* counter = calloc(4, sizeof(*counter));
  for (int i = 0; i < 10; ++i) bump(counter);
  say("bumped", (const void*)counter);
  mem_access_reset();
  if (setjmp(jump) == 0) jump_between(counter);
  say("longjmp", (const void*)counter);
  free((void*)counter);

  struct shared shared = {calloc(16, sizeof(int)), 10000};
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, count_in_thread, &shared);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  say("threads", (const void*)shared.array);
  free((void*)shared.array);
  return 0;
}
