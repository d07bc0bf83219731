/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TMPROF_TESTBED_TIERSIM_POINTER_HOOK_H
#define TMPROF_TESTBED_TIERSIM_POINTER_HOOK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Puts `replacement` for each of `words` words of `table` that equals `wanted`, if there are
 * exactly `expected` of them; else it changes nothing and says how many there are.
 */
static inline bool tiersim_replace_pointers(void** table, size_t words, void* wanted,
                                            void* replacement, size_t expected, size_t* found) {
  *found = 0;
  for (size_t i = 0; i < words; ++i) *found += table[i] == wanted;
  if (*found != expected) return false;
  for (size_t i = 0; i < words; ++i) {
    if (table[i] == wanted) table[i] = replacement;
  }
  return true;
}

#endif /* TMPROF_TESTBED_TIERSIM_POINTER_HOOK_H */
