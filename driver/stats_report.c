// SPDX-License-Identifier: GPL-2.0-only

#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>

#include "driver/core/counter_store.h"
#include "driver/core/hold_buckets.h"
#include "driver/sampler.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/stats_report.h"
#include "driver/target.h"

static struct dentry *debug_root;

static void add_counters(struct tmprof_session *session, struct tmprof_stats *stats)
{
	struct tmprof_target *target;
	unsigned long index;

	mutex_lock(&session->counters);
	stats->memory_bytes = session->memory.used_bytes;
	stats->memory_peak_bytes = session->memory.peak_bytes;
	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target)
		stats->pages += target->counts.pages;
	mutex_unlock(&session->targets);
	mutex_unlock(&session->counters);
}

int tmprof_stats_get(struct tmprof_session *session, struct tmprof_stats *request)
{
	struct tmprof_head head = request->head;

	mutex_lock(&session->step);
	tmprof_sampler_fold(session);
	tmprof_stats_snapshot(session, request);
	tmprof_sampler_stats(session, request);
	mutex_unlock(&session->step);
	add_counters(session, request);
	request->head = head;
	return 0;
}

void tmprof_lock_holds_get(struct tmprof_session *session, struct tmprof_lock_holds *request)
{
	spin_lock(&session->stats_lock);
	memcpy(request->holds, session->lock_holds, sizeof(request->holds));
	spin_unlock(&session->stats_lock);
}

struct line {
	const char *name;
	size_t offset;
	size_t bytes;
};

#define LINE(field)                                                                                \
	{#field, offsetof(struct tmprof_stats, field), sizeof_field(struct tmprof_stats, field)}

static const struct line lines[] = {
	LINE(passes),
	LINE(chunks),
	LINE(scan_ns),
	LINE(present_pages),
	LINE(leaves),
	LINE(references),
	LINE(passes_late),
	LINE(passes_failed),
	LINE(cleared_bits),
	LINE(flushes),
	LINE(flush_ns),
	LINE(races),
	LINE(skipped_leaves),
	LINE(mmap_lock_holds),
	LINE(mmap_lock_ns),
	LINE(mmap_lock_max_ns),
	LINE(mmap_lock_busy),
	LINE(range_calls),
	LINE(range_ns),
	LINE(samples_taken),
	LINE(samples_counted),
	LINE(samples_foreign),
	LINE(samples_guest),
	LINE(samples_no_address),
	LINE(samples_near),
	LINE(samples_not_demand),
	LINE(samples_unknown_source),
	LINE(samples_unmapped),
	LINE(samples_unresolved),
	LINE(samples_ring_full),
	LINE(samples_pmu_lost),
	LINE(samples_throttled),
	LINE(cpus_failed),
	LINE(cpus_sampling),
	LINE(pages),
	LINE(memory_bytes),
	LINE(memory_peak_bytes),
	LINE(pages_refused),
	LINE(epochs),
	LINE(epochs_delayed),
	LINE(records_dropped),
	LINE(started_ns[TMPROF_ABIT]),
	LINE(started_ns[TMPROF_SAMPLER]),
	LINE(active_ns[TMPROF_ABIT]),
	LINE(active_ns[TMPROF_SAMPLER]),
	LINE(gate_count[TMPROF_ABIT]),
	LINE(gate_count[TMPROF_SAMPLER]),
	LINE(gate_max[TMPROF_ABIT]),
	LINE(gate_max[TMPROF_SAMPLER]),
	LINE(gate_periods_unknown[TMPROF_ABIT]),
	LINE(gate_periods_unknown[TMPROF_SAMPLER]),
	LINE(gate_open[TMPROF_ABIT]),
	LINE(gate_open[TMPROF_SAMPLER]),
	LINE(targets_gone),
	LINE(region_steps),
	LINE(region_checks),
	LINE(region_checks_lost),
	LINE(region_aggregations),
};

static int stats_show(struct seq_file *file, void *unused)
{
	struct tmprof_stats stats = {0};
	size_t i;

	tmprof_stats_get(file->private, &stats);
	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *field = (const char *)&stats + lines[i].offset;
		u64 value =
			lines[i].bytes == sizeof(u32) ? *(const u32 *)field : *(const u64 *)field;

		if (value == TMPROF_UNKNOWN)
			seq_printf(file, "%s unknown\n", lines[i].name);
		else
			seq_printf(file, "%s %llu\n", lines[i].name, value);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int lock_holds_show(struct seq_file *file, void *unused)
{
	struct tmprof_lock_holds request;
	u32 bucket;

	tmprof_lock_holds_get(file->private, &request);
	for (bucket = 0; bucket < TMPROF_HOLD_BUCKETS; bucket++) {
		if (!request.holds[bucket])
			continue;
		if (bucket == TMPROF_HOLD_BUCKETS - 1)
			seq_printf(file, "unknown %llu\n", request.holds[bucket]);
		else
			seq_printf(file, "%llu %llu\n", tmprof_hold_bucket_end_ns(bucket),
				   request.holds[bucket]);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lock_holds);

void tmprof_debug_init(void)
{
	debug_root = debugfs_create_dir("tmprof", NULL);
}

void tmprof_debug_exit(void)
{
	debugfs_remove(debug_root);
}

/* debugfs' errors are not looked at: where it is missing, STATS says the same. */
void tmprof_debug_add(struct tmprof_session *session)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", session->number);
	session->debug_folder = debugfs_create_dir(name, debug_root);
	debugfs_create_file("stats", 0400, session->debug_folder, session, &stats_fops);
	debugfs_create_file("lock_holds", 0400, session->debug_folder, session, &lock_holds_fops);
}

/* Waits for readers of the session's files. */
void tmprof_debug_remove(struct tmprof_session *session)
{
	debugfs_remove(session->debug_folder);
}
