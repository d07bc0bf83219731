/* SPDX-License-Identifier: Apache-2.0 */
/* The PMU whose samples and counts a program of the guest writes (tests/driver/fake_sampler). */
#ifndef TMPROF_TESTS_DRIVER_GUEST_FAKE_SAMPLER_H
#define TMPROF_TESTS_DRIVER_GUEST_FAKE_SAMPLER_H

#include <linux/perf_event.h>

#include "tests/driver/fake_sampler/script.h"
#include "tests/driver/guest/guest.h"

#define FROM_MEMORY(op) \
  (PERF_MEM_S(OP, op) | PERF_MEM_S(LVL, HIT) | (__u64)PERF_MEM_LVLNUM_RAM << PERF_MEM_LVLNUM_SHIFT)

static int script;
static __u32 fake_type;

static inline void load_fake_sampler(void) {
  FILE* type;

  EXPECT(system("insmod fake_sampler.ko") == 0);
  type = fopen("/sys/bus/event_source/devices/tmprof_fake/type", "r");
  EXPECT(type != NULL);
  EXPECT_EQ(fscanf(type, "%u", &fake_type), 1);
  fclose(type);
  script = open(SCRIPT_PATH, O_WRONLY | O_CLOEXEC);
  EXPECT(script >= 0);
}

static inline void unload_fake_sampler(void) {
  close(script);
  EXPECT(system("rmmod fake_sampler") == 0);
}

static inline void write_script(const struct script_record* records, size_t count) {
  EXPECT_EQ(write(script, records, count * sizeof(records[0])), count * sizeof(records[0]));
}

#endif /* TMPROF_TESTS_DRIVER_GUEST_FAKE_SAMPLER_H */
