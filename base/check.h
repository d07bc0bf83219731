// SPDX-License-Identifier: Apache-2.0
// A broken invariant ends the program, because no later result could be trusted.

#pragma once

#include <cstdio>
#include <cstdlib>

#define TMPROF_CHECK(condition)                                                           \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      std::fprintf(stderr, "tmprof: broken invariant at %s:%d: %s\n", __FILE__, __LINE__, \
                   #condition);                                                           \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
