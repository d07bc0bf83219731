// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

#include "base/result.h"

namespace tmprof {

// Says of a value's fault which option it was given to.
Error OfOption(std::string_view option, std::string_view value, Error fault);

}  // namespace tmprof
