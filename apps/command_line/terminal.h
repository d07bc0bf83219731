// SPDX-License-Identifier: Apache-2.0
// The width of standard output, which text for people has to fit.

#pragma once

#include "base/text/text_table.h"

namespace tmprof {

// COLUMNS of the environment, which is a number above 0, else the columns of the terminal, or 80 if
// the terminal does not report them. nullopt: standard output is no terminal, so lines may have any
// length. At least 40: narrower text is not made.
TextWidth OutputWidth();

// The width of a command's text. `is_wide`: the user asked for all columns.
TextWidth OutputWidth(bool is_wide);

}  // namespace tmprof
