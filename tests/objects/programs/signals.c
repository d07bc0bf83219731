/* SPDX-License-Identifier: Apache-2.0 */
/* A signal handler that counts, after each instruction of what counts itself. Prints how often it
 * ran, and "NAME COUNT": each count must be ROUNDS more than that. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tmprof/objects.h"

#define NOINLINE __attribute__((noinline))

enum { ROUNDS = 10 };

static volatile int* own;
static volatile int* others; /* another thread's */
static volatile int* elements;
volatile int stepped_variable;
static unsigned long steps;

NOINLINE static void touch(volatile int* at) { *at = 1; }
NOINLINE static void touch_variable(void) { stepped_variable = 1; }

NOINLINE static void touch_all(void) {
  touch(own);
  touch(others);
  touch(elements);
  touch_variable();
}

static void count(int signal) {
  (void)signal;
  ++steps;
  touch_all();
}

static void* allocate(void* unused) {
  (void)unused;
  return calloc(4, sizeof(int));
}

/* Intel's manual, volume 3, 18.3.1.4: the processor traps after each instruction. */
static const unsigned long long TRAP_FLAG = 1 << 8;
static void single_step(int on) {
  const unsigned long long flags = __builtin_ia32_readeflags_u64();
  __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~TRAP_FLAG);
}

int main(void) {
  own = allocate(NULL);
  elements = calloc(1000, sizeof(int)); /* not beside the others */
  if (mem_access_by_element((void*)elements, sizeof(int)) != 0) return 1;
  pthread_t thread;
  void* allocated = NULL;
  pthread_create(&thread, NULL, allocate, NULL);
  pthread_join(thread, &allocated);
  others = allocated;
  struct sigaction action = {.sa_handler = count};
  sigaction(SIGTRAP, &action, NULL);
  mem_access_reset();
  single_step(1);
  for (int i = 0; i < ROUNDS; ++i) touch_all();
  single_step(0);
  printf("steps %lu\n", steps);
  printf("own %lu\n", (unsigned long)mem_access_count64((const void*)own));
  printf("others %lu\n", (unsigned long)mem_access_count64((const void*)others));
  printf("elements %lu\n", (unsigned long)mem_access_count64((const void*)elements));
  return 0;
}
