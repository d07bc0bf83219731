// SPDX-License-Identifier: Apache-2.0
/*
 * Programs whose misses and waiting for memory are known. Each mode works on 64 pages of 64 lines
 * at an address of its own, of a cache that all of them fit into.
 *
 * memory inherits: the parent writes each line of PRIVATE, OVERWRITTEN and SHARED, of which SHARED
 * is mapped shared. Then its child reads each line of PRIVATE and SHARED, and writes each line of
 * OVERWRITTEN and SHARED; last the parent reads all lines.
 * memory file FILE: reads each line of FILE, mapped shared at SHARED, and becomes `memory again
 * FILE`, which reads them at ELSEWHERE.
 * memory chase: reads each line of CHASED once, in an order in which each line has the next one's
 * address. memory scattered: in the same order, which is computed; no line has an address. memory
 * stream: ascending.
 * memory gathers: reads each line of PRIVATE, writes it by non-temporal stores, eight to a line,
 * and reads it again. memory fills: the same with ordinary stores. memory rounds: reads each line
 * of PRIVATE, four times over; then a thread does so once.
 * memory strays: for a cache of one set of 16 lines. Reads the lines of CHASED ascending, those of
 * the 8th page after it in an order that is no stream, and those of CHASED in that order.
 * memory hides: for the same cache. The lines of two pages, CHASED and the 8th after it, take each
 * other's places in the L1. In each of 1 000 000 rounds, the first 3 lines of both are read, which
 * stay in the cache, and then 10 more of one page. Each of these misses, and a stream has asked for
 * it.
 * memory renews: writes each line of PRIVATE by a non-temporal store and reads it, three times over
 * before the next line.
 * memory kills: 200 children read lines of PRIVATE until their parent, at no fixed moment, kills
 * them; it reads each line once for each of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, PAGES = 64, BYTES = PAGES * 4096, LINES = BYTES / LINE };

static char* const PRIVATE = (char*)0x20000000;
static char* const OVERWRITTEN = (char*)0x21000000;
static char* const SHARED = (char*)0x22000000;
static char* const ELSEWHERE = (char*)0x23000000;
static char* const CHASED = (char*)0x24000000;

static void map(char* at, int flags, int fd) {
  if (mmap(at, BYTES, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, fd, 0) != at) _exit(2);
}

static void read_line(const char* line) {
  __asm__ volatile("mov (%0), %%rax" : : "r"(line) : "rax");
}

static void read_lines(const char* at) {
  for (int i = 0; i < LINES; ++i) read_line(at + i * LINE);
}

static void write_lines(char* at) {
  for (int i = 0; i < LINES; ++i)
    __asm__ volatile("mov %0, (%0)" : : "r"(at + i * LINE) : "memory");
}

static int run_inherits(void) {
  map(PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  map(OVERWRITTEN, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  map(SHARED, MAP_SHARED | MAP_ANONYMOUS, -1);
  write_lines(PRIVATE);
  write_lines(OVERWRITTEN);
  write_lines(SHARED);
  const pid_t child = fork();
  if (child == 0) {
    read_lines(PRIVATE);
    read_lines(SHARED);
    write_lines(OVERWRITTEN);
    write_lines(SHARED);
    _exit(0);
  }
  int status;
  while (waitpid(child, &status, 0) < 0) continue;
  read_lines(PRIVATE);
  read_lines(OVERWRITTEN);
  read_lines(SHARED);
  return status;
}

static int run_file(char* program, char* file, int again) {
  map(again ? ELSEWHERE : SHARED, MAP_SHARED, open(file, O_RDWR | O_CLOEXEC));
  read_lines(again ? ELSEWHERE : SHARED);
  if (again) return 0;
  char* arguments[] = {program, "again", file, NULL};
  execv(program, arguments);
  return 2;
}

/* The i-th line in an order in which no line follows its neighbour: 1597 is prime to 4096. */
static char* chased_line(int i) { return CHASED + i * 1597 % LINES * LINE; }

/* The kernel writes the addresses, so that no line is in a cache. */
static int run_chase(void) {
  const int file = memfd_create("order", 0);
  if (file < 0 || ftruncate(file, BYTES) != 0) return 2;
  for (int i = 0; i < LINES; ++i) {
    char* const next = chased_line(i + 1);
    if (pwrite(file, &next, sizeof(next), chased_line(i) - CHASED) != sizeof(next)) return 2;
  }
  map(CHASED, MAP_PRIVATE, file);
  const char* line = chased_line(0);
  for (int i = 0; i < LINES; ++i) __asm__ volatile("mov (%0), %0" : "+r"(line));
  return 0;
}

static int run_scattered(void) {
  map(CHASED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int i = 0; i < LINES; ++i) read_line(chased_line(i));
  return 0;
}

static int run_stream(void) {
  map(CHASED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  read_lines(CHASED);
  return 0;
}

static int run_stores(int nontemporal) {
  map(PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  read_lines(PRIVATE);
  for (char* word = PRIVATE; word < PRIVATE + BYTES; word += 8) {
    if (nontemporal)
      __asm__ volatile("movnti %0, (%0)" : : "r"(word) : "memory");
    else
      __asm__ volatile("mov %0, (%0)" : : "r"(word) : "memory");
  }
  read_lines(PRIVATE);
  return 0;
}

static void* read_private(void* unused) {
  read_lines(PRIVATE);
  return unused;
}

static int run_rounds(void) {
  pthread_t thread;
  map(PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int round = 0; round < 4; ++round) read_lines(PRIVATE);
  if (pthread_create(&thread, NULL, read_private, NULL) != 0) return 2;
  pthread_join(thread, NULL);
  return 0;
}

static int run_renews(void) {
  map(PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int i = 0; i < LINES; ++i) {
    for (int round = 0; round < 3; ++round) {
      __asm__ volatile("movnti %0, (%0)" : : "r"(PRIVATE + i * LINE) : "memory");
      read_line(PRIVATE + i * LINE);
    }
  }
  return 0;
}

/* Lines of one page that the L1 has in place of those of the other. */
enum { PAGE_LINES = 64, SAME_PLACE = 8 * 4096 };

static int run_hides(void) {
  map(CHASED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int round = 0; round < 1000000; ++round) {
    for (int i = 0; i < 3; ++i) read_line(CHASED + i * LINE);
    for (int i = 0; i < 3; ++i) read_line(CHASED + SAME_PLACE + i * LINE);
    for (int i = 3; i < 13; ++i) read_line(CHASED + round % 2 * SAME_PLACE + i * LINE);
  }
  return 0;
}

/* 5 is prime to 64, and no line follows its neighbour. */
static void read_scattered_lines_of_page(const char* page) {
  for (int i = 0; i < PAGE_LINES; ++i) read_line(page + i * 5 % PAGE_LINES * LINE);
}

static int run_strays(void) {
  map(CHASED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int i = 0; i < PAGE_LINES; ++i) read_line(CHASED + i * LINE);
  read_scattered_lines_of_page(CHASED + SAME_PLACE);
  read_scattered_lines_of_page(CHASED);
  return 0;
}

static int run_kills(void) {
  map(PRIVATE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  for (int i = 0; i < 200; ++i) {
    int ends[2];
    char byte = 0;
    if (pipe(ends) != 0) return 2;
    const pid_t child = fork();
    if (child == 0) {
      read_lines(PRIVATE);
      if (write(ends[1], &byte, 1) != 1) _exit(2);
      while (1) read_lines(PRIVATE);
    }
    if (read(ends[0], &byte, 1) != 1) return 2;
    usleep((unsigned)i * 7919 % 997);
    int status;
    if (kill(child, SIGKILL) != 0 || waitpid(child, &status, 0) != child) return 2;
    close(ends[0]);
    close(ends[1]);
    read_lines(PRIVATE);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* const mode = argv[1];
  if (!strcmp(mode, "inherits")) return run_inherits();
  if (argc == 3 && !strcmp(mode, "file")) return run_file(argv[0], argv[2], 0);
  if (argc == 3 && !strcmp(mode, "again")) return run_file(argv[0], argv[2], 1);
  if (!strcmp(mode, "chase")) return run_chase();
  if (!strcmp(mode, "scattered")) return run_scattered();
  if (!strcmp(mode, "stream")) return run_stream();
  if (!strcmp(mode, "gathers")) return run_stores(1);
  if (!strcmp(mode, "fills")) return run_stores(0);
  if (!strcmp(mode, "rounds")) return run_rounds();
  if (!strcmp(mode, "renews")) return run_renews();
  if (!strcmp(mode, "hides")) return run_hides();
  if (!strcmp(mode, "strays")) return run_strays();
  if (!strcmp(mode, "kills")) return run_kills();
  return 2;
}
