/* SPDX-License-Identifier: Apache-2.0 */
/* Counts memory accesses by object, in a header hidden before each one (the Tracer interface).
 *
 * Link with -ltmprof_objects: malloc(3) and its family give objects, too, then. Allocation stacks
 * are found by unwind tables (.eh_frame), which compilers write unless told otherwise.
 *
 * All functions may be called from any thread; mem_access() also from signal handlers. A pointer
 * may point anywhere into an object, unless said otherwise; finding the object takes constant time.
 * A pointer that is no live object's is nobody's: accesses to it are counted apart, and its count
 * is 0.
 *
 * hfree() and hrealloc() end the program with a message and abort(3) when an object was freed
 * before, was not allocated here, or has had its header overwritten.
 *
 * Memory: each object takes 32 bytes besides its own. Both together are rounded up: to 16 bytes up
 * to 512, by an eighth at most above, and to 256 KiB of addresses above 32 KiB,
 * which is no memory unless transparent huge pages are always used. */

#ifndef TMPROF_OBJECTS_H_
#define TMPROF_OBJECTS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* As malloc(3), calloc(3), realloc(3), aligned_alloc(3) and free(3): NULL and ENOMEM where there is
 * no memory. An object that hrealloc() moves keeps its count, but for what other threads have yet
 * to hand over, which its first allocation's stack is credited with; counts by element end there.
 * `alignment` is a power of two, else EINVAL. hfree() leaves errno alone. */
void* hmalloc(size_t bytes);
void* hcalloc(size_t elements, size_t element_bytes);
void* hrealloc(void* object, size_t bytes);
void* haligned_alloc(size_t alignment, size_t bytes);
void hfree(void* object);

/* Counts `count` accesses to the object that holds `p`; a negative count is none. */
void mem_access(void* p, int count);

/* Accesses to the object so far. What another thread is counting at this moment may be missing;
 * what it counted before it was synchronised with is not. mem_access_count() saturates at INT_MAX.
 */
int mem_access_count(void* p);
uint64_t mem_access_count64(const void* p);

/* Prints a line for each object that lives: address, bytes, accesses, ID of the allocation stack.
 */
void mem_access_stat(void);

/* Begins to count by element of `element_bytes` each (a shorter last one has its own count). Counts
 * so far stay with the object alone. From here on accesses to it, and to small objects beside it,
 * are counted more slowly. 0, or an errno: EINVAL no object, or 0 bytes; EEXIST they are counted
 * already; ENOMEM. */
int mem_access_by_element(void* p, size_t element_bytes);
/* Accesses to the element that holds `p` since mem_access_by_element(); 0 where none are counted.
 */
uint64_t mem_access_element_count(const void* p);

typedef struct mem_object {
  void* start;
  size_t bytes;
  uint64_t accesses;
  uint64_t age_ms;   /* since it was allocated; steps of the kernel's tick, some 4 ms */
  uint32_t stack_id; /* the same number: allocated by the same calls */
} mem_object;

/* Calls `visit` for each object that lives, ascending by address, until it returns nonzero, and
 * returns that. Objects that come or go meanwhile may be missed or seen. `visit` may allocate and
 * free. */
int mem_access_each(int (*visit)(const mem_object* object, void* context), void* context);

/* The object that holds `p`; nonzero where there is one. */
int mem_access_find(const void* p, mem_object* object);

/* Sets the counts of all objects that live to 0. Other threads must not count meanwhile. */
void mem_access_reset(void);

/* Writes what is known of all objects to a file that tmprof reads. 0, or an errno: EFBIG where one
 * object's counts by element take more than 1 GiB. */
int mem_access_dump(const char* path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* TMPROF_OBJECTS_H_ */
