// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who may open the device, and what a request must look like. Calling context of all that is
 * reached from here: the process that holds the file.
 */

#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/security.h>
#include <linux/uaccess.h>

#include "driver/compat/compat.h"
#include "driver/control.h"
#include "driver/core/params_check.h"
#include "driver/device.h"
#include "driver/epoch.h"
#include "driver/page_walk.h"
#include "driver/range_scan.h"
#include "driver/region_scan.h"
#include "driver/sampler.h"
#include "driver/stats_report.h"
#include "driver/target.h"
#include "driver/uapi/tmprof.h"

static int tmprof_open(struct inode *inode, struct file *file)
{
	struct tmprof_session *session;
	int error;

	/* perf_event_open(2) asks for the same on other users' processes: CAP_PERFMON or
	 * CAP_SYS_ADMIN. */
	if (!perfmon_capable())
		return -EPERM;
	error = security_locked_down(LOCKDOWN_PERF);
	if (error)
		return error;
	session = tmprof_session_create();
	if (IS_ERR(session))
		return PTR_ERR(session);
	file->private_data = session;
	return nonseekable_open(inode, file);
}

static int tmprof_release(struct inode *inode, struct file *file)
{
	tmprof_session_destroy(file->private_data);
	return 0;
}

union request {
	struct tmprof_head head;
	struct tmprof_info info;
	struct tmprof_target_request target;
	struct tmprof_params params;
	struct tmprof_control control;
	struct tmprof_epoch epoch;
	struct tmprof_scan_range range;
	struct tmprof_read_samples samples;
	struct tmprof_read_regions regions;
	struct tmprof_stats stats;
	struct tmprof_lock_holds lock_holds;
};

static int check_head(const struct tmprof_head *head, u32 size, u32 flags)
{
	if (head->version != TMPROF_ABI_VERSION)
		return -EPROTO;
	if (head->size != size || head->flags & ~flags || head->reserved)
		return -EINVAL;
	return 0;
}

static int do_info(struct tmprof_session *session, union request *request)
{
	struct tmprof_info *info = &request->info;

	if (!tmprof_all_zero(info->reserved, ARRAY_SIZE(info->reserved)))
		return -EINVAL;
	info->features = TMPROF_FEATURE_ABIT | TMPROF_FEATURE_REGIONS |
			 (tmprof_has_perf() ? TMPROF_FEATURE_SAMPLER | TMPROF_FEATURE_GATE : 0) |
			 (tmprof_keeps_young() ? TMPROF_FEATURE_KEEPS_YOUNG : 0) |
			 (tmprof_can_flush() ? TMPROF_FEATURE_FLUSH : 0) |
			 (tmprof_may_see_frames() ? TMPROF_FEATURE_FRAMES : 0);
	info->max_targets = TMPROF_MAX_TARGETS;
	info->max_scan_pages = TMPROF_MAX_SCAN_PAGES;
	info->page_record_bytes = sizeof(struct tmprof_page_record);
	info->page_table_levels = pgtable_l5_enabled() ? 5 : 4;
	return 0;
}

static int check_target(const struct tmprof_target_request *target)
{
	return tmprof_all_zero(target->reserved, ARRAY_SIZE(target->reserved)) ? 0 : -EINVAL;
}

static int do_add_target(struct tmprof_session *session, union request *request)
{
	return check_target(&request->target) ?: tmprof_target_add(session, &request->target);
}

static void undo_add_target(struct tmprof_session *session, union request *request)
{
	tmprof_target_remove(session, &request->target);
}

static int do_remove_target(struct tmprof_session *session, union request *request)
{
	return check_target(&request->target) ?: tmprof_target_remove(session, &request->target);
}

static int do_get_target(struct tmprof_session *session, union request *request)
{
	return check_target(&request->target) ?: tmprof_target_query(session, &request->target);
}

static int do_scan_range(struct tmprof_session *session, union request *request)
{
	if (!tmprof_all_zero(request->range.reserved, ARRAY_SIZE(request->range.reserved)))
		return -EINVAL;
	return tmprof_range_scan(session, &request->range);
}

static int do_get_params(struct tmprof_session *session, union request *request)
{
	tmprof_session_get_params(session, &request->params);
	return 0;
}

static int do_set_params(struct tmprof_session *session, union request *request)
{
	return tmprof_session_set_params(session, &request->params);
}

static int do_control(struct tmprof_session *session, union request *request)
{
	return tmprof_session_control(session, &request->control);
}

static int check_epoch(const struct tmprof_epoch *epoch)
{
	return tmprof_all_zero(epoch->reserved, ARRAY_SIZE(epoch->reserved)) ? 0 : -EINVAL;
}

static int do_epoch_end(struct tmprof_session *session, union request *request)
{
	return check_epoch(&request->epoch) ?: tmprof_epoch_end(session, &request->epoch);
}

static int do_get_epoch(struct tmprof_session *session, union request *request)
{
	return check_epoch(&request->epoch) ?: tmprof_epoch_get(session, &request->epoch);
}

static int do_read_samples(struct tmprof_session *session, union request *request)
{
	return tmprof_sampler_read(session, &request->samples);
}

static int do_read_regions(struct tmprof_session *session, union request *request)
{
	return tmprof_region_read(session, &request->regions);
}

static int do_stats(struct tmprof_session *session, union request *request)
{
	return tmprof_stats_get(session, &request->stats);
}

static int do_lock_holds(struct tmprof_session *session, union request *request)
{
	struct tmprof_lock_holds *holds = &request->lock_holds;

	if (!tmprof_all_zero(holds->reserved, ARRAY_SIZE(holds->reserved)))
		return -EINVAL;
	tmprof_lock_holds_get(session, holds);
	return 0;
}

struct call {
	unsigned int command;
	u32 flags; /* that the head may have */
	int (*handle)(struct tmprof_session *session, union request *request);
	/* Takes back what was done for a caller who cannot be told; NULL: it stays done. */
	void (*undo)(struct tmprof_session *session, union request *request);
	bool silent;  /* has no out fields */
	bool partial; /* its out fields are good with ENOSPC, too */
};

static const struct call calls[] = {
	{TMPROF_IOC_INFO, 0, do_info},
	{TMPROF_IOC_ADD_TARGET, 0, do_add_target, .undo = undo_add_target},
	{TMPROF_IOC_REMOVE_TARGET, 0, do_remove_target, .silent = true},
	{TMPROF_IOC_GET_TARGET, 0, do_get_target},
	{TMPROF_IOC_GET_PARAMS, 0, do_get_params},
	{TMPROF_IOC_SET_PARAMS, 0, do_set_params, .silent = true},
	{TMPROF_IOC_CONTROL, 0, do_control, .silent = true},
	{TMPROF_IOC_EPOCH_END, 0, do_epoch_end},
	{TMPROF_IOC_GET_EPOCH, 0, do_get_epoch},
	{TMPROF_IOC_READ_SAMPLES, 0, do_read_samples},
	{TMPROF_IOC_READ_REGIONS, 0, do_read_regions},
	{TMPROF_IOC_STATS, 0, do_stats},
	{TMPROF_IOC_LOCK_HOLDS, 0, do_lock_holds},
	{TMPROF_IOC_SCAN_RANGE,
	 TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH | TMPROF_SCAN_SELECT | TMPROF_SCAN_TRYLOCK,
	 do_scan_range, .partial = true},
};

static const struct call *find_call(unsigned int command)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].command == command)
			return &calls[i];
	}
	return NULL;
}

static long tmprof_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	const struct call *call = find_call(command);
	void __user *user = (void __user *)argument;
	u32 size = _IOC_SIZE(command);
	union request request;
	int error;

	if (!call)
		return -ENOTTY;
	if (copy_from_user(&request, user, size))
		return -EFAULT;
	error = check_head(&request.head, size, call->flags);
	if (error)
		return error;
	error = call->handle(file->private_data, &request);
	if (error && !(call->partial && error == -ENOSPC))
		return error;
	if (!call->silent && copy_to_user(user, &request, size)) {
		if (call->undo && !error)
			call->undo(file->private_data, &request);
		return -EFAULT;
	}
	return error;
}

static ssize_t tmprof_read(struct file *file, char __user *to, size_t bytes, loff_t *position)
{
	return tmprof_epoch_read(file->private_data, to, bytes);
}

static __poll_t tmprof_poll(struct file *file, poll_table *wait)
{
	return tmprof_epoch_poll(file->private_data, file, wait);
}

static const struct file_operations tmprof_fops = {
	.owner = THIS_MODULE,
	.open = tmprof_open,
	.release = tmprof_release,
	.read = tmprof_read,
	.poll = tmprof_poll,
	.unlocked_ioctl = tmprof_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice tmprof_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tmprof",
	.fops = &tmprof_fops,
	.mode = 0600,
};

int tmprof_device_init(void)
{
	return misc_register(&tmprof_device);
}

void tmprof_device_exit(void)
{
	misc_deregister(&tmprof_device);
}
