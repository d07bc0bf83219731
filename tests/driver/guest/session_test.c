// SPDX-License-Identifier: Apache-2.0
/* Opening, closing, heads of requests, and targets. */

#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/driver/guest/guest.h"

static void end_child(pid_t child) {
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
}

static void the_device_is_for_its_owner_only(void) {
  struct stat status;

  EXPECT(stat(TMPROF_DEVICE_PATH, &status) == 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
}

static void a_user_without_capabilities_cannot_open(void) {
  pid_t child;
  int status;

  EXPECT(chmod(TMPROF_DEVICE_PATH, 0666) == 0);
  child = fork();
  if (child == 0) {
    EXPECT(setuid(65534) == 0);
    EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), EPERM);
    exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(chmod(TMPROF_DEVICE_PATH, 0600) == 0);
  EXPECT_EQ(status, 0);
}

/* Makes this process one of a user with those capabilities and no other. */
static void become_user_with(int capability, int another) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}, {0}};
  int i;

  EXPECT(prctl(PR_SET_KEEPCAPS, 1) == 0);
  EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
  data[CAP_TO_INDEX(capability)].permitted |= CAP_TO_MASK(capability);
  data[CAP_TO_INDEX(another)].permitted |= CAP_TO_MASK(another);
  for (i = 0; i < 2; i++) data[i].effective = data[i].permitted;
  EXPECT(syscall(SYS_capset, &header, data) == 0);
}

/* Opens as a user with that capability and no other; errno, or 0. */
static int open_with(int capability) {
  pid_t child = fork();
  int status;

  if (child == 0) {
    become_user_with(capability, capability);
    exit(open(TMPROF_DEVICE_PATH, O_RDWR) >= 0 ? 0 : errno);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void either_of_two_capabilities_opens_and_no_other(void) {
  EXPECT(chmod(TMPROF_DEVICE_PATH, 0666) == 0);
  EXPECT_EQ(open_with(CAP_PERFMON), 0);
  EXPECT_EQ(open_with(CAP_SYS_ADMIN), 0);
  EXPECT_EQ(open_with(CAP_SYS_PTRACE), EPERM);
  EXPECT_EQ(open_with(CAP_BPF), EPERM);
  EXPECT(chmod(TMPROF_DEVICE_PATH, 0600) == 0);
}

/* Calls as a user with no capability; 0 if the calls all did as expected. */
static int as_nobody(void (*call)(int session), int session) {
  pid_t child = fork();
  int status;

  if (child == 0) {
    EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    call(session);
    exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

static char session_folder[64];

static void expect_nothing_to_read(int session) {
  const char* files[] = {"stats", "lock_holds"};
  char path[128];
  size_t i;

  (void)session;
  for (i = 0; i < 2; i++) {
    snprintf(path, sizeof(path), "%s/%s", session_folder, files[i]);
    EXPECT_ERRNO(open(path, O_RDONLY), EACCES);
  }
  EXPECT_ERRNO(open("/sys/module/tmprof/parameters/max_sessions", O_WRONLY), EACCES);
  EXPECT_ERRNO(open("/sys/module/tmprof/parameters/max_memory_bytes", O_WRONLY), EACCES);
  EXPECT_ERRNO(open("/sys/module/tmprof/sections/.text", O_RDONLY), EACCES);
}

static void nothing_of_a_session_can_be_read_without_privilege(void) {
  int session = open_session();
  FILE* list = popen("ls -d /sys/kernel/debug/tmprof/*", "r");
  struct stat status;

  EXPECT(list != NULL && fgets(session_folder, sizeof(session_folder), list) != NULL);
  EXPECT_EQ(pclose(list), 0);
  session_folder[strcspn(session_folder, "\n")] = 0;
  EXPECT_EQ(as_nobody(expect_nothing_to_read, session), 0);
  /* The files stay closed even if debugfs is open to all. */
  EXPECT(stat("/sys/kernel/debug", &status) == 0);
  EXPECT(chmod("/sys/kernel/debug", 0755) == 0);
  EXPECT_EQ(as_nobody(expect_nothing_to_read, session), 0);
  EXPECT(chmod("/sys/kernel/debug", status.st_mode & 07777) == 0);
  close(session);
}

static void expect_session(int session) {
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};

  struct tmprof_target_request request = {
      .head = HEAD(struct tmprof_target_request),
      .pid = getpid(),
  };

  EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), EACCES);
  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), EPERM);
}

static void a_descriptor_that_is_handed_on_hands_on_its_targets_alone(void) {
  int session = open_session();

  EXPECT_EQ(as_nobody(expect_session, session), 0);
  close(session);
}

static int try_to_add(int session, pid_t pid) {
  struct tmprof_target_request request = {
      .head = HEAD(struct tmprof_target_request),
      .pid = pid,
  };

  return ioctl(session, TMPROF_IOC_ADD_TARGET, &request);
}

static int try_to_scan(int session, __u32 target, volatile char* page, __u64* frame) {
  struct tmprof_scan_range request = {
      .head = HEAD(struct tmprof_scan_range),
      .target_id = target,
      .start_vpn = (unsigned long)page / PAGE,
      .pages = 1,
      .frames = (unsigned long)frame,
  };

  return ioctl(session, TMPROF_IOC_SCAN_RANGE, &request);
}

/* Runs `call` in a process of a user with those capabilities. */
static void as_user_with(int capability, int another, void (*call)(void)) {
  pid_t child;
  int status;

  EXPECT(chmod(TMPROF_DEVICE_PATH, 0666) == 0);
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    become_user_with(capability, another);
    call();
    exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(chmod(TMPROF_DEVICE_PATH, 0600) == 0);
  EXPECT_EQ(status, 0);
}

static void expect_own_processes_without_frames(void) {
  volatile char* page = map_aligned(PAGE, MADV_NOHUGEPAGE);
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  int session = open_session();
  __u32 self = add_target(session, getpid());
  __u64 frame = 0;

  touch(page, 1, 1);
  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  EXPECT(!(info.features & TMPROF_FEATURE_FRAMES));
  EXPECT(try_to_scan(session, self, page, NULL) == 0);
  EXPECT_ERRNO(try_to_scan(session, self, page, &frame), EPERM);
  EXPECT_EQ(frame, 0);
  EXPECT_ERRNO(try_to_add(session, 1), EACCES);
  EXPECT_ERRNO(try_to_add(session, getppid()), EACCES);
  close(session);
}

static void a_user_who_may_sample_sees_own_processes_and_no_frames(void) {
  as_user_with(CAP_PERFMON, CAP_PERFMON, expect_own_processes_without_frames);
}

static void expect_frames(void) {
  volatile char* page = map_aligned(PAGE, MADV_NOHUGEPAGE);
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  int session = open_session();
  __u32 self = add_target(session, getpid());
  __u64 frame = 0;

  touch(page, 1, 1);
  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  EXPECT(info.features & TMPROF_FEATURE_FRAMES);
  EXPECT(try_to_scan(session, self, page, &frame) == 0);
  EXPECT(frame > 0 && frame != TMPROF_UNKNOWN);
  EXPECT_ERRNO(try_to_add(session, 1), EACCES);
  close(session);
}

static void an_administrator_without_ptrace_sees_frames_of_own_processes(void) {
  as_user_with(CAP_SYS_ADMIN, CAP_SYS_ADMIN, expect_frames);
  as_user_with(CAP_BPF, CAP_PERFMON, expect_frames);
}

/* A program whose file belongs to root and gives its rights to whoever runs it. */
#define PRIVILEGED "/privileged"

static void expect_loss_at_the_exec(void) {
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
  __u64 until_ns = now_ns() + 10000000000ULL;
  int session = open_session(), begin[2];
  pid_t child;
  char byte;

  EXPECT(pipe(begin) == 0);
  EXPECT(prctl(PR_SET_DUMPABLE, 1) == 0); /* a change of user has taken it away */
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    EXPECT(read(begin[0], &byte, 1) == 1);
    execl(PRIVILEGED, PRIVILEGED, "wait", NULL);
    _exit(127);
  }
  request.target_id = add_target(session, child);
  EXPECT(ioctl(session, TMPROF_IOC_GET_TARGET, &request) == 0);
  EXPECT_EQ(request.state, TMPROF_TARGET_ALIVE);
  EXPECT(write(begin[1], "x", 1) == 1);
  do {
    EXPECT(ioctl(session, TMPROF_IOC_GET_TARGET, &request) == 0);
    EXPECT(now_ns() < until_ns);
  } while (request.state == TMPROF_TARGET_ALIVE);
  EXPECT_EQ(waitpid(child, NULL, WNOHANG), 0);
  EXPECT_ERRNO(try_to_scan(session, request.target_id, (volatile char*)PAGE, NULL), ESRCH);
  EXPECT_ERRNO(try_to_add(session, child), EACCES);
  end_child(child);
  close(session);
}

static void a_target_is_lost_to_who_may_not_see_the_program_that_it_executes(void) {
  EXPECT(system("cp session_test " PRIVILEGED " && chmod 4755 " PRIVILEGED) == 0);
  as_user_with(CAP_PERFMON, CAP_PERFMON, expect_loss_at_the_exec);
  EXPECT(unlink(PRIVILEGED) == 0);
}

static void sessions_are_limited_by_the_modules_option(void) {
  const char* option = "/sys/module/tmprof/parameters/max_sessions";
  FILE* file = fopen(option, "w");
  int first, second;

  EXPECT(file != NULL && fputs("2", file) >= 0 && fclose(file) == 0);
  first = open_session();
  second = open_session();
  EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), EUSERS);
  close(first);
  first = open_session();
  close(first);
  close(second);
  file = fopen(option, "w");
  EXPECT(file != NULL && fputs("64", file) >= 0 && fclose(file) == 0);
}

#define OPTION "/sys/module/tmprof/parameters/"
#define MIB (1UL << 20)

static void set_option(const char* option, unsigned long value) {
  FILE* file = fopen(option, "w");

  EXPECT(file != NULL && fprintf(file, "%lu", value) > 0 && fclose(file) == 0);
}

static unsigned long memory_of_all(void) {
  char text[32] = "";
  FILE* file = fopen(OPTION "memory_bytes", "r");

  EXPECT(file != NULL && fgets(text, sizeof(text), file) != NULL);
  fclose(file);
  return strtoul(text, NULL, 10);
}

/* A session whose scan by regions keeps a log of so many records of 64 bytes. */
static int open_with_log(__u32 region_log) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.abit_mode = TMPROF_ABIT_REGIONS;
  params.region_log = region_log;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  return session;
}

static void memory_of_all_sessions_is_limited_by_the_modules_option(void) {
  int first, second, i;
  struct tmprof_params params;

  EXPECT_EQ(memory_of_all(), 0);
  set_option(OPTION "max_memory_bytes", 6 * MIB);
  first = open_with_log(65536); /* 4 MiB */
  second = open_with_log(65536);
  EXPECT(control(first, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT(memory_of_all() > 4 * MIB && memory_of_all() < 5 * MIB);
  EXPECT_ERRNO(control(second, TMPROF_MASK_ABIT, TMPROF_START), EDQUOT);
  EXPECT(control(first, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  close(first); /* the log outlives the scan, and not the session */
  EXPECT(control(second, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  close(second);
  EXPECT_EQ(memory_of_all(), 0);
  /* A session that is refused half-way leaves nothing behind. */
  for (i = 0; i < 100; i++) {
    first = open_with_log(1 << 20);
    EXPECT_ERRNO(control(first, TMPROF_MASK_ABIT, TMPROF_START), EDQUOT);
    close(first);
  }
  first = open_session();
  params = params_of(first);
  EXPECT_EQ(params.memory_limit_bytes, 6 * MIB);
  params.memory_limit_bytes++;
  EXPECT_ERRNO(ioctl(first, TMPROF_IOC_SET_PARAMS, &params), EDQUOT);
  set_option(OPTION "max_memory_bytes", 1000);
  EXPECT_ERRNO(open(TMPROF_DEVICE_PATH, O_RDWR), EDQUOT);
  set_option(OPTION "max_memory_bytes", 1UL << 30);
  close(first);
  EXPECT_EQ(memory_of_all(), 0);
}

/* In a memory cgroup that has less than the log takes. */
static void memory_that_there_is_not_is_refused_and_nobody_is_killed_for_it(void) {
  const char* group = "/sys/fs/cgroup/session";
  char path[128];
  pid_t child;
  int status;

  EXPECT(system("echo +memory > /sys/fs/cgroup/cgroup.subtree_control") == 0);
  EXPECT(mkdir(group, 0755) == 0);
  set_option("/sys/fs/cgroup/session/memory.max", 32 * MIB);
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    int session;

    set_option("/sys/fs/cgroup/session/cgroup.procs", getpid());
    session = open_with_log(1 << 20); /* 64 MiB */
    EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_START), ENOMEM);
    exit(0);
  }
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT_EQ(status, 0);
  snprintf(path, sizeof(path), "%s/memory.events", group);
  EXPECT_EQ(proc_number(path, "oom_kill "), 0);
  EXPECT(rmdir(group) == 0);
}

static void info_tells_the_limits(void) {
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  int session = open_session();

  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  EXPECT(info.features & TMPROF_FEATURE_ABIT);
  EXPECT_EQ(info.page_record_bytes, 32);
  EXPECT(info.max_targets > 0 && info.max_scan_pages > 0);
  EXPECT(info.page_table_levels == 4 || info.page_table_levels == 5);
  close(session);
}

static void malformed_heads_are_refused(void) {
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  int session = open_session();

  info.head.version++;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, &info), EPROTO);
  info.head.version--;
  info.head.size--;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, &info), EINVAL);
  info.head.size++;
  info.head.flags = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, &info), EINVAL);
  info.head.flags = 0;
  info.head.reserved = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, &info), EINVAL);
  info.head.reserved = 0;
  info.reserved[3] = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, &info), EINVAL);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_INFO, NULL), EFAULT);
  EXPECT_ERRNO(ioctl(session, _IOWR(TMPROF_IOC_MAGIC, 0x3f, struct tmprof_info), &info), ENOTTY);
  EXPECT_ERRNO(ioctl(session, _IOWR(TMPROF_IOC_MAGIC, 0x40, char[64]), &info), ENOTTY);
  close(session);
}

static pid_t start_child(void) {
  pid_t child = fork();

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  return child;
}

static void a_target_is_gone_once_its_process_has_exited(void) {
  int session = open_session();
  pid_t child = start_child();
  __u32 id = add_target(session, child);

  EXPECT_EQ(query(session, id).state, TMPROF_TARGET_ALIVE);
  EXPECT_EQ(query(session, id).pid, child);
  EXPECT(query(session, id).start_time_ticks > 0);
  end_child(child);
  EXPECT_EQ(query(session, id).state, TMPROF_TARGET_GONE);
  EXPECT_EQ(query(session, id).pid, 0);
  close(session);
}

static void a_target_is_added_once_and_its_id_never_reused(void) {
  struct tmprof_target_request request = {
      .head = HEAD(struct tmprof_target_request),
      .pid = getpid(),
  };
  int session = open_session();
  __u32 first = add_target(session, getpid());

  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), EEXIST);
  request.target_id = first;
  EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &request) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &request), ENOENT);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_GET_TARGET, &request), ENOENT);
  EXPECT(add_target(session, getpid()) > first);
  close(session);
}

static void targets_that_cannot_be_are_refused(void) {
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
  int session = open_session();
  pid_t child = start_child();
  __u64 started;

  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), EINVAL);
  request.pid = -1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), EINVAL);
  request.pid = 2; /* kthreadd */
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), EINVAL);
  request.pid = 0x7fffffff;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), ESRCH);
  request.pid = child;
  started = query(session, add_target(session, child)).start_time_ticks;
  close(session);

  session = open_session();
  request.start_time_ticks = started + 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, &request), ESRCH);
  request.start_time_ticks = started;
  EXPECT(ioctl(session, TMPROF_IOC_ADD_TARGET, &request) == 0);
  end_child(child);
  close(session);
}

/* A process that has exited stays a target, so few processes need to be there at a time. */
static int wait_to_be_killed(void* unused) {
  (void)unused;
  while (1) pause();
  return 0;
}

/* A process that costs little to make: it shares this one's memory. */
static pid_t start_thin_child(char* stack_end) {
  pid_t child = clone(wait_to_be_killed, stack_end, CLONE_VM | SIGCHLD, NULL);

  EXPECT(child >= 0);
  return child;
}

static void a_target_too_many_is_refused_and_takes_none_away(void) {
  static char stacks[64][PAGE] __attribute__((aligned(16)));
  struct tmprof_target_request* request =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  int session = open_session();
  __u32 first = add_target(session, getpid()), i;
  pid_t child;

  EXPECT(request != MAP_FAILED);
  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  for (i = 1; i < info.max_targets; i++) {
    child = start_thin_child(stacks[i % 64] + PAGE);
    add_target(session, child);
    EXPECT(kill(child, SIGKILL) == 0);
    while (waitpid(-1, NULL, i % 64 == 63 ? 0 : WNOHANG) > 0) continue;
  }
  while (waitpid(-1, NULL, 0) > 0) continue;
  child = start_child();
  *request = (struct tmprof_target_request){
      .head = HEAD(struct tmprof_target_request), .pid = child, .target_id = first};
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, request), ENOSPC);
  EXPECT(mprotect(request, PAGE, PROT_READ) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_ADD_TARGET, request), ENOSPC);
  EXPECT_EQ(query(session, first).state, TMPROF_TARGET_ALIVE);
  end_child(child);
  munmap(request, PAGE);
  close(session);
}

/* A virtual machine of KVM, or a device, has tables of its own for a process's memory. */
static void other_tables_of_a_targets_memory_are_told(void) {
  char command[64];
  int session = open_session();
  pid_t child = start_child();
  __u32 id = add_target(session, child);

  EXPECT_EQ(query(session, id).target_flags, 0);
  snprintf(command, sizeof(command), "insmod other_tables.ko pid=%d", child);
  EXPECT(system(command) == 0);
  EXPECT_EQ(query(session, id).target_flags, TMPROF_TARGET_OTHER_TABLES);
  EXPECT_EQ(query(session, add_target(session, getpid())).target_flags, 0);
  EXPECT(system("rmmod other_tables") == 0);
  end_child(child);
  EXPECT_EQ(query(session, id).target_flags, 0);
  close(session);
}

static void the_address_space_changes_with_an_exec(void) {
  int ready[2], session = open_session();
  pid_t child;
  __u32 id, before;
  char byte;

  EXPECT(pipe2(ready, O_CLOEXEC) == 0);
  child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raise(SIGSTOP);
    execl("/bin/sleep", "sleep", "1000", NULL);
    _exit(127);
  }
  close(ready[1]);
  EXPECT(waitpid(child, NULL, WUNTRACED) == child);
  id = add_target(session, child);
  before = query(session, id).address_space;
  EXPECT(kill(child, SIGCONT) == 0);
  EXPECT(read(ready[0], &byte, 1) == 0); /* closed by the exec */
  EXPECT(query(session, id).address_space != before);
  EXPECT_EQ(query(session, id).state, TMPROF_TARGET_ALIVE);
  end_child(child);
  close(session);
}

struct reading {
  int session;
  void* to;
  ssize_t bytes;
};

static void* read_records(void* argument) {
  struct reading* reading = argument;

  reading->bytes = read(reading->session, reading->to, PAGE);
  return NULL;
}

/* Memory whose first access waits until `faults` is told of a page; -1: not in this kernel. */
static int memory_that_waits(void** memory) {
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
  int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

  if (faults < 0) return -1;
  *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  range.range = (struct uffdio_range){.start = (unsigned long)*memory, .len = PAGE};
  EXPECT(*memory != MAP_FAILED);
  EXPECT(ioctl(faults, UFFDIO_API, &api) == 0);
  EXPECT(ioctl(faults, UFFDIO_REGISTER, &range) == 0);
  return faults;
}

static void end_epoch_in_vain(int session) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};

  ioctl(session, TMPROF_IOC_EPOCH_END, &epoch);
}

/* User memory that comes over a network has this effect: a read() may stand still for any time. */
static void a_reader_that_stands_still_holds_up_neither_scans_nor_questions(void) {
  volatile char* memory = map_aligned(PAGE, MADV_NOHUGEPAGE);
  struct reading reading = {.session = open_session()};
  struct tmprof_params params = params_of(reading.session);
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  struct pollfd poll_for = {.fd = reading.session, .events = POLLIN};
  struct uffdio_zeropage page = {.range = {.len = PAGE}};
  struct uffd_msg fault;
  pthread_t reader;
  pid_t waiting;
  __u64 passes;
  int faults = memory_that_waits(&reading.to);

  if (faults < 0) {
    printf("skipped %s: this kernel has no userfaultfd\n", __func__);
    return;
  }
  params.epoch_ns = 0;
  params.scan_interval_ns = 1000000;
  EXPECT(ioctl(reading.session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(reading.session, getpid());
  touch(memory, 1, 1);
  EXPECT(control(reading.session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  while (stats_of(reading.session).passes < 2) touch(memory, 1, 1);
  EXPECT(ioctl(reading.session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  EXPECT(epoch.records > 0);
  EXPECT(!pthread_create(&reader, NULL, read_records, &reading));
  EXPECT_EQ(read(faults, &fault, sizeof(fault)), sizeof(fault));

  waiting = fork();
  if (waiting == 0) {
    end_epoch_in_vain(reading.session);
    _exit(1);
  }
  EXPECT_EQ(poll(&poll_for, 1, 0), 1);
  passes = stats_of(reading.session).passes;
  while (stats_of(reading.session).passes < passes + 3) continue;
  EXPECT(control(reading.session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  end_child(waiting);

  page.range.start = (unsigned long)reading.to;
  EXPECT(ioctl(faults, UFFDIO_ZEROPAGE, &page) == 0);
  EXPECT(!pthread_join(reader, NULL));
  EXPECT(reading.bytes > 0);
  close(faults);
  close(reading.session);
}

int main(int count, char** arguments) {
  if (count > 1 && !strcmp(arguments[1], "wait")) {
    for (;;) pause();
  }
  RUN(the_device_is_for_its_owner_only);
  RUN(a_user_without_capabilities_cannot_open);
  RUN(either_of_two_capabilities_opens_and_no_other);
  RUN(nothing_of_a_session_can_be_read_without_privilege);
  RUN(a_descriptor_that_is_handed_on_hands_on_its_targets_alone);
  RUN(a_user_who_may_sample_sees_own_processes_and_no_frames);
  RUN(an_administrator_without_ptrace_sees_frames_of_own_processes);
  RUN(a_target_is_lost_to_who_may_not_see_the_program_that_it_executes);
  RUN(sessions_are_limited_by_the_modules_option);
  RUN(memory_of_all_sessions_is_limited_by_the_modules_option);
  RUN(memory_that_there_is_not_is_refused_and_nobody_is_killed_for_it);
  RUN(info_tells_the_limits);
  RUN(malformed_heads_are_refused);
  RUN(a_target_is_gone_once_its_process_has_exited);
  RUN(a_target_is_added_once_and_its_id_never_reused);
  RUN(targets_that_cannot_be_are_refused);
  RUN(a_target_too_many_is_refused_and_takes_none_away);
  RUN(other_tables_of_a_targets_memory_are_told);
  RUN(the_address_space_changes_with_an_exec);
  RUN(a_reader_that_stands_still_holds_up_neither_scans_nor_questions);
  return 0;
}
