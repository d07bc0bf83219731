// SPDX-License-Identifier: Apache-2.0
// The example of a view: its own file.

#pragma once

#include <string_view>

#include "report/view.h"

namespace tmprof {

inline constexpr std::string_view kExampleReads[] = {"epochs"};

inline Result<Rendered> RenderExample(const Trace& trace, const ViewOptions& options, Format format,
                                      bool /*with_png*/) {
  auto summary = RenderView("summary", trace, options, format);
  if (summary) summary->output = "an example\n";
  return summary;
}

}  // namespace tmprof
