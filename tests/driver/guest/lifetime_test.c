// SPDX-License-Identifier: Apache-2.0
/* Ends that come at a bad time, and sessions side by side. */

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/driver/guest/guest.h"

#define MOST_PAGES 8192

static size_t pages = MOST_PAGES; /* pages of a target */

/* Shared with children. */
struct shared {
  volatile char* volatile memory;
  volatile unsigned long rounds;
};
static struct shared* shared;

static __u64 accessed[MOST_PAGES / 64];

static int scan(int session, __u32 target, volatile char* start, __u32 flags, __u32* cleared) {
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, flags, 0},
      .target_id = target,
      .start_vpn = (unsigned long)start / PAGE,
      .pages = pages,
      .accessed = (unsigned long)accessed,
  };
  int result = ioctl(session, TMPROF_IOC_SCAN_RANGE, &request);

  *cleared = request.cleared_bits;
  return result;
}

/* Touches memory without end. */
static pid_t start_target(void) {
  pid_t child;

  *shared = (struct shared){0};
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    touch(memory, pages, 1);
    shared->memory = memory;
    for (;;) touch(memory, pages, 1);
  }
  while (!shared->memory) sched_yield();
  return child;
}

static void end_child(pid_t child) {
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
}

static int open_scanning(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  return session;
}

/* debugfs has a folder for each open session. */
static size_t open_sessions(void) {
  char line[64];
  size_t count = 0;
  FILE* list = popen("ls /sys/kernel/debug/tmprof", "r");

  EXPECT(list != NULL);
  while (fgets(line, sizeof(line), list)) count++;
  EXPECT_EQ(pclose(list), 0);
  return count;
}

static void a_session_ends_with_its_process_in_the_middle_of_scans(void) {
  pid_t target = start_target();
  int round;

  for (round = 0; round < 10; round++) {
    pid_t profiler;

    shared->rounds = 0;
    profiler = fork();
    if (profiler == 0) {
      int session = open_scanning();
      __u32 id = add_target(session, target), cleared;

      EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
      for (;; shared->rounds++)
        scan(session, id, shared->memory, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH, &cleared);
    }
    while (shared->rounds < 3) sched_yield();
    EXPECT_EQ(open_sessions(), 1);
    end_child(profiler);
    EXPECT_EQ(open_sessions(), 0);
  }
  EXPECT_EQ(waitpid(target, NULL, WNOHANG), 0);
  end_child(target);
}

static void a_target_may_die_in_the_middle_of_scans(void) {
  int session = open_scanning(), round;

  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  for (round = 0; round < 10; round++) {
    pid_t target = start_target(), killer;
    __u32 id = add_target(session, target), cleared, scans = 0;

    killer = fork();
    if (killer == 0) {
      usleep(1000 + round * 3000);
      kill(target, SIGKILL);
      _exit(0);
    }
    while (scan(session, id, shared->memory, TMPROF_SCAN_CLEAR, &cleared) == 0) scans++;
    EXPECT_EQ(errno, ESRCH);
    EXPECT(waitpid(killer, NULL, 0) == killer);
    EXPECT(waitpid(target, NULL, 0) == target);
    while (stats_of(session).targets_gone < (__u64)round + 1) sched_yield();
  }
  close(session);
}

#define TRACING "/sys/kernel/tracing/"

static void put(const char* file, const char* text) {
  FILE* stream = fopen(file, "w");

  EXPECT(stream != NULL && fputs(text, stream) >= 0 && fclose(stream) == 0);
}

/* Works that were queued, as the trace of the kernel's work queues names them. */
static size_t works_traced(const char* named) {
  char line[512];
  size_t count = 0;
  FILE* trace = fopen(TRACING "trace", "r");

  EXPECT(trace != NULL);
  while (fgets(line, sizeof(line), trace)) count += strstr(line, named) != NULL;
  fclose(trace);
  return count;
}

/* The scan is often the last user of the memory of a process that was killed meanwhile. */
static void memory_of_a_dead_target_is_freed_on_the_drivers_own_queue(void) {
  int session = open_scanning(), round;

  if (access(TRACING, F_OK)) EXPECT(system("mount -t tracefs none /sys/kernel/tracing") == 0);
  put(TRACING "trace", "");
  put(TRACING "events/workqueue/workqueue_queue_work/enable", "1");
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  for (round = 0; round < 400 && !works_traced("workqueue=tmprof_free"); round++) {
    pid_t target = start_target(), killer;
    __u32 id = add_target(session, target), cleared;

    killer = fork();
    if (killer == 0) {
      usleep(500 + round % 10 * 500);
      kill(target, SIGKILL);
      _exit(0);
    }
    while (scan(session, id, shared->memory, TMPROF_SCAN_CLEAR, &cleared) == 0) continue;
    EXPECT(waitpid(killer, NULL, 0) == killer);
    EXPECT(waitpid(target, NULL, 0) == target);
  }
  put(TRACING "events/workqueue/workqueue_queue_work/enable", "0");
  printf("   the driver was the last user after %d targets\n", round);
  EXPECT(works_traced("workqueue=tmprof_free") > 0);
  EXPECT_EQ(works_traced("mmput_async"), 0);
  close(session);
}

static int remove_module(void) { return syscall(SYS_delete_module, "tmprof", O_NONBLOCK); }

static void the_module_stays_while_a_session_is_open(void) {
  struct stat status;
  int session = open_session();

  EXPECT_ERRNO(remove_module(), EWOULDBLOCK);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT_ERRNO(remove_module(), EWOULDBLOCK);
  close(session);
  EXPECT(remove_module() == 0);
  EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), ENOENT);
  EXPECT_ERRNO(stat("/sys/kernel/debug/tmprof", &status), ENOENT);
  EXPECT(system("insmod /run/testbed/driver.ko") == 0);
  close(open_session());
}

static void two_sessions_on_one_target_clear_each_bit_once(void) {
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  const __u32 flags = TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH;
  int first = open_session(), second = open_session(), round;
  __u32 ids[] = {add_target(first, getpid()), add_target(second, getpid())};
  __u32 cleared;

  EXPECT_EQ(ids[0], ids[1]); /* ids are the session's own */
  touch(memory, pages, 1);
  EXPECT(scan(first, ids[0], memory, flags, &cleared) == 0);
  EXPECT_EQ(cleared, pages);
  for (round = 0; round < 20; round++) {
    __u32 other_cleared;
    int result, ready[2];
    pid_t other;
    char byte;

    touch(memory, pages, 1);
    EXPECT(pipe(ready) == 0);
    /* A thread would do, too; a child shares the sessions and scans its parent. */
    other = fork();
    if (other == 0) {
      EXPECT(write(ready[1], "x", 1) == 1);
      EXPECT(scan(second, ids[1], memory, flags, &cleared) == 0);
      shared->rounds = cleared;
      _exit(0);
    }
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(scan(first, ids[0], memory, flags, &cleared) == 0);
    EXPECT(waitpid(other, &result, 0) == other);
    EXPECT_EQ(result, 0);
    other_cleared = shared->rounds;
    EXPECT_EQ(cleared + other_cleared, pages);
    close(ready[0]);
    close(ready[1]);
  }
  EXPECT(stats_of(first).cleared_bits + stats_of(second).cleared_bits == 21ULL * pages);
  close(first);
  touch(memory, pages, 1);
  EXPECT(scan(second, ids[1], memory, flags, &cleared) == 0);
  EXPECT_EQ(cleared, pages);
  close(second);
  EXPECT(munmap((void*)memory, pages * PAGE) == 0);
}

/* Objects of the kernel's cache of struct mm_struct. */
static long address_spaces(void) {
  long objects = proc_number("/proc/slabinfo", "mm_struct ");

  EXPECT(objects >= 0);
  return objects;
}

/* The caches of each CPU hold some free objects, which count as in use. */
static void dead_targets_keep_no_address_space(void) {
  const int targets = is_debug_kernel() ? 1000 : 3000;
  int session = open_session(), i;
  long before = address_spaces();
  __u64 until_ns;

  for (i = 0; i < targets; i++) {
    pid_t child = fork();

    EXPECT(child >= 0);
    if (child == 0) {
      for (;;) pause();
    }
    add_target(session, child);
    end_child(child);
  }
  until_ns = now_ns() + 20000000000ULL;
  while (address_spaces() > before + targets / 4 && now_ns() < until_ns) usleep(10000);
  printf("   address spaces: %ld before, %ld after %d dead targets\n", before, address_spaces(),
         targets);
  EXPECT(address_spaces() <= before + targets / 4);
  close(session);
}

static void session_of_everything(void) {
  int session = open_scanning();
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  volatile char* memory = shared->memory;
  __u32 id = add_target(session, getpid()), cleared;

  EXPECT(scan(session, id, memory, TMPROF_SCAN_CLEAR, &cleared) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  close(session);
}

/* Kernel memory that is charged to this process's cgroup: the driver's allocations all are. */
static long charged_bytes(const char* file) {
  return proc_number(file, "slab_unreclaimable ") + proc_number(file, "vmalloc ") +
         proc_number(file, "kernel_stack ");
}

static void a_thousand_sessions_leave_no_memory_behind(void) {
  const char *group = "/sys/fs/cgroup/lifetime", *stat = "/sys/fs/cgroup/lifetime/memory.stat";
  char command[128];
  long before, after, limit;
  __u64 until_ns;
  int i;

  shared->memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  EXPECT(system("echo +memory > /sys/fs/cgroup/cgroup.subtree_control") == 0);
  EXPECT(mkdir(group, 0755) == 0);
  snprintf(command, sizeof(command), "echo %d > %s/cgroup.procs", getpid(), group);
  EXPECT(system(command) == 0);
  for (i = 0; i < 100; i++) session_of_everything();
  /* The kernel sums up what its CPUs have charged every 2 s, where that is not much. */
  do before = charged_bytes(stat);
  while (before <= 0);
  for (i = 0; i < 1000; i++) session_of_everything();
  /* 32 bytes of each session would be more than this; what RCU frees takes its time. */
  limit = before + 32000;
  until_ns = now_ns() + 20000000000ULL;
  do after = charged_bytes(stat);
  while (after > limit && now_ns() < until_ns);
  printf("charged after 100 sessions: %ld bytes, after 1100: %ld\n", before, after);
  EXPECT(after <= limit);
  snprintf(command, sizeof(command), "echo %d > /sys/fs/cgroup/cgroup.procs", getpid());
  EXPECT(system(command) == 0);
  EXPECT(rmdir(group) == 0);
}

int main(void) {
  if (is_debug_kernel()) pages = MOST_PAGES / 4;
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  RUN(a_session_ends_with_its_process_in_the_middle_of_scans);
  RUN(a_target_may_die_in_the_middle_of_scans);
  RUN(memory_of_a_dead_target_is_freed_on_the_drivers_own_queue);
  RUN(the_module_stays_while_a_session_is_open);
  RUN(two_sessions_on_one_target_clear_each_bit_once);
  RUN(dead_targets_keep_no_address_space);
  RUN(a_thousand_sessions_leave_no_memory_behind);
  return 0;
}
