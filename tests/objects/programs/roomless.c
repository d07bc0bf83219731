/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose statvfs(3) stands for libc's, for its tracker, too: after some allocations no
 * file system has room, and later all have. Prints how often it was asked while there was no room,
 * and for how many ms that was. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Volatile: malloc(3) is declared not to call back into this file. */
static volatile int has_room = 1;
static volatile unsigned asked;

int statvfs(const char* path, struct statvfs* filesystem) {
  (void)path;
  asked = asked + 1;
  memset(filesystem, 0, sizeof(*filesystem));
  filesystem->f_frsize = 4096;
  filesystem->f_blocks = 1 << 20;
  filesystem->f_bavail = has_room ? filesystem->f_blocks : 0;
  return 0;
}

static void allocate(int times, size_t bytes) {
  for (int i = 0; i < times; ++i) {
    void* const object = malloc(bytes);
    __asm__ volatile("" : : "r"(object) : "memory");
    free(object);
  }
}

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

int main(void) {
  allocate(10, 100001);
  has_room = 0;
  asked = 0;
  const long long start = now_ms();
  allocate(20000, 100002);
  const unsigned asked_without_room = asked;
  const long long took = now_ms() - start;
  has_room = 1;
  usleep(200000);
  allocate(100, 100003);
  printf("%u %lld\n", asked_without_room, took);
  return 0;
}
