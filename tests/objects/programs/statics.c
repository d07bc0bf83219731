/* SPDX-License-Identifier: Apache-2.0 */
/* Accesses a variable, a thread's stack, an allocation and the variable of a library for 3 s. A
 * variable and a stack beside them are accessed once, before. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4 << 20, LINE_BYTES = 64, SECONDS = 3 };

static volatile char hot_table[BYTES];
static volatile char cold_table[BYTES];

static void touch(volatile char* memory, int bytes) {
  for (int i = 0; i < bytes; i += LINE_BYTES) ++memory[i];
}

static int is_over(void) {
  static struct timespec begin; /* when main() began */
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (begin.tv_sec == 0) begin = now;
  return now.tv_sec - begin.tv_sec >= SECONDS;
}

static void* hot_stack(void* argument) {
  volatile char buffer[BYTES];
  memset((char*)buffer, 1, BYTES);
  while (!is_over()) touch(buffer, BYTES);
  return argument;
}

static void* cold_stack(void* argument) {
  volatile char buffer[BYTES];
  touch(buffer, BYTES);
  while (!is_over()) nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
  return argument;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  volatile char* library_table = library != NULL ? dlsym(library, "library_table") : NULL;
  if (library_table == NULL) return 2;
  volatile char* allocated = malloc(BYTES);
  is_over();
  touch(cold_table, BYTES);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, hot_stack, NULL);
  pthread_create(&threads[1], NULL, cold_stack, NULL);
  pthread_setname_np(threads[0], "hot thread");
  pthread_setname_np(threads[1], "cold thread");
  while (!is_over()) {
    touch(hot_table, BYTES);
    touch(allocated, BYTES);
    touch(library_table, BYTES);
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
