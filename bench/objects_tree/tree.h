/* SPDX-License-Identifier: Apache-2.0 */
/* Source of tree.c's nodes: malloc(3), or the page-protection tracer with PAGE_TRACER. */

#ifndef TMPROF_BENCH_TREE_H_
#define TMPROF_BENCH_TREE_H_

#include <stddef.h>
#include <stdlib.h>

#ifdef PAGE_TRACER
void* tree_allocate(size_t bytes);
void tree_free(void* object, size_t bytes);
#else
static inline void* tree_allocate(size_t bytes) { return malloc(bytes); }
static inline void tree_free(void* object, size_t bytes) {
  (void)bytes;
  free(object);
}
#endif

#endif /* TMPROF_BENCH_TREE_H_ */
