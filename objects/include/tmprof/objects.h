/* SPDX-License-Identifier: Apache-2.0 */
/* Counts memory accesses by object, in a header hidden before each one (the Tracer interface).
 *
 * Link with -ltmprof_objects. Objects of malloc(3) and its family are then counted, too.
 * Allocation stacks are found by unwind tables (.eh_frame), which compilers write by default.
 *
 * All functions may be called from any thread, and mem_access() also from signal handlers. A
 * pointer may point anywhere into an object, unless stated otherwise; finding the object takes
 * constant time. Accesses by a pointer into no live object are counted apart, and its count is
 * 0.
 *
 * hfree() and hrealloc() end the program with a message and abort(3) if an object was freed
 * before, was not allocated here, or has had its header overwritten.
 *
 * Memory: each object takes 32 bytes besides its own. The sum is rounded up: to 16 bytes up to
 * 512, by an eighth at most above, and to 256 KiB of addresses above 32 KiB. Such addresses take
 * no memory unless transparent huge pages are always used. */

#ifndef TMPROF_OBJECTS_H_
#define TMPROF_OBJECTS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* These work as malloc(3), calloc(3), realloc(3), aligned_alloc(3) and free(3). They return NULL
 * and set ENOMEM if there is no memory. An object that hrealloc() moves keeps its count, except
 * for accesses that other threads have yet to hand over: these go to the stack of its first
 * allocation. Its counts by element end. `alignment` is a power of two, else EINVAL. hfree()
 * leaves errno alone. */
void* hmalloc(size_t bytes);
void* hcalloc(size_t elements, size_t element_bytes);
void* hrealloc(void* object, size_t bytes);
void* haligned_alloc(size_t alignment, size_t bytes);
void hfree(void* object);

/* Counts `count` accesses to the object that holds `p`; a negative count counts nothing. */
void mem_access(void* p, int count);

/* Return the accesses to the object up to now. An access that another thread is counting at this
 * moment may be missing. Accesses that it counted before it was synchronised with are included.
 * mem_access_count() saturates at INT_MAX. */
int mem_access_count(void* p);
uint64_t mem_access_count64(const void* p);

/* Prints a line for each object that lives: address, bytes, accesses, ID of the allocation stack.
 */
void mem_access_stat(void);

/* Begins to count by element of `element_bytes` each; a shorter last element has its own count.
 * Earlier counts stay with the object alone. From here on accesses to the object, and to small
 * objects beside it, are counted more slowly. Returns 0 or an errno. EINVAL: no object, or 0
 * bytes. EEXIST: elements are counted already. ENOMEM: no memory. */
int mem_access_by_element(void* p, size_t element_bytes);
/* Returns the accesses to the element that holds `p` since mem_access_by_element(); 0 if its
 * elements are not counted. */
uint64_t mem_access_element_count(const void* p);

typedef struct mem_object {
  void* start;
  size_t bytes;
  uint64_t accesses;
  uint64_t age_ms;   /* since its allocation; in steps of the kernel's tick, some 4 ms */
  uint32_t stack_id; /* equal for allocations by the same calls */
} mem_object;

/* Calls `visit` for each live object, ascending by address, until it returns nonzero. Returns
 * that value, else 0. Objects that come or go meanwhile may be missed or seen. `visit` may
 * allocate and free. */
int mem_access_each(int (*visit)(const mem_object* object, void* context), void* context);

/* Finds the object that holds `p`. Returns nonzero if there is one. */
int mem_access_find(const void* p, mem_object* object);

/* Sets the counts of all live objects to 0. Other threads must not count meanwhile. */
void mem_access_reset(void);

/* Writes everything known about all objects to a file that tmprof reads. Returns 0 or an errno.
 * EFBIG: the counts by element of one object take more than 1 GiB. */
int mem_access_dump(const char* path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TMPROF_OBJECTS_H_ */
