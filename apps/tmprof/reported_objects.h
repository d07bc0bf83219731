// SPDX-License-Identifier: Apache-2.0
// The part of `tmprof report` that shows objects. It needs component objects/.

#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "proto/extension_codec.h"
#include "report/view.h"

namespace tmprof {

class ReportedObjects {
 public:
  // Returns the description of an option, and the views that read it.
  using OfViews = std::function<std::string(std::string_view option, std::string_view description,
                                            std::string_view details)>;

  ReportedObjects();
  ~ReportedObjects();
  ReportedObjects(const ReportedObjects&) = delete;
  ReportedObjects& operator=(const ReportedObjects&) = delete;

  // Views() and those of objects, which read the options that Read() has read.
  std::span<const View> views() const;
  // Adds the options that choose and name objects.
  void AddOptions(CLI::App& command, const std::string& group, const OfViews& of_views);

  // Reads the options, and object profiles among them. `by` is that of a view of objects, or empty.
  // Returns the exit status so far. Sets the options of `hot`.
  Result<int> Read(const std::string& by, ViewOptions& options);
  // File for stacks; empty: they are not asked for.
  const std::string& folded() const;
  // Object profiles, which no output may replace.
  const std::vector<std::string>& counts() const;

  // True if `view` shows object profiles, too, and the file is one.
  bool IsProfile(const View& view, const std::string& file) const;
  // Reads the objects of a trace's epochs.
  const ExtensionCodec* codec() const;
  // Renders an object profile. Refuses options of traces.
  Result<Rendered> RenderProfile(const CLI::App& command, const std::string& file,
                                 const ViewOptions& options, Format format) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
