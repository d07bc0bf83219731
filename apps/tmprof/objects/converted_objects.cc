// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/converted_objects.h"

#include <filesystem>

#include <fmt/format.h>

#include "apps/command_line/messages.h"
#include "base/text/format.h"
#include "objects/analysis/objects.h"
#include "objects/format/allocations_codec.h"
#include "proto/trace.h"

namespace tmprof {

Result<int> ConvertObjects(const std::string& profile, const std::string& given_output) {
  const std::string output = given_output.empty() ? profile + ".named" : given_output;
  if (auto status = RefuseToOverwrite(std::filesystem::path(profile), output); !status)
    return Fail(status.error());
  const Result<StreamEnd> end = NameObjects(profile, output);
  if (!end) return Fail(end.error());
  const int exit_status = WarnOfObjectsEnd(*end, profile, "converted");
  return Answer(fmt::format("{}\n", Printable(output)), exit_status);
}

const ExtensionCodec* CodecOfObjects() { return &AllocationsCodec(); }

}  // namespace tmprof
