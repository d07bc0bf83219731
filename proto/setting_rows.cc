// SPDX-License-Identifier: Apache-2.0

#include "proto/setting_rows.h"

namespace tmprof {

std::string FaultText(const std::string& value, const Error& error) {
  const std::string fact = fmt::format("'{}': {}", value, error.reason);
  return error.advice.empty() ? fact : fact + "; " + error.advice;
}

}  // namespace tmprof
