// SPDX-License-Identifier: Apache-2.0
// The view `objects`, of a trace and of an object profile.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "base/units.h"
#include "objects/analysis/counted_objects.h"
#include "objects/analysis/objects.h"
#include "objects/format/objects_file.h"
#include "report/view.h"

namespace tmprof {

struct ObjectViewOptions {
  ObjectsBy by = ObjectsBy::kSite;
  std::optional<Vpn> page;                   // only of a trace; unset: all
  std::optional<std::vector<NodeId>> tier2;  // only of a trace; unset: the trace's tiers
  ObjectProfiles counts;                     // only of a trace
  bool folded = false;                       // the stacks, too
};

// Returns the view of traces. It reads `options` when it is rendered.
View ObjectsView(std::shared_ptr<const ObjectViewOptions> options);

// Reads the rest of the object profile, which came from `file`.
Result<Rendered> RenderObjectProfile(ObjectsReader& profile, std::string file,
                                     const ObjectViewOptions& options, const ViewOptions& view,
                                     Format format);

}  // namespace tmprof
