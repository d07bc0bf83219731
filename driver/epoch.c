// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turning an epoch over takes constant time per target: each gives its counters away and goes on
 * with an empty set. Scanning waits only while the counters of the epoch before are freed.
 */

#include <linux/ktime.h>
#include <linux/uaccess.h>

#include "driver/core/counter_store.h"
#include "driver/epoch.h"
#include "driver/sampler.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/target.h"

static u64 unread(const struct tmprof_ended *ended)
{
	return ended->header.records - ended->header.records_read;
}

/* Under reader and counters. */
static void drop_first(struct tmprof_session *session)
{
	struct tmprof_target *target =
		list_first_entry(&session->ended.pending, struct tmprof_target, ended_link);

	list_del(&target->ended_link);
	tmprof_store_clear(&target->ended);
	session->ended.next_vpn = 0;
	tmprof_target_put(target);
}

/* Under reader and counters. */
static void drop_all(struct tmprof_session *session)
{
	while (!list_empty(&session->ended.pending))
		drop_first(session);
}

void tmprof_epoch_discard(struct tmprof_session *session)
{
	mutex_lock(&session->reader);
	mutex_lock(&session->counters);
	drop_all(session);
	mutex_unlock(&session->counters);
	mutex_unlock(&session->reader);
}

/* Under reader. For poll(), which must not wait for a reader. */
static void note_news(struct tmprof_ended *ended)
{
	WRITE_ONCE(ended->news, ended->header.epoch && (!ended->met || unread(ended)));
}

/* Fills the header with the differences between two readings of the totals. */
static void fill_header(struct tmprof_epoch *header, const struct tmprof_stats *from,
			const struct tmprof_stats *to)
{
	enum tmprof_source source;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++)
		header->active_ns[source] = to->active_ns[source] - from->active_ns[source];
	header->passes = to->passes - from->passes;
	header->references = to->references - from->references;
	header->samples = to->samples_counted - from->samples_counted;
	header->samples_lost = to->samples_ring_full - from->samples_ring_full +
			       to->samples_pmu_lost - from->samples_pmu_lost;
	if (to->pages_refused != from->pages_refused)
		header->epoch_flags |= TMPROF_EPOCH_MEMORY_LIMIT;
	if (header->samples_lost)
		header->epoch_flags |= TMPROF_EPOCH_SAMPLES_LOST;
}

/* Under reader and counters. Returns the records of the new ended epoch; `cut`: whether a pass of
 * the scan is under way. */
static u64 take_counters(struct tmprof_session *session, bool *cut)
{
	struct tmprof_target *target;
	unsigned long index;
	u64 records = 0;

	*cut = false;
	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target) {
		*cut |= READ_ONCE(target->pass.under_way);
		if (!target->counts.pages)
			continue;
		records += target->counts.pages;
		tmprof_store_turn_over(&target->counts, &target->ended);
		kref_get(&target->ref);
		list_add_tail(&target->ended_link, &session->ended.pending);
	}
	mutex_unlock(&session->targets);
	return records;
}

/* Under reader. */
static void turn_over(struct tmprof_session *session)
{
	struct tmprof_ended *ended = &session->ended;
	u64 dropped = unread(ended), epoch = ended->header.epoch + 1;
	bool was_cut, cut;
	struct tmprof_stats totals;

	mutex_lock(&session->counters);
	drop_all(session);
	ended->header = (struct tmprof_epoch){
		.epoch = epoch,
		.start_ns = session->epoch_start_ns,
		.end_ns = ktime_get_ns(),
		.epoch_flags = dropped ? TMPROF_EPOCH_UNREAD_DROPPED : 0,
	};
	ended->met = false;
	ended->end_due |= ended->reading;
	ended->reading = false;
	was_cut = session->pass_cut;
	ended->header.records = take_counters(session, &cut);
	session->pass_cut = cut;
	tmprof_stats_snapshot(session, &totals);
	fill_header(&ended->header, &session->epoch_start, &totals);
	if (cut || was_cut)
		ended->header.epoch_flags |= TMPROF_EPOCH_PASS_CUT;
	session->epoch_start_ns = ended->header.end_ns;
	session->epoch_start = totals;
	mutex_unlock(&session->counters);

	note_news(ended);

	spin_lock(&session->stats_lock);
	session->stats.epochs++;
	session->stats.records_dropped += dropped;
	spin_unlock(&session->stats_lock);
	wake_up_interruptible(&session->readable);
}

/* Under reader. */
static void copy_header(struct tmprof_session *session, struct tmprof_epoch *request)
{
	struct tmprof_head head = request->head;

	*request = session->ended.header;
	request->head = head;
	session->ended.met = true;
	session->ended.reading = false;
	session->ended.end_due = false;
	note_news(&session->ended);
}

/* step and reader. A reader may take as long as its user memory takes to be there, for which the
 * worker must not wait. */
static int lock_both(struct tmprof_session *session)
{
	for (;;) {
		if (mutex_lock_killable(&session->step))
			return -EINTR;
		if (mutex_trylock(&session->reader))
			return 0;
		mutex_unlock(&session->step);
		if (mutex_lock_killable(&session->reader))
			return -EINTR;
		mutex_unlock(&session->reader);
	}
}

int tmprof_epoch_end(struct tmprof_session *session, struct tmprof_epoch *request)
{
	int error = lock_both(session);

	if (error)
		return error;
	tmprof_sampler_fold(session);
	turn_over(session);
	copy_header(session, request);
	mutex_unlock(&session->reader);
	mutex_unlock(&session->step);
	return 0;
}

int tmprof_epoch_get(struct tmprof_session *session, struct tmprof_epoch *request)
{
	int error = -ENODATA;

	if (mutex_lock_killable(&session->reader))
		return -EINTR;
	if (session->ended.header.epoch) {
		copy_header(session, request);
		error = 0;
	}
	mutex_unlock(&session->reader);
	return error;
}

u64 tmprof_epoch_step(struct tmprof_session *session)
{
	u64 now_ns = ktime_get_ns();
	bool ended = false;

	if (!session->params.epoch_ns)
		return U64_MAX;
	if (now_ns < session->next_epoch_ns)
		return session->next_epoch_ns;
	/* A reader at work has records left: then a beat later will do. */
	if (mutex_trylock(&session->reader)) {
		if (!unread(&session->ended)) {
			turn_over(session);
			ended = true;
		}
		mutex_unlock(&session->reader);
	}
	if (!ended) {
		spin_lock(&session->stats_lock);
		session->stats.epochs_delayed++;
		spin_unlock(&session->stats_lock);
	}
	session->next_epoch_ns += session->params.epoch_ns;
	if (session->next_epoch_ns <= now_ns)
		session->next_epoch_ns = now_ns + session->params.epoch_ns;
	return session->next_epoch_ns;
}

static void fill_record(struct tmprof_page_record *record, u32 target_id,
			const struct tmprof_page *page)
{
	const struct tmprof_counts *counts = &page->counts;
	u32 node = tmprof_counts_node(counts);

	*record = (struct tmprof_page_record){
		.vpn = page->vpn,
		.target_id = target_id,
		.references = counts->references,
		.load_samples = counts->load_samples,
		.store_samples = counts->store_samples,
		.span_pages = 1U << (9 * tmprof_counts_span(counts)),
		.node = node == TMPROF_NODE_UNKNOWN ? TMPROF_NO_NODE : node,
		.page_flags = tmprof_counts_saturated(counts) ? TMPROF_PAGE_SATURATED : 0,
	};
}

/* Under reader: up to `limit` records of the first pending target, which is dropped at its end.
 * Returns how many; or -EFAULT, having handed out none of them. */
static int read_batch(struct tmprof_session *session, char __user *to, u32 limit)
{
	struct tmprof_ended *ended = &session->ended;
	struct tmprof_target *target =
		list_first_entry(&ended->pending, struct tmprof_target, ended_link);
	u32 count, i;

	/* Nobody else touches a set that has ended. */
	count = tmprof_store_read(&target->ended, ended->next_vpn, ended->pages,
				  min_t(u32, limit, TMPROF_BATCH_RECORDS));
	for (i = 0; i < count; i++)
		fill_record(&ended->records[i], target->id, &ended->pages[i]);
	if (copy_to_user(to, ended->records, count * sizeof(ended->records[0])))
		return -EFAULT;
	ended->header.records_read += count;
	if (count)
		ended->next_vpn = ended->pages[count - 1].vpn + 1;
	if (count < min_t(u32, limit, TMPROF_BATCH_RECORDS)) {
		mutex_lock(&session->counters);
		drop_first(session);
		mutex_unlock(&session->counters);
	}
	return count;
}

ssize_t tmprof_epoch_read(struct tmprof_session *session, char __user *to, size_t bytes)
{
	const size_t record_bytes = sizeof(struct tmprof_page_record);
	struct tmprof_ended *ended = &session->ended;
	ssize_t done = 0;
	int count = 0;

	if (bytes < record_bytes)
		return -EINVAL;
	bytes = min_t(size_t, bytes, MAX_RW_COUNT);
	if (mutex_lock_killable(&session->reader))
		return -EINTR;
	if (!ended->header.epoch) {
		done = -ENODATA;
		goto unlock;
	}
	/* A reader that goes on until it is told the end must not run into the next epoch. */
	if (ended->end_due) {
		ended->end_due = false;
		goto unlock;
	}
	ended->met = true;
	while (bytes - done >= record_bytes && !list_empty(&ended->pending)) {
		count = read_batch(
			session, to + done,
			min_t(size_t, (bytes - done) / record_bytes, TMPROF_BATCH_RECORDS));
		if (count < 0 || fatal_signal_pending(current))
			break;
		done += count * record_bytes;
		cond_resched();
	}
	ended->reading = done > 0;
	note_news(ended);
	if (!done && count < 0)
		done = count;
unlock:
	mutex_unlock(&session->reader);
	return done;
}

__poll_t tmprof_epoch_poll(struct tmprof_session *session, struct file *file, poll_table *wait)
{
	poll_wait(file, &session->readable, wait);
	return READ_ONCE(session->ended.news) ? EPOLLIN | EPOLLRDNORM : 0;
}
