// SPDX-License-Identifier: Apache-2.0
/* Keeps memory of several kinds, each page filled from its number and its version, and looks at it
 * over and over: the first eighth of each kind is rewritten all the time, the rest read now and
 * then.
 *
 * Usage: page_keeper KIND:PAGES...
 *   anon     private
 *   mlocked  private and locked
 *   file     a private mapping of a file, written
 *   shared   shared with a child, which keeps the upper half; this process reads what the child
 *            rewrites
 *   forked   private, and a child still has the pages of the fork
 *   pinned   private; a pipe holds the first pages, so that they cannot be moved
 *   bound    private; a memory policy binds the first half to node 1, where it has to be
 *   late     private and cold; upon SIGUSR1 a memory policy binds all of it to node 1, and then its
 *            last eighth is rewritten all the time
 *   huge     private, in transparent huge pages as far as there are any
 *
 * Prints a line when the memory is there, and one for each kind: "KIND: PAGES pages from VPN". On
 * SIGTERM all is checked: exit status 0 when every page holds what was written last, 1 when not. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL
#define WORDS (PAGE / sizeof(uint64_t))
#define KINDS_AT_MOST 16
#define PIPE_PAGES 16
#define HUGE_PAGE (512 * PAGE)
/* include/uapi/linux/mempolicy.h; the nodes stay the same whatever becomes of the cpuset. */
#define MPOL_BIND_STATIC (2 | 1 << 15)
#define PAUSE_US 10000 /* between two passes over the hot pages, so that others get the CPU */

struct part {
  uint64_t* words;
  uint32_t* version; /* one per page */
  size_t pages;
  uint64_t salt; /* no two parts have the same contents */
  size_t hot;    /* the first page of the eighth that is rewritten all the time */
  bool late;
  size_t watched; /* pages right behind it that another process rewrites */
};

static volatile sig_atomic_t asked_to_end;
static volatile sig_atomic_t asked_to_bind;

static void on_sigterm(int signal) {
  (void)signal;
  asked_to_end = 1;
}

static void on_sigusr1(int signal) {
  (void)signal;
  asked_to_bind = 1;
}

static void die(const char* what) {
  perror(what);
  exit(2);
}

static uint64_t word(const struct part* part, size_t page, size_t index) {
  uint64_t mixed = (part->salt << 56) ^ ((uint64_t)page << 24) ^ part->version[page];

  return (mixed * 0x9e3779b97f4a7c15ULL) + index;
}

static void write_page(const struct part* part, size_t page) {
  size_t i;

  for (i = 0; i < WORDS; i++) part->words[page * WORDS + i] = word(part, page, i);
}

static void check_page(const struct part* part, size_t page) {
  size_t i;

  for (i = 0; i < WORDS; i++) {
    if (part->words[page * WORDS + i] == word(part, page, i)) continue;
    fprintf(stderr, "page_keeper: %d: word %zu of page %zu at %p is not what was written\n",
            (int)getpid(), i, page, (void*)(part->words + page * WORDS));
    exit(1);
  }
}

static void check_all(const struct part* parts, size_t count) {
  size_t part, page;

  for (part = 0; part < count; part++)
    for (page = 0; page < parts[part].pages; page++) check_page(&parts[part], page);
}

/* The pages stay where they are. */
static void bind_pages(void* memory, size_t pages) {
  unsigned long nodes = 1UL << 1;

  if (syscall(SYS_mbind, memory, pages * PAGE, MPOL_BIND_STATIC, &nodes, 8 * sizeof(nodes), 0) != 0)
    die("mbind");
}

static void bind_late(struct part* parts, size_t count) {
  size_t part;

  for (part = 0; part < count; part++) {
    if (!parts[part].late) continue;
    bind_pages(parts[part].words, parts[part].pages);
    parts[part].late = false;
  }
}

static void keep(struct part* parts, size_t count) {
  size_t part, page, cold = 0;

  while (!asked_to_end) {
    if (asked_to_bind) bind_late(parts, count);
    for (part = 0; part < count; part++) {
      struct part* now = &parts[part];

      if (now->late) continue;
      for (page = now->hot; page < now->hot + (now->pages + 7) / 8 && !asked_to_end; page++) {
        check_page(now, page);
        now->version[page]++;
        write_page(now, page);
      }
      check_page(now, cold % now->pages);
      for (page = now->pages; page < now->pages + now->watched; page++)
        (void)*(volatile uint64_t*)(now->words + page * WORDS);
    }
    cold++;
    usleep(PAUSE_US);
  }
  check_all(parts, count);
}

static struct part make_part(void* memory, size_t pages, uint64_t salt) {
  struct part part = {
      .words = memory, .version = calloc(pages, sizeof(uint32_t)), .pages = pages, .salt = salt};
  size_t page;

  if (memory == MAP_FAILED || !part.version) die("memory");
  for (page = 0; page < pages; page++) write_page(&part, page);
  return part;
}

static void* map(size_t pages, int flags, int fd) {
  void* memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

  if (memory != MAP_FAILED) madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
  return memory;
}

static void* map_file(size_t pages) {
  char path[] = "/root/kept.XXXXXX";
  int fd = mkstemp(path);

  if (fd < 0 || unlink(path) != 0 || ftruncate(fd, (off_t)(pages * PAGE)) != 0) die(path);
  return map(pages, MAP_PRIVATE, fd);
}

/*
 * A child that keeps `part` until it is told to end, and says by its status whether it was kept. It
 * has all of these pages in its page table on return.
 */
static pid_t fork_keeper(struct part* part) {
  int ready[2];
  char byte = 0;
  pid_t parent = getpid();
  pid_t child;

  if (pipe(ready) != 0) die("pipe");
  child = fork();
  if (child < 0) die("fork");
  if (child > 0) {
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) die("a child");
    close(ready[0]);
    return child;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);
  check_all(part, 1);
  if (write(ready[1], &byte, 1) != 1) _exit(2);
  keep(part, 1);
  _exit(0);
}

static pid_t fork_reader(const struct part* part) {
  pid_t parent = getpid();
  pid_t child = fork();

  if (child < 0) die("fork");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(2);
  while (!asked_to_end) {
    check_all(part, 1);
    usleep(5 * PAUSE_US);
  }
  check_all(part, 1);
  _exit(0);
}

static void pin(const struct part* part) {
  int ends[2];
  size_t pages = part->pages < PIPE_PAGES ? part->pages : PIPE_PAGES;
  struct iovec memory = {.iov_base = part->words, .iov_len = pages * PAGE};

  if (pipe(ends) != 0 || vmsplice(ends[1], &memory, 1, 0) != (ssize_t)memory.iov_len)
    die("vmsplice");
}

static void* map_huge(size_t pages) {
  char* memory = mmap(NULL, pages * PAGE + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* aligned;

  if (memory == MAP_FAILED) die("memory");
  aligned = (char*)(((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  if (madvise(aligned, pages * PAGE, MADV_HUGEPAGE) != 0) die("MADV_HUGEPAGE");
  return aligned;
}

static void* map_private(const char* kind, size_t pages) {
  void* memory;

  if (strncmp(kind, "file:", 5) == 0) return map_file(pages);
  if (strncmp(kind, "huge:", 5) == 0) return map_huge(pages);
  memory = map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (memory != MAP_FAILED && strncmp(kind, "bound:", 6) == 0) bind_pages(memory, pages / 2);
  return memory;
}

int main(int argc, char** argv) {
  static struct part parts[KINDS_AT_MOST];
  static pid_t children[KINDS_AT_MOST];
  struct sigaction action = {.sa_handler = on_sigterm};
  size_t count = 0, forked = 0, i;
  int status, failed = 0;

  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = on_sigusr1;
  sigaction(SIGUSR1, &action, NULL);
  for (count = 0; (int)count + 1 < argc && count < KINDS_AT_MOST; count++) {
    const char* kind = argv[count + 1];
    const char* colon = strchr(kind, ':');
    size_t pages = colon ? strtoul(colon + 1, NULL, 10) : 0;
    uint64_t salt = count * 2 + 1;
#define IS(name) \
  (colon && strlen(name) == (size_t)(colon - kind) && strncmp(kind, name, strlen(name)) == 0)

    if (pages < 2) {
      fprintf(stderr, "usage: page_keeper KIND:PAGES...\n");
      return 2;
    }
    if (IS("shared")) {
      void* memory = map(pages, MAP_SHARED | MAP_ANONYMOUS, -1);
      struct part upper;

      parts[count] = make_part(memory, pages / 2, salt);
      upper = make_part((char*)memory + (pages / 2) * PAGE, pages - pages / 2, salt + 1);
      children[forked++] = fork_keeper(&upper);
      parts[count].watched = (upper.pages + 7) / 8;
      continue;
    }
    parts[count] = make_part(map_private(kind, pages), pages, salt);
    if (IS("mlocked") && mlock(parts[count].words, pages * PAGE) != 0) die("mlock");
    if (IS("forked")) children[forked++] = fork_reader(&parts[count]);
    if (IS("pinned")) pin(&parts[count]);
    parts[count].late = IS("late");
    /* Pages that are equally cold are placed from the lowest page on. */
    if (parts[count].late) parts[count].hot = pages - (pages + 7) / 8;
  }
  printf("page_keeper: PID %d, its memory is there\n", (int)getpid());
  for (i = 0; i < count; i++)
    printf("%.*s: %zu pages from %lu\n", (int)strcspn(argv[i + 1], ":"), argv[i + 1],
           parts[i].pages, (unsigned long)parts[i].words / PAGE);
  fflush(stdout);
  keep(parts, count);
  for (i = 0; i < forked; i++) {
    kill(children[i], SIGTERM);
    if (waitpid(children[i], &status, 0) != children[i] || status != 0) failed = 1;
  }
  if (!failed) printf("page_keeper: all pages hold what was written last\n");
  return failed;
}
