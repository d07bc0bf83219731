/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that counts in a loop and tells others how far it is: what it has counted is there then.
 * Prints each way to tell, and whether it was so. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tmprof/objects.h"

enum { WORDS = 1024, ROUNDS = 20000000, SOON = 1000 };

static _Atomic long told;
static _Atomic bool ends;

static void* by_store(void* array) {
  long* words = array;
  for (long i = 1; i <= ROUNDS; ++i) {
    words[i % WORDS] += 1;
    atomic_store_explicit(&told, i, memory_order_release);
  }
  return NULL;
}

static void* by_addition(void* array) {
  long* words = array;
  for (long i = 1; i <= ROUNDS; ++i) {
    words[i % WORDS] += 1;
    atomic_fetch_add_explicit(&told, 1, memory_order_release);
  }
  return NULL;
}

static void* by_fence(void* array) {
  long* words = array;
  for (long i = 1; i <= ROUNDS; ++i) {
    words[i % WORDS] += 1;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&told, i, memory_order_relaxed);
  }
  return NULL;
}

/* Tells nobody, but may go on for ever. */
static void* until_told(void* array) {
  long* words = array;
  for (long i = 0; !atomic_load_explicit(&ends, memory_order_acquire); ++i) words[i % WORDS] += 1;
  return NULL;
}

/* The same by way of pointers that are read anew. */
static struct {
  struct {
    long padding;
    _Atomic bool* ends;
  }* told;
} context;
static void* until_told_in_context(void* array) {
  long* words = array;
  for (long i = 0; !atomic_load_explicit(context.told->ends, memory_order_acquire); ++i) {
    words[i % WORDS] += 1;
  }
  return NULL;
}

static void check(const char* way, void* (*run)(void*), bool (*is_there)(const void* array)) {
  long* words = calloc(WORDS, sizeof(*words));
  pthread_t thread;
  told = 0;
  pthread_create(&thread, NULL, run, words);
  printf("%s %s\n", way, is_there(words) ? "there" : "not yet");
  ends = true;
  pthread_join(thread, NULL);
}

/* A load and a store for each round. */
static bool is_all_there(const void* array) {
  while (atomic_load_explicit(&told, memory_order_acquire) < SOON) continue;
  const long rounds = atomic_load_explicit(&told, memory_order_acquire);
  return mem_access_count64(array) >= 2 * (unsigned long)rounds;
}

static bool is_some_there(const void* array) {
  const time_t patience_s = 10;
  const time_t begin = time(NULL);
  while (mem_access_count64(array) < SOON) {
    if (time(NULL) - begin > patience_s) return false;
  }
  return true;
}

int main(void) {
  check("store", by_store, is_all_there);
  check("addition", by_addition, is_all_there);
  check("fence", by_fence, is_all_there);
  ends = false;
  check("poll", until_told, is_some_there);
  context.told = malloc(sizeof(*context.told));
  context.told->ends = &ends;
  ends = false;
  check("poll-by-pointers", until_told_in_context, is_some_there);
  return 0;
}
