// SPDX-License-Identifier: Apache-2.0
// A program of many threads that mostly sleep, for what a recording of it costs:
//   build/release/sleepers 500 & time build/release/tmprof record --duration 5s -p $!
// Each thread writes to 16 of its 64 pages and sleeps for 0.2 to 0.8 s, in turn. The main thread
// writes to pages of all of them, a third of the time.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kPage = 4096, kPagesOfEach = 64, kWrites = 16, kMostThreads = 10000, kStack = 64 << 10 };

static volatile char* memory;

static void Sleep(long ms) {
  const struct timespec time = {0, ms * 1000000};
  nanosleep(&time, NULL);
}

static void* RunThread(void* number) {
  volatile char* const own = memory + (size_t)number * kPagesOfEach * kPage;
  unsigned seed = (unsigned)(size_t)number;
  while (1) {
    for (int i = 0; i < kWrites; ++i) ++own[rand_r(&seed) % kPagesOfEach * kPage];
    Sleep(200 + rand_r(&seed) % 600);
  }
  return NULL;
}

int main(int argument_count, char** arguments) {
  const long threads = argument_count == 2 ? strtol(arguments[1], NULL, 10) : 0;
  if (threads < 1 || threads > kMostThreads) {
    fprintf(stderr, "usage: sleepers THREADS\n");
    return 2;
  }
  const size_t pages = (size_t)threads * kPagesOfEach;
  void* const all = aligned_alloc(kPage, pages * kPage);
  if (all == NULL) return 1;
  memset(all, 1, pages * kPage);
  memory = all;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  for (size_t i = 0; i < (size_t)threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, RunThread, (void*)i) != 0) return 1;
  }
  unsigned seed = 1;
  while (1) {
    for (int i = 0; i < 20000; ++i) ++memory[rand_r(&seed) % pages * kPage];
    Sleep(2);
  }
}
