/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Records that a test writes to debugfs fake_sampler/script, any number at a time. */
#ifndef TMPROF_TESTS_FAKE_SAMPLER_SCRIPT_H
#define TMPROF_TESTS_FAKE_SAMPLER_SCRIPT_H

#include <linux/types.h>

#define SCRIPT_PATH "/sys/kernel/debug/fake_sampler/script"

/* Values of attr.config. */
enum script_config {
	CONFIG_SAMPLE = 0,
	CONFIG_COUNT = 1,
};

enum script_kind {
	KIND_SAMPLE = 0, /* to CONFIG_SAMPLE */
	KIND_COUNT = 1,	 /* adds `value` to each later reading of CONFIG_COUNT */
	KIND_NO_ADDRESS = 2,
	KIND_THROTTLE = 3, /* a sample after which perf holds the event back */
};

struct script_record {
	__u64 kind;
	__u64 value; /* address or count */
	__u64 data_source;
	__u64 physical_address; /* 0: none */
};

#endif /* TMPROF_TESTS_FAKE_SAMPLER_SCRIPT_H */
