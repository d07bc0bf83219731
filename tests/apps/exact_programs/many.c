// SPDX-License-Identifier: Apache-2.0
/*
 * many threads: 20 times, four threads at once each load 5000 times from a page of their own and
 * 5000 times from one of all. The pages are 0x10000 (all) and 0x10001 to 0x10004. many forks: the
 * parent loads 6000 times from page 0x10000 and each of three children, one after the other, 1000,
 * 2000 and 3000 times; the last is a child's child.
 * many crash: 4000 loads from page 0x10000, and one from page 0, where there is none.
 * many killed: a child loads 1000 times from page 0x10000 and kills itself, then its parent 2000.
 * many orphan: the parent loads 1000 times from page 0x10000 and ends; then its child loads 2000
 * times and becomes `many loads`, which loads 3000 times.
 * many execs: a child loads 2000 times from page 0x10000, then its parent 1000, and each of them
 * becomes `many loads`.
 * many survivor FIFO: the parent ends with status 3; then its child interrupts whoever started the
 * parent, and stays until somebody writes to the FIFO.
 * many watched FILE: the parent waits for its child, which loads from page 0x10000 until FILE has
 * grown three times.
 * many fails: loads 1000 times from page 0x10000 and executes a program with an argument that the
 * kernel refuses as too long; then it loads 100 times every 10 ms, 20 times in all.
 * many sparse: from each of 700 pages, 1 GiB apart from page 0x100000000 on, 1 to 7 loads in turn,
 * and that three times over; then 1000 times one load from the first and one from the second of
 * them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4, ROUNDS = 20, LOADS = 5000 };

// In C no compiler but GCC takes a section's type.
__asm__(
    ".section .counted, \"aw\", @nobits\n"
    ".balign 4096\n"
    "counted: .zero 5 * 4096\n"
    ".previous\n");
_Static_assert((1 + THREADS) * PAGE == 5 * 4096, "as above");
extern char counted[(1 + THREADS) * PAGE];

static void load(const char* page, uint64_t times) {
  __asm__ volatile("1: mov (%1), %%eax\n dec %0\n jnz 1b" : "+r"(times) : "r"(page) : "rax", "cc");
}

static void* run_thread(void* page) {
  load(counted, LOADS);
  load(page, LOADS);
  return NULL;
}

static int run_threads(void) {
  for (int round = 0; round < ROUNDS; ++round) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i)
      if (pthread_create(&threads[i], NULL, run_thread, counted + (1 + i) * PAGE) != 0) return 1;
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  }
  return 0;
}

static void wait_for(pid_t child) {
  int status;
  while (child > 0 && waitpid(child, &status, 0) < 0) continue;
}

static int run_forks(void) {
  load(counted, 1000);
  pid_t child = fork();
  if (child == 0) {
    load(counted, 1000);
    _exit(0);
  }
  wait_for(child);
  child = fork();
  if (child == 0) {
    load(counted, 2000);
    child = fork();
    if (child == 0) {
      load(counted, 3000);
      _exit(0);
    }
    wait_for(child);
    _exit(0);
  }
  wait_for(child);
  load(counted, 5000);
  return 0;
}

static int run_sparse(void) {
  enum { PAGES = 700 };
  static const char* page[PAGES];
  for (uint64_t i = 0; i < PAGES; ++i) {
    char* const there = (char*)((0x100000000ull << 12) + (i << 30));
    page[i] = mmap(there, PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page[i] != there) return 1;
  }
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < PAGES; ++i) load(page[i], 1 + i % 7);
  for (int i = 0; i < 1000; ++i) {
    load(page[0], 1);
    load(page[1], 1);
  }
  return 0;
}

static off_t size_of(const char* file) {
  struct stat status;
  if (stat(file, &status) != 0) _exit(1);
  return status.st_size;
}

static int run_watched(const char* file) {
  const pid_t child = fork();
  if (child == 0) {
    off_t size = size_of(file);
    for (int growths = 0; growths < 3;) {
      load(counted, 1000);
      const off_t now = size_of(file);
      growths += now > size;
      size = now;
    }
    _exit(0);
  }
  wait_for(child);
  return 0;
}

static int run_killed(void) {
  const pid_t child = fork();
  if (child == 0) {
    load(counted, 1000);
    kill(getpid(), SIGKILL);
  }
  wait_for(child);
  load(counted, 2000);
  return 0;
}

/* Returns in the child when the parent has ended. */
static void outlive_parent(int parents_status) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) _exit(1);
  if (fork() != 0) {
    load(counted, 1000);
    _exit(parents_status);
  }
  close(ends[1]);
  if (read(ends[0], &byte, 1) != 0) _exit(1);
}

static int run_survivor(const char* fifo) {
  const pid_t starter = getppid();
  outlive_parent(3);
  kill(starter, SIGINT);
  char byte;
  return read(open(fifo, O_RDONLY), &byte, 1) != 1;
}

static int become_loads(char* program) {
  char* arguments[] = {program, "loads", NULL};
  execv(program, arguments);
  return 1;
}

static int run_orphan(char* program) {
  outlive_parent(0);
  load(counted, 2000);
  return become_loads(program);
}

static int run_fails(char* program) {
  static char long_argument[200 << 10]; /* MAX_ARG_STRLEN is 128 KiB */
  char* arguments[] = {program, long_argument, NULL};
  memset(long_argument, 'x', sizeof(long_argument) - 1);
  load(counted, 1000);
  execv(program, arguments);
  for (int i = 0; i < 20; ++i) {
    load(counted, 100);
    usleep(10000);
  }
  return 0;
}

static int run_execs(char* program) {
  const pid_t child = fork();
  if (child != 0) wait_for(child);
  load(counted, child == 0 ? 2000 : 1000);
  return become_loads(program);
}

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "threads")) return run_threads();
  if (argc == 2 && !strcmp(argv[1], "forks")) return run_forks();
  if (argc == 2 && !strcmp(argv[1], "sparse")) return run_sparse();
  if (argc == 2 && !strcmp(argv[1], "killed")) return run_killed();
  if (argc == 2 && !strcmp(argv[1], "orphan")) return run_orphan(argv[0]);
  if (argc == 2 && !strcmp(argv[1], "execs")) return run_execs(argv[0]);
  if (argc == 2 && !strcmp(argv[1], "fails")) return run_fails(argv[0]);
  if (argc == 3 && !strcmp(argv[1], "survivor")) return run_survivor(argv[2]);
  if (argc == 3 && !strcmp(argv[1], "watched")) return run_watched(argv[2]);
  if (argc == 2 && !strcmp(argv[1], "loads")) {
    load(counted, 3000);
    return 0;
  }
  if (argc == 2 && !strcmp(argv[1], "crash")) {
    load(counted, 4000);
    load(NULL, 1);
  }
  return 2;
}
