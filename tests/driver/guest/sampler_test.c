// SPDX-License-Identifier: Apache-2.0
/* Samples and gates, from a PMU whose samples and counts this program writes (fake_sampler). */

#include "tests/driver/guest/fake_sampler.h"

#define FROM_CACHE (PERF_MEM_S(OP, LOAD) | (__u64)PERF_MEM_LVLNUM_L2 << PERF_MEM_LVLNUM_SHIFT)
#define FROM_NOWHERE(op) \
  (PERF_MEM_S(OP, op) | PERF_MEM_S(LVL, NA) | (__u64)PERF_MEM_LVLNUM_NA << PERF_MEM_LVLNUM_SHIFT)
#define PREFETCH (PERF_MEM_S(OP, PFETCH) | (__u64)PERF_MEM_LVLNUM_RAM << PERF_MEM_LVLNUM_SHIFT)

static void sample(volatile char* address, __u64 data_source) {
  struct script_record record = {KIND_SAMPLE, (unsigned long)address, data_source, 0x1234567};

  write_script(&record, 1);
}

static int open_sampling(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.sample_event.type = fake_type;
  params.sample_event.flags = TMPROF_EVENT_PRESENT | TMPROF_EVENT_DATA_SRC | TMPROF_EVENT_PHYS_ADDR;
  params.sample_period = 1000;
  params.ring_samples = 64;
  params.log_samples = 32;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  return session;
}

/* A gate that opens above a fifth of the largest count of one of the fake PMU's events: 1 counts,
 * 99 is refused. */
static int open_gated(__u64 period_ns, __u64 config) {
  int session = open_sampling();
  struct tmprof_params params = params_of(session);

  params.gate_period_ns = period_ns;
  params.gate[TMPROF_SAMPLER] = (struct tmprof_gate){
      .mode = TMPROF_GATE_COUNTED,
      .threshold_permille = 200,
      .event = {.type = fake_type, .flags = TMPROF_EVENT_PRESENT, .config = config},
  };
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  return session;
}

/* The process itself, whose page at `base` is touched. */
static void sample_self(int session, volatile char* base) {
  touch(base, 1, 1);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
}

static struct tmprof_page_record records[1024];

static size_t end_epoch(int session) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  ssize_t bytes;

  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  bytes = read(session, records, sizeof(records));
  EXPECT_EQ(bytes, epoch.records * sizeof(records[0]));
  return epoch.records;
}

static void samples_from_beyond_the_cache_are_counted_by_page(void) {
  volatile char* base = map_aligned(8 * PAGE, MADV_NOHUGEPAGE);
  volatile char* huge = map_aligned(PAGES_PER_HUGE * PAGE, MADV_HUGEPAGE);
  int session = open_sampling(), i;
  struct tmprof_stats stats;
  __u32 self = add_target(session, getpid());
  size_t low = huge < base, count;

  touch(base, 8, 1);
  touch(huge, 1, 1);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  for (i = 0; i < 5; i++) sample(base + 3 * PAGE + i * 8, FROM_MEMORY(LOAD));
  for (i = 0; i < 3; i++) sample(base + 3 * PAGE, FROM_MEMORY(STORE));
  for (i = 0; i < 4; i++) sample(huge + (100 + i) * PAGE, FROM_MEMORY(LOAD));
  sample(base, FROM_CACHE);
  sample(base, PREFETCH);
  sample(base, 0);
  write_script(&(struct script_record){KIND_NO_ADDRESS, 0, 0, 0}, 1);
  sample((char*)~0xfffUL, FROM_MEMORY(LOAD));
  stats = stats_of(session);
  EXPECT_EQ(stats.samples_taken, 17);
  EXPECT_EQ(stats.samples_counted, 12);
  EXPECT_EQ(stats.samples_near, 1);
  EXPECT_EQ(stats.samples_not_demand, 2);
  EXPECT_EQ(stats.samples_no_address, 2);
  EXPECT_EQ(stats.samples_ring_full, 0);
  EXPECT(stats.cpus_sampling >= 1);
  count = end_epoch(session);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(records[!low ? 0 : 1].vpn, (unsigned long)base / PAGE + 3);
  EXPECT_EQ(records[!low ? 0 : 1].load_samples, 5);
  EXPECT_EQ(records[!low ? 0 : 1].store_samples, 3);
  EXPECT_EQ(records[!low ? 0 : 1].span_pages, 1);
  EXPECT(records[!low ? 0 : 1].node != TMPROF_NO_NODE);
  EXPECT_EQ(records[low ? 0 : 1].vpn, (unsigned long)huge / PAGE);
  EXPECT_EQ(records[low ? 0 : 1].load_samples, 4);
  EXPECT_EQ(records[low ? 0 : 1].span_pages, PAGES_PER_HUGE);
  EXPECT_EQ(records[0].target_id, self);
  EXPECT_EQ(records[0].references, 0);
  close(session);
}

static void samples_of_unknown_source_count_if_only_misses_are_sampled(void) {
  volatile char* base = map_aligned(2 * PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;

  params.sample_event.flags |= TMPROF_EVENT_ONLY_MISSES;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  sample_self(session, base);
  sample(base, FROM_MEMORY(LOAD));
  sample(base, FROM_NOWHERE(LOAD));
  sample(base, FROM_NOWHERE(STORE));
  sample(base, FROM_CACHE);
  sample(base, PREFETCH);
  stats = stats_of(session);
  EXPECT_EQ(stats.samples_counted, 3);
  EXPECT_EQ(stats.samples_unknown_source, 0);
  EXPECT_EQ(stats.samples_near, 1);
  EXPECT_EQ(stats.samples_not_demand, 1);
  EXPECT_EQ(end_epoch(session), 1);
  EXPECT_EQ(records[0].load_samples, 2);
  EXPECT_EQ(records[0].store_samples, 1);
  close(session);
}

static void samples_of_other_processes_are_foreign(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling();
  pid_t child;

  sample_self(session, base);
  child = fork();
  if (child == 0) {
    sample(base, FROM_MEMORY(LOAD));
    exit(0);
  }
  EXPECT(waitpid(child, NULL, 0) == child);
  EXPECT_EQ(stats_of(session).samples_foreign, 1);
  EXPECT_EQ(end_epoch(session), 0);
  close(session);
}

static void the_log_keeps_the_newest_samples_whole(void) {
  struct tmprof_sample samples[64];
  struct tmprof_read_samples request = {
      .head = HEAD(struct tmprof_read_samples),
      .samples = (unsigned long)samples,
      .capacity = 64,
  };
  volatile char* base = map_aligned(40 * PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling(), i;
  __u32 self = add_target(session, getpid());

  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request), ENXIO);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  for (i = 0; i < 40; i++) {
    sample(base + i * PAGE, FROM_MEMORY(LOAD));
    stats_of(session); /* folds, so that they come in order of time from whichever CPU */
  }
  EXPECT(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request) == 0);
  EXPECT_EQ(request.count, 32);
  EXPECT_EQ(request.overwritten, 8);
  for (i = 0; i < 32; i++) {
    EXPECT_EQ(samples[i].address, (unsigned long)(base + (i + 8) * PAGE));
    EXPECT_EQ(samples[i].physical_address, 0x1234567);
    EXPECT_EQ(samples[i].data_source, FROM_MEMORY(LOAD));
    EXPECT_EQ(samples[i].pid, getpid());
    EXPECT_EQ(samples[i].tid, gettid());
    EXPECT_EQ(samples[i].target_id, self);
    EXPECT(i == 0 || samples[i].time_ns >= samples[i - 1].time_ns);
  }
  EXPECT_EQ(stats_of(session).samples_unmapped, 40); /* never touched */
  close(session);
}

/* Physical address in this process; bits 0 to 54 of an entry of /proc/PID/pagemap are the frame. */
static __u64 physical(volatile char* address) {
  int pagemap = open("/proc/self/pagemap", O_RDONLY);
  __u64 entry;

  EXPECT(pagemap >= 0);
  EXPECT_EQ(pread(pagemap, &entry, 8, (unsigned long)address / PAGE * 8), 8);
  EXPECT(entry >> 63); /* present */
  close(pagemap);
  return (entry & ((1ULL << 55) - 1)) * PAGE + (unsigned long)address % PAGE;
}

static void physical_addresses_come_from_the_page_tables_where_the_pmu_has_none(void) {
  volatile char* base = map_aligned(8 * PAGE, MADV_NOHUGEPAGE);
  volatile char* huge = map_aligned(PAGES_PER_HUGE * PAGE, MADV_HUGEPAGE);
  volatile char* addresses[] = {base + 3 * PAGE + 0x128, huge + 100 * PAGE + 0x40, base + 7 * PAGE};
  struct tmprof_sample samples[4];
  struct tmprof_read_samples request = {
      .head = HEAD(struct tmprof_read_samples),
      .samples = (unsigned long)samples,
      .capacity = 4,
  };
  int session = open_sampling(), i;

  touch(base, 4, 1);
  touch(huge, 1, 1);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  for (i = 0; i < 3; i++) {
    struct script_record record = {KIND_SAMPLE, (unsigned long)addresses[i], FROM_MEMORY(LOAD), 0};

    write_script(&record, 1);
    stats_of(session); /* folds: one after the other, whichever CPU they are of */
  }
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request) == 0);
  EXPECT_EQ(request.count, 4);
  EXPECT_EQ(samples[0].physical_address, physical(addresses[0]));
  EXPECT_EQ(samples[1].physical_address, physical(addresses[1]));
  EXPECT_EQ(samples[2].physical_address, TMPROF_UNKNOWN); /* never touched */
  EXPECT_EQ(samples[3].physical_address, 0x1234567);      /* the address from the PMU */
  close(session);
}

static void a_stopped_samplers_log_stays_until_the_next_start(void) {
  struct tmprof_sample samples[32];
  struct tmprof_read_samples request = {
      .head = HEAD(struct tmprof_read_samples),
      .samples = (unsigned long)samples,
      .capacity = 2,
  };
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling(), i;
  struct tmprof_params params = params_of(session);

  sample_self(session, base);
  for (i = 0; i < 37; i++) sample(base + i * 8, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request) == 0);
  EXPECT_EQ(request.count, 2);
  EXPECT_EQ(request.overwritten, 5);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  request.capacity = 32;
  EXPECT(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request) == 0);
  EXPECT_EQ(request.count, 0);
  EXPECT_EQ(request.overwritten, 5 + 30);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request) == 0);
  EXPECT_EQ(request.count, 1);
  EXPECT_EQ(samples[0].address, (unsigned long)base);
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_READ_SAMPLES, &request), ENXIO);
  close(session);
}

static void a_full_ring_loses_samples_and_says_so(void) {
  enum { kMany = 1000 };
  static struct script_record many[kMany];
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling(), i;
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;

  params.ring_samples = 16;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  sample_self(session, base);
  for (i = 0; i < kMany; i++)
    many[i] = (struct script_record){KIND_SAMPLE, (unsigned long)base, FROM_MEMORY(LOAD), 0};
  do {
    write_script(many, kMany);
    stats = stats_of(session);
    EXPECT_EQ(stats.samples_counted + stats.samples_ring_full, stats.samples_taken);
  } while (!stats.samples_ring_full);
  close(session);
}

static void set_option(const char* name, int value) {
  char path[64];
  FILE* option;

  snprintf(path, sizeof(path), "/sys/module/fake_sampler/parameters/%s", name);
  option = fopen(path, "w");
  EXPECT(option != NULL && fprintf(option, "%d", value) > 0 && fclose(option) == 0);
}

static __u32 type_of(const char* pmu) {
  char path[96];
  __u32 type = 0;
  FILE* file;

  snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", pmu);
  file = fopen(path, "r");
  EXPECT(file != NULL && fscanf(file, "%u", &type) == 1);
  fclose(file);
  return type;
}

/* Probes run code of the kernel or of programs: they sample no memory. */
static void probes_are_refused(void) {
  const struct {
    const char *pmu, *place;
    __u64 offset;
  } probes[] = {{"kprobe", "do_nanosleep", 0}, {"uprobe", "/proc/self/exe", 0x1000}};
  size_t i;

  for (i = 0; i < 2; i++) {
    const struct tmprof_event probe = {.type = type_of(probes[i].pmu),
                                       .flags = TMPROF_EVENT_PRESENT,
                                       .config1 = (unsigned long)probes[i].place,
                                       .config2 = probes[i].offset};
    int session = open_sampling();
    struct tmprof_params params = params_of(session);

    params.sample_event = probe;
    EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
    EXPECT_ERRNO(control(session, TMPROF_MASK_SAMPLER, TMPROF_START), EINVAL);
    close(session);

    session = open_sampling();
    params = params_of(session);
    params.gate[TMPROF_SAMPLER] = (struct tmprof_gate){.mode = TMPROF_GATE_COUNTED, .event = probe};
    EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
    EXPECT_ERRNO(control(session, TMPROF_MASK_SAMPLER, TMPROF_START), EINVAL);
    close(session);
  }
}

static void guests_are_left_out_by_pmus_that_can(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int mode;

  for (mode = 0; mode <= 2; mode++) {
    int session = open_sampling();

    set_option("guests", mode);
    sample_self(session, base);
    sample(base, FROM_MEMORY(LOAD));
    EXPECT_EQ(stats_of(session).samples_counted, 1);
    close(session);
  }
  set_option("guests", 0);
}

static void an_event_that_perf_refuses_fails_the_start_of_all(void) {
  int session = open_sampling();
  struct tmprof_params params = params_of(session);

  params.sample_event.config = 99;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ALL, TMPROF_START), EINVAL);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_STOP), ENODEV);
  memset(&params.sample_event, 0, sizeof(params.sample_event));
  params.sample_period = 0;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT_ERRNO(control(session, TMPROF_MASK_SAMPLER, TMPROF_START), ENXIO);
  close(session);
}

static void samples_at_which_perf_throttles_are_counted_as_such(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling(), i;
  struct tmprof_stats stats;

  sample_self(session, base);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT_EQ(stats_of(session).samples_throttled, 0);
  for (i = 0; i < 3; i++) {
    write_script(&(struct script_record){KIND_THROTTLE, (unsigned long)base, FROM_MEMORY(LOAD), 0},
                 1);
  }
  stats = stats_of(session);
  EXPECT_EQ(stats.samples_throttled, 3);
  EXPECT_EQ(stats.samples_counted, 4);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  EXPECT_EQ(stats_of(session).samples_throttled, 3);
  close(session);
}

static void a_paused_sampler_takes_nothing(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling();

  sample_self(session, base);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_PAUSE) == 0);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_RESUME) == 0);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  EXPECT_EQ(stats_of(session).samples_taken, 2);
  EXPECT_EQ(end_epoch(session), 1);
  EXPECT_EQ(records[0].load_samples, 2);
  close(session);
}

static void sampling_follows_cpus_that_go_and_come(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling();
  cpu_set_t both;

  EXPECT(sched_getaffinity(0, sizeof(both), &both) == 0);
  sample_self(session, base);
  EXPECT_EQ(stats_of(session).cpus_sampling, 2);
  set_second_cpu_online(0);
  EXPECT_EQ(stats_of(session).cpus_sampling, 1);
  sample(base, FROM_MEMORY(LOAD));
  set_second_cpu_online(1);
  EXPECT_EQ(stats_of(session).cpus_sampling, 2);
  run_on_cpu(1);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT_EQ(stats_of(session).samples_counted, 2);
  EXPECT(sched_setaffinity(0, sizeof(both), &both) == 0);
  close(session);
}

/* Has each look of a gate count that much from now on. */
static void let_gates_count(__u64 count) {
  write_script(&(struct script_record){KIND_COUNT, count, 0, 0}, 1);
}

/* The same, and waits until the source's gate has judged a period of that count. A closed gate
 * judges parts of a period, and scales their counts up: this count has to open it. */
static struct tmprof_stats next_count_of(int session, enum tmprof_source source, __u64 count) {
  struct tmprof_stats stats;

  let_gates_count(count);
  do stats = stats_of(session);
  while (stats.gate_count[source] != count);
  return stats;
}

static struct tmprof_stats next_count(int session, __u64 count) {
  return next_count_of(session, TMPROF_SAMPLER, count);
}

static void a_gate_opens_above_a_fifth_of_the_largest_count(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_gated(50000000, 1);
  struct tmprof_stats stats;

  sample_self(session, base);
  stats = next_count(session, 1000);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 1);
  EXPECT_EQ(stats.gate_max[TMPROF_SAMPLER], 1000);
  stats = next_count(session, 200);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 0);
  stats = next_count(session, 201);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 1);
  EXPECT_EQ(stats.gate_max[TMPROF_SAMPLER], 1000);
  EXPECT_EQ(stats.gate_periods_unknown[TMPROF_SAMPLER], 0);
  EXPECT(stats.active_ns[TMPROF_SAMPLER] < stats.started_ns[TMPROF_SAMPLER]);
  close(session);
}

static void a_gate_that_is_always_off_lets_nothing_through(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;

  params.gate[TMPROF_SAMPLER].mode = TMPROF_GATE_ALWAYS_OFF;
  params.gate[TMPROF_ABIT].mode = TMPROF_GATE_ALWAYS_OFF;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  touch(base, 1, 1);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_START) == 0);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_PAUSE) == 0);
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_RESUME) == 0);
  sample(base, FROM_MEMORY(LOAD));
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_STOP) == 0);
  stats = stats_of(session);
  EXPECT_EQ(stats.samples_taken, 0);
  EXPECT_EQ(stats.chunks, 0);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER] + stats.gate_open[TMPROF_ABIT], 0);
  EXPECT_EQ(stats.active_ns[TMPROF_SAMPLER] + stats.active_ns[TMPROF_ABIT], 0);
  EXPECT(stats.started_ns[TMPROF_SAMPLER] > 0 && stats.started_ns[TMPROF_ABIT] > 0);
  EXPECT_EQ(end_epoch(session), 0);
  close(session);
}

static void a_count_that_steps_back_is_unknown(void) {
  int session = open_gated(40000000, 1);
  struct tmprof_stats stats;

  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  next_count(session, 1000);
  stats = next_count(session, -1);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 1);
  EXPECT_EQ(stats.gate_max[TMPROF_SAMPLER], 1000);
  EXPECT(stats.gate_periods_unknown[TMPROF_SAMPLER] > 0);
  close(session);
  let_gates_count(0);
}

/* The efficient cores of a hybrid processor are such CPUs. */
static void a_cpu_of_another_kind_is_done_without(void) {
  volatile char* base = map_aligned(PAGE, MADV_NOHUGEPAGE);
  int session = open_gated(40000000, 1);
  struct tmprof_stats stats;

  set_option("foreign_cpu", 1);
  sample_self(session, base);
  stats = next_count(session, 1000);
  EXPECT_EQ(stats.gate_periods_unknown[TMPROF_SAMPLER], 0);
  EXPECT_EQ(stats.cpus_sampling, 1);
  set_second_cpu_online(0);
  set_second_cpu_online(1);
  stats = stats_of(session);
  EXPECT_EQ(stats.cpus_sampling, 1);
  EXPECT_EQ(stats.cpus_failed, 0);
  set_option("foreign_cpu", -1);
  close(session);
  let_gates_count(0);
}

static void a_gate_is_unknown_while_a_cpu_has_no_event(void) {
  int session = open_gated(40000000, 1);
  struct tmprof_stats stats;

  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  EXPECT_EQ(next_count(session, 1000).gate_periods_unknown[TMPROF_SAMPLER], 0);
  set_second_cpu_online(0);
  set_option("refused_cpu", 1);
  set_second_cpu_online(1);
  let_gates_count(2000);
  do stats = stats_of(session);
  while (stats.gate_count[TMPROF_SAMPLER] != TMPROF_UNKNOWN);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 1);
  EXPECT_EQ(stats.cpus_failed, 1);
  EXPECT_EQ(stats.cpus_sampling, 1);
  set_option("refused_cpu", -1);
  set_second_cpu_online(0);
  set_second_cpu_online(1);
  EXPECT_EQ(stats_of(session).cpus_sampling, 2);
  next_count(session, 1000);
  close(session);
  let_gates_count(0);
}

static void a_gate_that_cannot_count_stays_open_and_unknown(void) {
  int session = open_gated(1000000, 99);
  struct tmprof_stats stats;

  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  do stats = stats_of(session);
  while (stats.gate_periods_unknown[TMPROF_SAMPLER] < 3);
  EXPECT_EQ(stats.gate_open[TMPROF_SAMPLER], 1);
  EXPECT_EQ(stats.gate_count[TMPROF_SAMPLER], TMPROF_UNKNOWN);
  EXPECT_EQ(stats.gate_max[TMPROF_SAMPLER], TMPROF_UNKNOWN);
  close(session);
}

/* A value that debugfs shows for the only session. */
static long shown(const char* name) {
  char path[64];
  FILE* list = popen("ls /sys/kernel/debug/tmprof/*/stats", "r");

  EXPECT(list != NULL);
  EXPECT_EQ(fscanf(list, "%63s", path), 1);
  EXPECT_EQ(pclose(list), 0);
  return proc_number(path, name);
}

/* Scans of the process itself, as many as can be, through a gate of its own. */
static int open_gated_scan(__u64 config) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.gate_period_ns = 200000000;
  params.gate[TMPROF_ABIT] = (struct tmprof_gate){
      .mode = TMPROF_GATE_COUNTED,
      .threshold_permille = 200,
      .event = {.type = fake_type, .flags = TMPROF_EVENT_PRESENT, .config = config},
  };
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  return session;
}

static void wait_for_passes(int session, __u64 more) {
  __u64 passes = stats_of(session).passes;

  while (stats_of(session).passes < passes + more) sched_yield();
}

static void a_quiet_gate_stops_scans_and_a_busy_one_resumes_them(void) {
  int session = open_gated_scan(1);
  struct tmprof_stats quiet, later;

  EXPECT_EQ(next_count_of(session, TMPROF_ABIT, 1000).gate_open[TMPROF_ABIT], 1);
  EXPECT_EQ(shown("gate_open[TMPROF_ABIT] "), 1);
  wait_for_passes(session, 3);
  /* While it is off each quarter of a period counts that much, which makes a fifth of 1000. */
  let_gates_count(50);
  do quiet = stats_of(session);
  while (quiet.gate_open[TMPROF_ABIT]);
  EXPECT_EQ(shown("gate_open[TMPROF_ABIT] "), 0);
  EXPECT_EQ(shown("gate_open[TMPROF_SAMPLER] "), quiet.gate_open[TMPROF_SAMPLER]);
  do later = stats_of(session);
  while (later.started_ns[TMPROF_ABIT] < quiet.started_ns[TMPROF_ABIT] + 200000000);
  EXPECT_EQ(later.chunks, quiet.chunks);
  EXPECT_EQ(later.active_ns[TMPROF_ABIT], quiet.active_ns[TMPROF_ABIT]);
  later = next_count_of(session, TMPROF_ABIT, 201);
  EXPECT_EQ(later.gate_open[TMPROF_ABIT], 1);
  EXPECT_EQ(later.gate_max[TMPROF_ABIT], 1000);
  /* In the very step that opened it, as the totals are read between steps. */
  EXPECT(later.chunks > quiet.chunks);
  wait_for_passes(session, 3);
  EXPECT(stats_of(session).active_ns[TMPROF_ABIT] > quiet.active_ns[TMPROF_ABIT]);
  EXPECT_EQ(stats_of(session).gate_periods_unknown[TMPROF_ABIT], 0);
  close(session);
  let_gates_count(0);
}

static void scans_go_on_while_their_gate_is_unknown(void) {
  int session = open_gated_scan(99), round;
  struct tmprof_stats stats;

  for (round = 1; round <= 3; round++) {
    wait_for_passes(session, 3);
    do stats = stats_of(session);
    while (stats.gate_periods_unknown[TMPROF_ABIT] < (__u64)round);
  }
  EXPECT_EQ(stats.gate_open[TMPROF_ABIT], 1);
  EXPECT_EQ(stats.gate_count[TMPROF_ABIT], TMPROF_UNKNOWN);
  EXPECT_EQ(stats.active_ns[TMPROF_ABIT], stats.started_ns[TMPROF_ABIT]);
  close(session);
}

/* The fates of samples; each sample is in one of these. */
static __u64 accounted(const struct tmprof_stats* stats) {
  return stats->samples_counted + stats->samples_foreign + stats->samples_guest +
         stats->samples_no_address + stats->samples_near + stats->samples_not_demand +
         stats->samples_unknown_source + stats->samples_ring_full;
}

/* Writes `batches` of 100 samples, for the CPUs in turns. */
static pid_t sample_by_nmi(volatile char* base, int batches) {
  static struct script_record batch[100];
  pid_t child = fork();
  size_t i;

  EXPECT(child >= 0);
  if (child) return child;
  for (i = 0; i < 100; i++)
    batch[i] =
        (struct script_record){KIND_SAMPLE, (unsigned long)base + i * PAGE, FROM_MEMORY(LOAD), 0};
  for (; batches; batches--) {
    set_option("nmi_cpu", batches % 2);
    write_script(batch, 100);
  }
  set_option("nmi_cpu", -1);
  exit(0);
}

/* Whoever is interrupted may be this process, folding, or the driver's worker. */
static void samples_that_arrive_in_nmis_while_others_are_folded_are_all_accounted_for(void) {
  enum { kBatches = 40 };
  volatile char* base = map_aligned(100 * PAGE, MADV_NOHUGEPAGE);
  int session = open_sampling(), status;
  __u64 folds = 0, samples = 0;
  struct tmprof_stats stats;
  size_t i, count;
  pid_t writer;

  touch(base, 100, 1);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  writer = sample_by_nmi(base, kBatches);
  for (; waitpid(writer, &status, WNOHANG) == 0; folds++) stats_of(session);
  EXPECT_EQ(status, 0);
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  stats = stats_of(session);
  EXPECT_EQ(stats.samples_taken, 100 * kBatches);
  EXPECT_EQ(accounted(&stats), stats.samples_taken);
  EXPECT(stats.samples_counted > 0); /* this process was interrupted */
  EXPECT_EQ(stats.samples_near + stats.samples_not_demand + stats.samples_no_address, 0);
  count = end_epoch(session);
  for (i = 0; i < count; i++) samples += records[i].load_samples;
  EXPECT_EQ(samples, stats.samples_counted);
  printf("%llu samples in NMIs through %llu folds: %llu counted, %llu of others, %llu lost\n",
         stats.samples_taken, folds, stats.samples_counted, stats.samples_foreign,
         stats.samples_ring_full);
  close(session);
}

static int open_everything(void) {
  int session = open_sampling();
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = 3600000000000ULL; /* a pass at each start */
  params.scan_budget_ns = 1000000000;
  params.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  return session;
}

/* References to each of the pages from `base` on, added to `sums`; returns samples of the first. */
static __u64 take_pages(int session, volatile char* base, size_t pages, __u32* sums) {
  unsigned long first = (unsigned long)base / PAGE;
  size_t i, count = end_epoch(session);
  __u64 samples = 0;

  for (i = 0; i < count; i++) {
    size_t page = records[i].vpn - first;

    if (records[i].vpn < first || page >= pages) continue;
    sums[page] += records[i].references;
    samples += page ? 0 : records[i].load_samples;
  }
  return samples;
}

/* Sessions do not know of each other: each bit is one's, and each sample both's. */
static void two_sessions_share_a_targets_bits_and_have_all_its_samples_each(void) {
  enum { kPages = 512, kRounds = 20 };
  volatile char* base = map_aligned(kPages * PAGE, MADV_NOHUGEPAGE);
  int sessions[] = {open_everything(), open_everything()};
  __u64 samples[2] = {0, 0}, taken[2];
  __u32 references[kPages] = {0};
  int round, which;
  size_t i;

  for (round = 0; round < kRounds; round++) {
    touch(base, kPages, 1);
    for (which = 0; which < 2; which++) {
      taken[which] = stats_of(sessions[which]).passes;
      EXPECT(control(sessions[which], TMPROF_MASK_ABIT, TMPROF_START) == 0);
    }
    sample(base, FROM_MEMORY(LOAD));
    for (which = 0; which < 2; which++) {
      while (stats_of(sessions[which]).passes == taken[which]) sched_yield();
      EXPECT(control(sessions[which], TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
    }
    for (which = 0; which < 2; which++)
      samples[which] += take_pages(sessions[which], base, kPages, references);
  }
  for (i = 1; i < kPages; i++) EXPECT_EQ(references[i], kRounds);
  for (which = 0; which < 2; which++) {
    EXPECT_EQ(samples[which], kRounds);
    EXPECT_EQ(stats_of(sessions[which]).samples_counted, kRounds);
    close(sessions[which]);
  }
}

int main(void) {
  load_fake_sampler();
  RUN(samples_from_beyond_the_cache_are_counted_by_page);
  RUN(samples_of_unknown_source_count_if_only_misses_are_sampled);
  RUN(samples_of_other_processes_are_foreign);
  RUN(the_log_keeps_the_newest_samples_whole);
  RUN(physical_addresses_come_from_the_page_tables_where_the_pmu_has_none);
  RUN(a_stopped_samplers_log_stays_until_the_next_start);
  RUN(a_full_ring_loses_samples_and_says_so);
  RUN(probes_are_refused);
  RUN(guests_are_left_out_by_pmus_that_can);
  RUN(an_event_that_perf_refuses_fails_the_start_of_all);
  RUN(samples_at_which_perf_throttles_are_counted_as_such);
  RUN(a_paused_sampler_takes_nothing);
  RUN(sampling_follows_cpus_that_go_and_come);
  RUN(a_gate_that_is_always_off_lets_nothing_through);
  RUN(a_gate_opens_above_a_fifth_of_the_largest_count);
  RUN(a_count_that_steps_back_is_unknown);
  RUN(a_gate_is_unknown_while_a_cpu_has_no_event);
  RUN(a_cpu_of_another_kind_is_done_without);
  RUN(a_gate_that_cannot_count_stays_open_and_unknown);
  RUN(a_quiet_gate_stops_scans_and_a_busy_one_resumes_them);
  RUN(scans_go_on_while_their_gate_is_unknown);
  RUN(samples_that_arrive_in_nmis_while_others_are_folded_are_all_accounted_for);
  RUN(two_sessions_share_a_targets_bits_and_have_all_its_samples_each);
  unload_fake_sampler();
  return 0;
}
