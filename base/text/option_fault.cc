// SPDX-License-Identifier: Apache-2.0

#include "base/text/option_fault.h"

#include <fmt/format.h>

namespace tmprof {

Error OfOption(std::string_view option, std::string_view value, Error fault) {
  fault.attempt = "use option";
  fault.object = fmt::format("{} {}", option, value);
  return fault;
}

}  // namespace tmprof
