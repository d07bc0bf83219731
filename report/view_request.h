// SPDX-License-Identifier: Apache-2.0
// The options of a view, in the words of the options of `tmprof report`.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "rank/rank_words.h"
#include "report/view.h"

namespace tmprof {

struct ViewRequest {
  RankWords rank;     // without a weight, it is memory
  std::string group;  // empty: pages are not summed up
  std::uint64_t limit = 20;
  std::optional<int> pid;
  std::string epochs;     // empty: all
  std::string addresses;  // empty: all
  std::string style = "auto";
  std::string rates = DefaultRates();
  bool raw = false;
  std::uint64_t ping_pong = kPingPongEpochs;

  static std::string DefaultRates();  // "1,10,100,1000"
};

// Words of `group`, which `by` refuses by a message of its own.
inline constexpr std::array kHotGroups = {"mapping", "process", "object", "file"};
bool IsHotGroup(const std::string& word);

// Refuses an option that the view does not read, and that would be passed over in silence. `given`
// returns true if a flag, such as "--limit", stands on the command line.
Status RequireRead(const View& view, std::span<const View> views,
                   const std::function<bool(const std::string& flag)>& given);

// Refuses words that are no values of their options, and evidence beside a weight. Of a view of
// objects it does not read `by`. The caller sets the widths of text.
Result<ViewOptions> ViewOptionsOf(const ViewRequest& request, const View& view);

}  // namespace tmprof
