// SPDX-License-Identifier: Apache-2.0
// `tmprof convert --to objects`. It needs component objects/.

#pragma once

#include <string>

#include "base/result.h"
#include "proto/extension_codec.h"

namespace tmprof {

// Writes an object profile with the names of its calls. `output`: empty, or a file. Returns the
// exit status.
Result<int> ConvertObjects(const std::string& profile, const std::string& output);
// Reads the objects of a trace's epochs; null: they are copied as they are.
const ExtensionCodec* CodecOfObjects();

}  // namespace tmprof
