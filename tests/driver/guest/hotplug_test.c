// SPDX-License-Identifier: Apache-2.0
/* CPUs that go and come while events are made and freed that patch the kernel's code: page faults,
 * which take the CPU hotplug lock to do so. */

#include <linux/perf_event.h>

#include "tests/driver/guest/guest.h"

/* Each fault is a sample of the address that faulted. */
static const struct tmprof_event page_faults = {
    .type = PERF_TYPE_SOFTWARE,
    .config = PERF_COUNT_SW_PAGE_FAULTS,
    .flags = TMPROF_EVENT_PRESENT,
};

/* The gate is the other source's, so that all is sampled. */
static int open_with_events(struct tmprof_event sampled, struct tmprof_event gating) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.epoch_ns = 0;
  params.sample_event = sampled;
  params.sample_period = 1;
  params.gate_period_ns = 10000000;
  params.gate[TMPROF_ABIT] =
      (struct tmprof_gate){.mode = TMPROF_GATE_COUNTED, .threshold_permille = 0, .event = gating};
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_START) == 0);
  return session;
}

/* Samples of the pages from `start` on in the epoch that ends now; each page has one record. */
static __u64 samples_of(int session, volatile char* start, size_t pages) {
  static struct tmprof_page_record records[4096];
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  unsigned long first = (unsigned long)start / PAGE;
  __u64 samples = 0;
  size_t i;

  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  EXPECT_EQ(read(session, records, sizeof(records)), epoch.records * sizeof(records[0]));
  for (i = 0; i < epoch.records; i++) {
    if (records[i].vpn >= first && records[i].vpn < first + pages)
      samples += records[i].load_samples;
  }
  return samples;
}

static void wait_for_a_known_count(int session) {
  struct tmprof_stats stats;

  do stats = stats_of(session);
  while (stats.gate_count[TMPROF_ABIT] == TMPROF_UNKNOWN);
}

static void page_faults_are_sampled_through_hotplug(void) {
  const size_t pages = 16;
  volatile char* before = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  volatile char* after = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_with_events(page_faults, page_faults);
  cpu_set_t both;
  __u64 unknown;

  EXPECT(sched_getaffinity(0, sizeof(both), &both) == 0);
  run_on_cpu(1);
  touch(before, pages, 1);
  EXPECT_EQ(samples_of(session, before, pages), pages);
  wait_for_a_known_count(session);
  run_on_cpu(0);
  set_second_cpu_online(0);
  EXPECT_EQ(stats_of(session).cpus_sampling, 1);
  unknown = stats_of(session).gate_periods_unknown[TMPROF_ABIT];
  set_second_cpu_online(1);
  EXPECT_EQ(stats_of(session).cpus_sampling, 2);
  run_on_cpu(1);
  touch(after, pages, 1);
  EXPECT_EQ(samples_of(session, after, pages), pages);
  /* Nobody knows what the CPU did before its event was there. */
  while (stats_of(session).gate_periods_unknown[TMPROF_ABIT] == unknown) continue;
  wait_for_a_known_count(session);
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_STOP) == 0);
  EXPECT_EQ(stats_of(session).cpus_failed, 0);
  EXPECT(sched_setaffinity(0, sizeof(both), &both) == 0);
  close(session);
}

/* The CPU is away at one of START and STOP, and there at the other. */
static void a_cpu_may_be_away_at_the_start_or_the_stop(void) {
  int session;

  set_second_cpu_online(0);
  session = open_with_events(page_faults, page_faults);
  EXPECT_EQ(stats_of(session).cpus_sampling, 1);
  set_second_cpu_online(1);
  EXPECT_EQ(stats_of(session).cpus_sampling, 2);
  set_second_cpu_online(0);
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_STOP) == 0);
  close(session);
  set_second_cpu_online(1);
}

static pid_t switch_second_cpu_all_the_time(void) {
  pid_t child = fork();
  int online;

  EXPECT(child >= 0);
  if (child) return child;
  for (online = 0;; online = !online) set_second_cpu_online(online);
}

static void starts_and_stops_pass_cpus_that_go_and_come(void) {
  pid_t switching = switch_second_cpu_all_the_time();
  int i;

  for (i = 0; i < 20; i++) {
    int session = open_with_events(page_faults, page_faults);

    EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_PAUSE) == 0);
    EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_RESUME) == 0);
    EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_STOP) == 0);
    close(session);
  }
  EXPECT(kill(switching, SIGKILL) == 0);
  EXPECT_EQ(waitpid(switching, NULL, 0), switching);
  set_second_cpu_online(1);
}

int main(void) {
  RUN(page_faults_are_sampled_through_hotplug);
  RUN(a_cpu_may_be_away_at_the_start_or_the_stop);
  RUN(starts_and_stops_pass_cpus_that_go_and_come);
  return 0;
}
