// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module: its parts begin here, and end in reverse. Each file includes only files below it:
 *
 *   main          this table of contents
 *   device        /dev/tmprof: who may open it, and the ioctls
 *   control       the life of a session: open, set up, start, pause, stop, close
 *   worker        the session's kernel thread, which does what is due
 *   gate          turns sources on and off by counts of events
 *   epoch         ends epochs and gives out their records
 *   stats_report  gives out totals: STATS and debugfs
 *   scan_turns    whose turn the scan is, and what its budget allows
 *   abit_scan     the full scan
 *   region_scan   the scan by regions
 *   range_scan    the scan of a range, on demand
 *   sampler       address samples
 *   target        the processes that are observed
 *   stats         counts totals
 *   cpu_events    one perf event on every CPU
 *   page_walk     the page tables of an address space
 *   region_watch  the regions of one target
 *   session       the state of one open file, and the locks of all
 *   allocation    memory for sessions
 *
 * driver/core/ has the arithmetic, which user space compiles too, and driver/compat/ what differs
 * by kernel version.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "driver/cpu_events.h"
#include "driver/device.h"
#include "driver/stats_report.h"
#include "driver/target.h"

static int __init tmprof_init(void)
{
	int error;

	if (boot_cpu_has(X86_FEATURE_XENPV)) {
		pr_err("not loaded: under Xen PV the hypervisor owns the page tables' accessed "
		       "bits\n");
		return -ENODEV;
	}
	error = tmprof_targets_init();
	if (error) {
		pr_err("not loaded: no memory for a work queue: %d\n", error);
		return error;
	}
	error = tmprof_cpu_events_init();
	if (error) {
		tmprof_targets_exit();
		pr_err("not loaded: no CPU hotplug state is left: %d\n", error);
		return error;
	}
	tmprof_debug_init();
	error = tmprof_device_init();
	if (!error)
		return 0;
	tmprof_debug_exit();
	tmprof_cpu_events_exit();
	tmprof_targets_exit();
	pr_err("not loaded: registering the device failed: %d\n", error);
	return error;
}

static void __exit tmprof_exit(void)
{
	tmprof_device_exit();
	tmprof_debug_exit();
	tmprof_cpu_events_exit();
	tmprof_targets_exit();
}

module_init(tmprof_init);
module_exit(tmprof_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The tmprof authors");
MODULE_DESCRIPTION("Page heat from accessed bits and address samples");
MODULE_VERSION("0.1.0");
