/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * A ring of fixed-size records between one CPU's event handler and the worker that folds them.
 *
 * The producer runs on one CPU, in NMI or below, and never waits: when the ring is full the new
 * record is lost and counted. A handler may interrupt another in the middle of a record on the same
 * CPU (an NMI over an hrtimer's handler). It finds the ring busy, and its record is lost and
 * counted, too, instead of overwriting the other's. The consumer runs anywhere, one at a time.
 */
#ifndef TMPROF_CORE_SAMPLE_RING_H
#define TMPROF_CORE_SAMPLE_RING_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/cache.h>
#include <linux/compiler.h>
#include <asm/barrier.h>
#define tmprof_load_acquire(address)	     smp_load_acquire(address)
#define tmprof_store_release(address, value) smp_store_release(address, value)
#define tmprof_load(address)		     READ_ONCE(*(address))
#define tmprof_store(address, value)	     WRITE_ONCE(*(address), value)
#define tmprof_same_cpu_barrier()	     barrier()
#else
#include <stdbool.h>
#include <stddef.h>
#define tmprof_load_acquire(address)	     __atomic_load_n(address, __ATOMIC_ACQUIRE)
#define tmprof_store_release(address, value) __atomic_store_n(address, value, __ATOMIC_RELEASE)
#define tmprof_load(address)		     __atomic_load_n(address, __ATOMIC_RELAXED)
#define tmprof_store(address, value)	     __atomic_store_n(address, value, __ATOMIC_RELAXED)
#define tmprof_same_cpu_barrier()	     __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

#define TMPROF_RING_LINE_BYTES 64

/* Counters of the producer and of the consumer are in cache lines of their own. */
struct tmprof_ring {
	unsigned char *records;
	__u32 record_bytes;
	__u32 capacity; /* a power of two, at most 2^31 */

	__u32 head __attribute__((aligned(TMPROF_RING_LINE_BYTES))); /* records ever written */
	__u32 busy;						     /* a record is being written */
	__u64 lost_full;
	__u64 lost_nested;

	__u32 tail __attribute__((aligned(TMPROF_RING_LINE_BYTES))); /* records ever taken */
};

/* `records`: capacity * record_bytes, aligned as a record is; it belongs to the caller. */
static inline void tmprof_ring_init(struct tmprof_ring *ring, void *records, __u32 record_bytes,
				    __u32 capacity)
{
	ring->records = (unsigned char *)records;
	ring->record_bytes = record_bytes;
	ring->capacity = capacity;
	ring->head = 0;
	ring->busy = 0;
	ring->lost_full = 0;
	ring->lost_nested = 0;
	ring->tail = 0;
}

static inline void *tmprof_ring_record(const struct tmprof_ring *ring, __u32 number)
{
	return ring->records + (size_t)(number & (ring->capacity - 1)) * ring->record_bytes;
}

/* Producer. The record to fill in, after which tmprof_ring_commit() is a must; NULL: it is lost. */
static inline void *tmprof_ring_reserve(struct tmprof_ring *ring)
{
	__u32 head;

	if (tmprof_load(&ring->busy)) {
		tmprof_store(&ring->lost_nested, ring->lost_nested + 1);
		return NULL;
	}
	tmprof_store(&ring->busy, 1U);
	tmprof_same_cpu_barrier();
	head = ring->head;
	if (head - tmprof_load_acquire(&ring->tail) >= ring->capacity) {
		tmprof_store(&ring->lost_full, ring->lost_full + 1);
		tmprof_same_cpu_barrier();
		tmprof_store(&ring->busy, 0U);
		return NULL;
	}
	return tmprof_ring_record(ring, head);
}

/* Producer. */
static inline void tmprof_ring_commit(struct tmprof_ring *ring)
{
	tmprof_store_release(&ring->head, ring->head + 1);
	tmprof_same_cpu_barrier();
	tmprof_store(&ring->busy, 0U);
}

/* Consumer. The oldest record, which stays where it is until tmprof_ring_take(); NULL: none. */
static inline const void *tmprof_ring_peek(const struct tmprof_ring *ring)
{
	__u32 tail = ring->tail;

	if (tmprof_load_acquire(&ring->head) == tail)
		return NULL;
	return tmprof_ring_record(ring, tail);
}

/* Consumer. Gives the record last peeked at back to the producer. */
static inline void tmprof_ring_take(struct tmprof_ring *ring)
{
	tmprof_store_release(&ring->tail, ring->tail + 1);
}

/* Anyone, at any time: records lost so far. */
static inline __u64 tmprof_ring_lost(const struct tmprof_ring *ring)
{
	return tmprof_load(&ring->lost_full) + tmprof_load(&ring->lost_nested);
}

#endif /* TMPROF_CORE_SAMPLE_RING_H */
