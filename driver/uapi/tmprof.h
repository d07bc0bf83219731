/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The interface of /dev/tmprof. One open file is one session: its targets, parameters, counters and
 * sources, all freed when the last copy of the file descriptor is closed.
 *
 * Every structure that an ioctl takes starts with struct tmprof_head and is refused whole, with
 * nothing changed, when
 *   EPROTO  head.version is not TMPROF_ABI_VERSION;
 *   EINVAL  head.size is not the structure's size, a flag is unknown, a reserved field is not zero,
 *           or a value is out of its range;
 *   EFAULT  it, or memory that it points to, cannot be read or written.
 * If only the answer could not be written, the effects of EPOCH_END, SCAN_RANGE, READ_SAMPLES and
 * READ_REGIONS remain.
 *
 * open() fails with EPERM without CAP_PERFMON or CAP_SYS_ADMIN or under lockdown, with EUSERS when
 * the module's option max_sessions are open.
 *
 * The module's option max_memory_bytes bounds the memory of all sessions together: counters, logs,
 * rings, regions and buffers. open(), ADD_TARGET, START and SCAN_RANGE fail with EDQUOT at that
 * bound. They fail with ENOMEM if the machine or the caller's memory cgroup has no memory. No
 * process is killed for it.
 *
 * Fields marked "out" are ignored on the way in. Other errors are listed with each call.
 *
 * Pages are base pages of 4 KiB, named by virtual page number (vpn): address >> 12. Times are
 * CLOCK_MONOTONIC in nanoseconds. Pointers travel as __u64, and no layout depends on the word size,
 * so 32-bit programs use the same calls.
 */
#ifndef TMPROF_UAPI_TMPROF_H
#define TMPROF_UAPI_TMPROF_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define TMPROF_ABI_VERSION 1
#define TMPROF_DEVICE_PATH "/dev/tmprof"

struct tmprof_head {
	__u32 size; /* bytes of the whole structure */
	__u32 version;
	__u32 flags; /* flags of the call; 0 if it has none */
	__u32 reserved;
};

/* The sources of evidence; they index the arrays below. */
enum tmprof_source {
	TMPROF_ABIT = 0,
	TMPROF_SAMPLER = 1,
	TMPROF_SOURCE_COUNT = 2,
};

enum tmprof_source_mask {
	TMPROF_MASK_ABIT = 1 << TMPROF_ABIT,
	TMPROF_MASK_SAMPLER = 1 << TMPROF_SAMPLER,
	TMPROF_MASK_ALL = TMPROF_MASK_ABIT | TMPROF_MASK_SAMPLER,
};

/* A counter or time that could not be had. No real count reaches this value. */
#define TMPROF_UNKNOWN (~0ULL)
#define TMPROF_NO_NODE 0xffffU
#define TMPROF_NO_VPN  (~0ULL) /* beyond every page */

/* INFO: what this module can do; allowed at any time. */
struct tmprof_info {
	struct tmprof_head head;
	__u64 features;		 /* out: enum tmprof_features */
	__u32 max_targets;	 /* out: of one session */
	__u32 max_scan_pages;	 /* out: of one SCAN_RANGE */
	__u32 page_record_bytes; /* out: sizeof(struct tmprof_page_record) */
	__u32 page_table_levels; /* out: 4 or 5 */
	__u64 reserved[4];
};

enum tmprof_features {
	TMPROF_FEATURE_ABIT = 1 << 0,
	TMPROF_FEATURE_SAMPLER = 1 << 1, /* the kernel has perf events; a PMU may be missing yet */
	TMPROF_FEATURE_GATE = 1 << 2,
	/* Reclaim, page_idle and DAMON still see an access whose bit a scan has cleared. The ageing
	 * of the multi-generational LRU looks at the bits alone, and does not. */
	TMPROF_FEATURE_KEEPS_YOUNG = 1 << 3,
	TMPROF_FEATURE_FLUSH =
		1 << 4, /* TLBs can be flushed; where not, asking for it is EOPNOTSUPP */
	TMPROF_FEATURE_REGIONS = 1 << 5, /* params.abit_mode, READ_REGIONS */
	/* The caller of INFO may see physical addresses: with CAP_SYS_ADMIN, as in
	 * /proc/PID/pagemap, or with CAP_BPF and CAP_PERFMON, which read page tables through BPF.
	 */
	TMPROF_FEATURE_FRAMES = 1 << 6,
};

/*
 * ADD_TARGET, REMOVE_TARGET, GET_TARGET. A target is the address space that the process executes
 * now, whichever of its threads is named. After an exec the target is the new address space.
 * The caller adds children as targets of their own.
 *
 * Processes may share one address space (clone(2), CLONE_VM without CLONE_THREAD). Its accessed
 * bits are counted once, for the target with the lowest id. The driver's own scan passes by the
 * others, and shares_with names the target that has their bits. Samples count for the process that
 * took them. SCAN_RANGE reads and clears the same bits, whichever target is named.
 *
 * ADD_TARGET errors: EPERM the caller has neither CAP_PERFMON nor CAP_SYS_ADMIN; EACCES the process
 * is another user's or not dumpable, and the caller lacks CAP_SYS_PTRACE; ESRCH no such process in
 * the caller's pid namespace, or it has exited, or its start time is another; EINVAL a kernel
 * thread; EEXIST already a target; ENOSPC max_targets; EOVERFLOW the session has given out all
 * identifiers.
 * The other two calls: ENOENT the session has no such target.
 *
 * A caller that holds a pidfd can make sure that the target is that process. It checks, after
 * ADD_TARGET, that the pidfd is still alive: a living process keeps its pid.
 */
struct tmprof_target_request {
	struct tmprof_head head;
	__s32 pid;	 /* ADD: in; GET: out, 0: gone, or not in the caller's namespace */
	__u32 target_id; /* ADD: out, never reused in a session; others: in */
	/* ADD: in, 0: any; GET: out. Field 22 of /proc/PID/stat in the initial time namespace. */
	__u64 start_time_ticks;
	__u32 state;	     /* out: enum tmprof_target_state */
	__u32 address_space; /* out: changes when the process executes another program */
	__u64 scanned_pages; /* out: present pages seen by the latest complete pass */
	__u64 passes;	     /* out: complete passes of the driver's own scan */
	__u32 shares_with;   /* out: a target that now has the same address space; 0: none */
	__u32 target_flags;  /* out: enum tmprof_target_flags */
	__u64 reserved[1];
};

enum tmprof_target_flags {
	/* The address space has, or had, users with tables of their own (the kernel's MMU
	 * notifiers), such as a virtual machine of KVM, or a device. An access through these sets
	 * no bit that the driver sees. An unset bit of memory that they use says nothing: guest
	 * memory is not observable. */
	TMPROF_TARGET_OTHER_TABLES = 1 << 0,
};

enum tmprof_target_state {
	TMPROF_TARGET_ALIVE = 0,
	TMPROF_TARGET_GONE = 1, /* it has exited, or executes a program that its adder may not see;
				 * it stays a target until it is removed */
};

/* One event of one PMU, as perf_event_open(2) names it; no tracepoint, kprobe, uprobe or
 * breakpoint. Virtual machines are left out if the PMU can do so. */
struct tmprof_event {
	__u32 type;
	__u32 flags; /* enum tmprof_event_flags */
	__u64 config;
	__u64 config1;
	__u64 config2;
};

enum tmprof_event_flags {
	TMPROF_EVENT_PRESENT = 1 << 0,	      /* unset: no event, and the rest must be zero */
	TMPROF_EVENT_EXCLUDE_KERNEL = 1 << 1, /* PMUs that cannot (IBS before Zen 5) refuse it */
	TMPROF_EVENT_PHYS_ADDR = 1 << 2,      /* sampling: ask the PMU for physical addresses */
	TMPROF_EVENT_DATA_SRC = 1 << 3,	      /* sampling: ask for the data source and require it:
					       * only samples from beyond the LLC count. Unset: every
					       * sample with an address counts, as a load. */
	TMPROF_EVENT_ONLY_MISSES = 1 << 4, /* sampling, with DATA_SRC: the event takes nothing but
					    * accesses that missed the LLC, so that samples from
					    * an unknown source count, too */
	TMPROF_EVENT_PRECISE_SHIFT = 8,	   /* two bits: perf's precise_ip, 0 to 3 */
	TMPROF_EVENT_PRECISE_MASK = 3 << 8,
};

enum tmprof_flush_policy {
	TMPROF_FLUSH_NEVER = 0,	    /* hot pages in a TLB may look idle (TMP, optimisation 3) */
	TMPROF_FLUSH_PASS_END = 1,  /* on all CPUs, once the pass is over, unless the scan has
				     * cleared no bit since it last flushed */
	TMPROF_FLUSH_EVERY_NTH = 2, /* like PASS_END, on each flush_every-th pass of a target */
};

enum tmprof_gate_mode {
	TMPROF_GATE_ALWAYS_ON = 0,
	TMPROF_GATE_ALWAYS_OFF = 1,
	TMPROF_GATE_COUNTED = 2, /* on while the period's count is above the threshold */
};

/* The rule that opens one source's gate. */
struct tmprof_gate {
	__u32 mode;		   /* enum tmprof_gate_mode */
	__u32 threshold_permille;  /* COUNTED: of the largest count so far, 0 to 1000 */
	struct tmprof_event event; /* COUNTED: counted on all CPUs; TMP: LLC misses for the sampler,
				    * TLB misses for accessed bits. Others: zero */
};

/* The pages that the driver's own scan looks at. */
enum tmprof_abit_mode {
	TMPROF_ABIT_FULL = 0,	 /* every page: test, save, clear; into the page counters */
	TMPROF_ABIT_REGIONS = 1, /* one page of each region at a time (Daptrace); for READ_REGIONS
				  */
};

/* Parameters of ABIT_REGIONS. They mean the same in a user-space scanner over SCAN_RANGE. */
struct tmprof_region_params {
	__u64 monitoring_ns;  /* between two checks of a region */
	__u64 aggregation_ns; /* between two results */
	__u64 update_ns;      /* between two looks at the address space */
	__u32 min_regions;
	__u32 max_regions; /* per target; fewer are kept if the budgets do not pay for them */
};

/*
 * GET_PARAMS, SET_PARAMS. Set: EBUSY while a source is started (pausing is not enough), as there is
 * no moment at which half of the sources could change; EDQUOT memory_limit_bytes is more than the
 * module's option max_memory_bytes; EOPNOTSUPP a flush policy where TLBs cannot be flushed.
 */
struct tmprof_params {
	struct tmprof_head head;

	/* The driver's own periodic scan. */
	__u64 scan_interval_ns;	  /* FULL: between the starts of two passes of a target */
	__u64 scan_budget_ns;	  /* scanning time per second, over all targets, in whole
				   * microseconds; 1e9: no limit. A pass that runs out goes on later
				   * where it was. Regions wait to be cleared, and are read in any
				   * case */
	__u32 scan_chunk_entries; /* page-table entries looked at in one hold of the mmap lock, or
				   * fewer when another task wants the CPU or after 1 ms */
	__u32 flush_policy;	  /* enum tmprof_flush_policy; REGIONS: NEVER */
	__u32 flush_every;	  /* FLUSH_EVERY_NTH: at least 1; others: 0 */
	__u32 abit_mode;	  /* enum tmprof_abit_mode */

	/* Counters. */
	__u64 epoch_ns;		  /* the driver ends an epoch this often; 0: EPOCH_END only */
	__u64 memory_limit_bytes; /* for all page counters and the records kept for read() */

	/* Sampler. */
	struct tmprof_event sample_event;
	__u64 sample_period; /* events between two samples of a CPU; 0: no sample_event */
	__u32 ring_samples;  /* per CPU; a power of two */
	__u32 log_samples;   /* raw samples kept for READ_SAMPLES; 0: none are kept */

	/* Gate. */
	__u64 gate_period_ns;
	struct tmprof_gate gate[TMPROF_SOURCE_COUNT];

	/* Regions; checked in any mode. */
	struct tmprof_region_params regions;
	__u32 region_clears; /* bits cleared at most for each second of CPU time that a target uses;
			      * 0: no limit */
	__u32 region_log;    /* records kept for READ_REGIONS; 0: none are kept */
	__u64 region_seed;   /* for the pages looked at and the splits of each target; 0: random */

	__u64 reserved[2];
};

/* CONTROL. Errors: ENXIO the sampler has no sample_event; EINVAL an event is a kprobe or uprobe;
 * whatever errno perf gave for the event; EALREADY it is in that state; ENODEV resume or stop of a
 * source that is not started. With several sources in the mask, either all follow or none. */
enum tmprof_command {
	TMPROF_START = 1,
	TMPROF_STOP = 2,  /* and free what the source needs; evidence stays */
	TMPROF_PAUSE = 3, /* takes no evidence, keeps its events and its place */
	TMPROF_RESUME = 4,
};

struct tmprof_control {
	struct tmprof_head head;
	__u32 sources; /* enum tmprof_source_mask */
	__u32 command; /* enum tmprof_command */
};

enum tmprof_epoch_flags {
	TMPROF_EPOCH_MEMORY_LIMIT = 1 << 0, /* evidence was dropped: see stats.pages_refused */
	TMPROF_EPOCH_SAMPLES_LOST = 1 << 1,
	TMPROF_EPOCH_PASS_CUT = 1 << 2,	      /* its end fell into a pass of the scan */
	TMPROF_EPOCH_UNREAD_DROPPED = 1 << 3, /* records of the epoch before it were not all read */
};

/* EPOCH_END: ends the epoch that runs and makes its records what read() returns; what was unread of
 * the one before is dropped and counted. GET_EPOCH: the header of what read() returns; ENODATA
 * before the first end. */
struct tmprof_epoch {
	struct tmprof_head head;
	__u64 epoch;			      /* out: 1 for the first */
	__u64 start_ns;			      /* out */
	__u64 end_ns;			      /* out */
	__u64 records;			      /* out */
	__u64 records_read;		      /* out: already handed to read() */
	__u32 epoch_flags;		      /* out: enum tmprof_epoch_flags */
	__u32 reserved0;		      /* out: 0 */
	__u64 active_ns[TMPROF_SOURCE_COUNT]; /* out: started, not paused, gate open */
	__u64 passes;			      /* out: complete passes, over all targets */
	__u64 references;   /* out: accessed bits found set, counting each leaf once */
	__u64 samples;	    /* out: counted into records */
	__u64 samples_lost; /* out: by the driver's rings, and by a PMU that tells of it */
	__u64 reserved[4];
};

enum tmprof_page_flags {
	TMPROF_PAGE_SATURATED = 1 << 0, /* a counter stands at its largest value */
};

/*
 * read(): whole records of the last ended epoch, ascending by (target_id, vpn), going on where the
 * read before it stopped; 0 at their end, and the next call waits for nothing. Whoever has read
 * records is told their end before those of the next epoch come, unless GET_EPOCH or EPOCH_END came
 * in between. EINVAL: the buffer is smaller than one record. ENODATA: no epoch has ended. poll():
 * POLLIN while records are unread or an ended epoch of no records was not yet met by a read() or
 * GET_EPOCH.
 *
 * With epoch_ns, an epoch whose time is up goes on while records of the one before are unread:
 * stats.epochs_delayed counts those.
 */
struct tmprof_page_record {
	__u64 vpn; /* first base page of the leaf */
	__u32 target_id;
	__u32 references; /* scans that found the accessed bit set */
	__u32 load_samples;
	__u32 store_samples;
	__u32 span_pages; /* pages of the leaf that maps it: 1, 512 or 262144 */
	__u16 node;	  /* at the latest look; TMPROF_NO_NODE: not known */
	__u16 page_flags; /* enum tmprof_page_flags */
};

enum tmprof_scan_flags {
	TMPROF_SCAN_CLEAR = 1 << 0, /* clear the bits that were found set */
	TMPROF_SCAN_FLUSH =
		1 << 1, /* with CLEAR: flush TLBs before returning, if a bit was cleared */
	TMPROF_SCAN_SELECT = 1 << 2,  /* with CLEAR: only where `select` has a bit */
	TMPROF_SCAN_TRYLOCK = 1 << 3, /* EAGAIN, nothing done, rather than wait for the mmap lock */
};

/* A leaf of more than one base page. */
struct tmprof_scan_leaf {
	__u64 vpn; /* aligned to its span: may lie before the range */
	__u32 span_pages;
	__u16 node;
	__u16 leaf_flags; /* enum tmprof_leaf_flags */
};

enum tmprof_leaf_flags {
	TMPROF_LEAF_ACCESSED = 1 << 0,
	TMPROF_LEAF_CLEARED = 1 << 1,
	TMPROF_LEAF_HUGETLB = 1 << 2,
};

/*
 * SCAN_RANGE: reads, and may clear, the accessed bits of `pages` base pages from `start_vpn` of one
 * target. It is independent of CONTROL and of the page counters. Bitmaps are of `pages` bits
 * rounded up to whole __u64, bit i of word i / 64 being page start_vpn + i; a null pointer: not
 * wanted. Pages of huge leaves have the bit of their leaf. Not present are: unmapped and swapped
 * pages, the zero page, device memory. `select` picks a huge leaf if it has a bit for any of its
 * pages in the range; the leaf's one bit also stands for those of its pages that lie outside.
 *
 * Errors: ENOENT no such target; ESRCH it has no address space any more; EPERM frames are asked for
 * by a caller who may not see them; EAGAIN; EINTR a fatal signal came in, bits may have been
 * cleared; ENOSPC more huge leaves than leaf_capacity: out fields are good, leaves are cut.
 */
struct tmprof_scan_range {
	struct tmprof_head head; /* enum tmprof_scan_flags */
	__u32 target_id;
	__u32 address_space; /* out */
	__u64 start_vpn;
	__u32 pages; /* 1 to info.max_scan_pages */
	__u32 leaf_capacity;
	__u64 select;	  /* in: bitmap */
	__u64 present;	  /* bitmap */
	__u64 accessed;	  /* bitmap: as found, before a clear */
	__u64 frames;	  /* __u64 per page: physical frame number; TMPROF_UNKNOWN: not present */
	__u64 nodes;	  /* __u16 per page; TMPROF_NO_NODE: not present */
	__u64 leaves;	  /* struct tmprof_scan_leaf, ascending */
	__u32 leaf_count; /* out */
	__u32 present_pages;  /* out */
	__u32 accessed_pages; /* out */
	__u32 cleared_bits;   /* out: page-table entries */
	__u32 races;	      /* out: tables that changed at each look, left out as not present: not
			       * known */
	__u32 running_threads; /* out: of the target, on a CPU when the walk ended */
	__u64 start_ns;	       /* out: of the walk */
	__u64 end_ns;	       /* out: of the walk and the flush */
	__u64 lock_ns;	       /* out: longest single hold of the mmap lock */
	__u64 mapped_end_vpn;  /* out: end of the mapping that holds start_vpn; 0: none does */
	/* out: no page from the end of the range up to this one is present. It is the first that
	 * the next page table in use or the next huge leaf maps, or as far as the call went
	 * looking; TMPROF_NO_VPN: nothing is present behind the range. */
	__u64 next_vpn;
	__u64 reserved[1];
};

/* One raw sample (TMP, IPDPS 2021: the fields of its driver's records). */
struct tmprof_sample {
	__u64 time_ns;
	__u64 ip;
	__u64 address;
	/* Physical address. If the PMU did not give it, the one mapped when the sample was taken
	 * up, some 10 ms later. TMPROF_UNKNOWN: nothing was mapped, the sample did not count, or
	 * the reader may not see it. */
	__u64 physical_address;
	__u64 data_source; /* union perf_mem_data_src, with the TLB's state; 0: not told */
	__u32 pid;	   /* in the initial pid namespace */
	__u32 tid;
	__u32 cpu;
	__u32 target_id;
};

/* READ_SAMPLES: takes the oldest samples of targets from the log, which stays when the sampler is
 * stopped, until it is started again or SET_PARAMS succeeds. ENXIO: log_samples is 0, or the
 * sampler was not started since it was set. */
struct tmprof_read_samples {
	struct tmprof_head head;
	__u64 samples; /* struct tmprof_sample */
	__u32 capacity;
	__u32 count;	   /* out */
	__u64 overwritten; /* out: samples that the log lost, since the session began; those that
			    * START or SET_PARAMS dropped unread, too */
};

/*
 * One region of one target, as found by an aggregation. An aggregation's records follow one another
 * in the log, ascend and do not overlap. They cover the address space without its two largest gaps,
 * holes inside included.
 */
struct tmprof_region_record {
	__u64 start_vpn;
	__u64 end_vpn;
	__u64 time_ns; /* end of the aggregation; the same in all of its records */
	/* CPU time of the target, between clears and reads, before the page's first access, times
	 * the pages under one entry. An interval with a first access counts half. */
	__u64 at_risk_ns;
	__u64 frame; /* physical, of one of its pages, now, or of the huge page
		      * that it is in; TMPROF_UNKNOWN: it was not present, or the reader
		      * may not see it */
	__u32 target_id;
	__u32 address_space;
	__u32 looks; /* each at one page of a mapping, absent ones included; 0: the rest is not
		      * known, as of mappings that the scan does not look at */
	__u32 references;
	__u32 regions; /* number of records of this aggregation */
	__u32 reserved0;
};

/* READ_REGIONS: takes the oldest records from the log, which stays when the scan is stopped, until
 * it is started again or SET_PARAMS succeeds. ENXIO: region_log is 0, or no scan by regions was
 * started since it was set. */
struct tmprof_read_regions {
	struct tmprof_head head;
	__u64 regions; /* struct tmprof_region_record */
	__u32 capacity;
	__u32 count;	   /* out */
	__u64 overwritten; /* out: records that the log lost, since the session began; those that
			    * START or SET_PARAMS dropped unread, too */
};

/* STATS, of the session since it was opened. */
struct tmprof_stats {
	struct tmprof_head head;

	/* out: the driver's own scan; scan_ns by regions, too */
	__u64 passes;
	__u64 chunks;
	__u64 scan_ns;
	__u64 present_pages; /* pages looked at, huge ones by their span */
	__u64 leaves;	     /* page-table entries looked at */
	__u64 references;    /* leaves found accessed */
	__u64 passes_late;   /* that ended when the next was already due, for want of budget */
	__u64 passes_failed; /* the target had no address space */

	/* out: the scan and SCAN_RANGE together */
	__u64 cleared_bits;
	__u64 flushes;
	__u64 flush_ns;
	__u64 races;	      /* tables that changed at each look: their pages are not known */
	__u64 skipped_leaves; /* zero page, device memory */
	__u64 mmap_lock_holds;
	__u64 mmap_lock_ns;
	__u64 mmap_lock_max_ns;
	__u64 mmap_lock_busy; /* tries that found it held by a writer */
	__u64 range_calls;
	__u64 range_ns;

	/* out: sampler */
	__u64 samples_taken;	      /* overflows */
	__u64 samples_counted;	      /* into page counters */
	__u64 samples_foreign;	      /* taken in processes that are no targets */
	__u64 samples_guest;	      /* taken while a virtual machine ran: addresses of its own */
	__u64 samples_no_address;     /* none, or a kernel one */
	__u64 samples_near;	      /* served at or before the last-level cache */
	__u64 samples_not_demand;     /* prefetch, fetch */
	__u64 samples_unknown_source; /* memory may have served them or not: not counted */
	__u64 samples_unmapped;	      /* no page there by the time they were folded; counted, too */
	/* Samples folded while a writer held the mmap lock, or after the process had exited. They
	 * count for the base page, its node unknown, even if a huge page is mapped. */
	__u64 samples_unresolved;
	__u64 samples_ring_full; /* lost by the driver */
	__u64 samples_throttled; /* times that perf held the event back until the next tick */
	__u64 cpus_failed;	 /* times that a CPU came online and its event could not be made */
	__u64 cpus_sampling;

	/* out: counters */
	__u64 pages;	    /* in the running epoch */
	__u64 memory_bytes; /* held now */
	__u64 memory_peak_bytes;
	__u64 pages_refused; /* evidence dropped at the memory limit or for want of memory */
	__u64 epochs;
	__u64 epochs_delayed;
	__u64 records_dropped; /* unread records of epochs that were ended */

	/* out: sources and their gates */
	__u64 started_ns[TMPROF_SOURCE_COUNT]; /* time started */
	__u64 active_ns[TMPROF_SOURCE_COUNT];  /* time started, not paused and with the gate open */
	__u64 gate_count[TMPROF_SOURCE_COUNT]; /* scaled to a period; of the latest reading; UNKNOWN
						*/
	__u64 gate_max[TMPROF_SOURCE_COUNT];   /* largest so far; UNKNOWN */
	__u64 gate_periods_unknown[TMPROF_SOURCE_COUNT]; /* whose count could not be read */
	/* 1: the source takes evidence unless it is stopped or paused; 0: it waits, or was not
	 * started yet. */
	__u32 gate_open[TMPROF_SOURCE_COUNT];
	__u64 targets_gone;
	__u64 samples_pmu_lost; /* reported by the PMU to perf (PERF_FORMAT_LOST); real PMUs do not
				 */

	/* out: the scan by regions */
	__u64 region_steps;  /* each clears, and later reads, one page of each region of a target */
	__u64 region_checks; /* pages that were read, or were not there to be cleared */
	__u64 region_checks_lost; /* cleared, and not read in time or at all; or of a page that
				   * the scan cannot judge, such as the zero page */
	__u64 region_aggregations;
};

/*
 * LOCK_HOLDS: histogram of the times that the session held its targets' mmap locks, since it was
 * opened. The buckets sum to stats.mmap_lock_holds. With q = hold in ns / 64, bucket b below 4 has
 * q = b; from 4 on each power of two has four: b = 4 * (e - 1) + (q >> (e - 2)) % 4, where 2^e is
 * the largest power of two in q. The last bucket also has holds longer than 2^31 ns.
 * driver/core/hold_buckets.h computes both ways.
 */
#define TMPROF_HOLD_BUCKETS 96

struct tmprof_lock_holds {
	struct tmprof_head head;
	__u64 holds[TMPROF_HOLD_BUCKETS]; /* out */
	__u64 reserved[2];
};

#define TMPROF_IOC_MAGIC 0xD7

/* Numbers start at 0x40: 1 and 2 would collide with FIBMAP and FIGETBSZ. */
#define TMPROF_IOC_INFO		 _IOWR(TMPROF_IOC_MAGIC, 0x40, struct tmprof_info)
#define TMPROF_IOC_ADD_TARGET	 _IOWR(TMPROF_IOC_MAGIC, 0x41, struct tmprof_target_request)
#define TMPROF_IOC_REMOVE_TARGET _IOWR(TMPROF_IOC_MAGIC, 0x42, struct tmprof_target_request)
#define TMPROF_IOC_GET_TARGET	 _IOWR(TMPROF_IOC_MAGIC, 0x43, struct tmprof_target_request)
#define TMPROF_IOC_GET_PARAMS	 _IOWR(TMPROF_IOC_MAGIC, 0x44, struct tmprof_params)
#define TMPROF_IOC_SET_PARAMS	 _IOWR(TMPROF_IOC_MAGIC, 0x45, struct tmprof_params)
#define TMPROF_IOC_CONTROL	 _IOWR(TMPROF_IOC_MAGIC, 0x46, struct tmprof_control)
#define TMPROF_IOC_EPOCH_END	 _IOWR(TMPROF_IOC_MAGIC, 0x47, struct tmprof_epoch)
#define TMPROF_IOC_GET_EPOCH	 _IOWR(TMPROF_IOC_MAGIC, 0x48, struct tmprof_epoch)
#define TMPROF_IOC_SCAN_RANGE	 _IOWR(TMPROF_IOC_MAGIC, 0x49, struct tmprof_scan_range)
#define TMPROF_IOC_READ_SAMPLES	 _IOWR(TMPROF_IOC_MAGIC, 0x4a, struct tmprof_read_samples)
#define TMPROF_IOC_STATS	 _IOWR(TMPROF_IOC_MAGIC, 0x4b, struct tmprof_stats)
#define TMPROF_IOC_LOCK_HOLDS	 _IOWR(TMPROF_IOC_MAGIC, 0x4c, struct tmprof_lock_holds)
#define TMPROF_IOC_READ_REGIONS	 _IOWR(TMPROF_IOC_MAGIC, 0x4d, struct tmprof_read_regions)

/* The layout is the same for every caller, 32-bit ones included: no padding that a compiler chose,
 * and every __u64 at a multiple of 8. */
#ifdef __cplusplus
#define TMPROF_ASSERT_SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)
#else
#define TMPROF_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
#endif
TMPROF_ASSERT_SIZE(tmprof_head, 16);
TMPROF_ASSERT_SIZE(tmprof_info, 72);
TMPROF_ASSERT_SIZE(tmprof_target_request, 72);
TMPROF_ASSERT_SIZE(tmprof_event, 32);
TMPROF_ASSERT_SIZE(tmprof_gate, 40);
TMPROF_ASSERT_SIZE(tmprof_region_params, 32);
TMPROF_ASSERT_SIZE(tmprof_params, 264);
TMPROF_ASSERT_SIZE(tmprof_control, 24);
TMPROF_ASSERT_SIZE(tmprof_epoch, 144);
TMPROF_ASSERT_SIZE(tmprof_page_record, 32);
TMPROF_ASSERT_SIZE(tmprof_scan_leaf, 16);
TMPROF_ASSERT_SIZE(tmprof_scan_range, 160);
TMPROF_ASSERT_SIZE(tmprof_sample, 56);
TMPROF_ASSERT_SIZE(tmprof_read_samples, 40);
TMPROF_ASSERT_SIZE(tmprof_region_record, 64);
TMPROF_ASSERT_SIZE(tmprof_read_regions, 40);
TMPROF_ASSERT_SIZE(tmprof_stats, 472);
TMPROF_ASSERT_SIZE(tmprof_lock_holds, 800);
#undef TMPROF_ASSERT_SIZE

#endif /* TMPROF_UAPI_TMPROF_H */
