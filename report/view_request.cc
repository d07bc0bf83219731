// SPDX-License-Identifier: Apache-2.0

#include "report/view_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/parse_decimal.h"
#include "base/text/addresses.h"
#include "base/text/option_values.h"

namespace tmprof {
namespace {

// Refuses "inf", "nan" and an empty item, too.
Result<std::vector<double>> ParseRates(const std::string& text) {
  std::vector<double> rates;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    more = item.size() < rest.size();
    if (more) rest.remove_prefix(item.size() + 1);
    const std::optional<double> rate = ParseFiniteNumber(item);
    if (!rate || *rate <= 0) {
      return Fail(BadInput("use option", "--rates " + text,
                           fmt::format("'{}' is not a finite number above 0", item),
                           "write a number above 0, or several with commas between: 1,100"));
    }
    rates.push_back(*rate);
  }
  return rates;
}

// "3:10" is epochs 3 to 9; either side may be left out.
Result<EpochRange> ParseEpochs(const std::string& text) {
  const auto refuse = [&] {
    return Fail(BadInput("use option", "--epochs " + text, "it is not FIRST:END",
                         "write 3:10 for epochs 3 to 9; either side may be left out"));
  };
  EpochRange range;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return refuse();
  const auto parse = [](std::string_view digits, std::uint64_t& value) {
    if (digits.empty()) return true;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const std::string_view all = text;
  if (!parse(all.substr(0, colon), range.first) || !parse(all.substr(colon + 1), range.end) ||
      range.first >= range.end) {
    return refuse();
  }
  return range;
}

// A view of objects has the evidence `object` itself.
Status RefuseGroupAsEvidence(const std::string& by, bool by_objects) {
  if (!IsHotGroup(by) || (by_objects && by == "object")) return {};
  return Fail(BadInput("use option", "--by " + by, "it is no evidence that tells what is hot",
                       fmt::format("to sum up pages by what holds them, use '--view hot --group "
                                   "{}'",
                                   by)));
}

}  // namespace

std::string ViewRequest::DefaultRates() {
  return fmt::format("{}", fmt::join(WorkingSetOptions{}.rates, ","));
}

bool IsHotGroup(const std::string& word) { return std::ranges::count(kHotGroups, word) > 0; }

Status RequireRead(const View& view, std::span<const View> views,
                   const std::function<bool(const std::string& flag)>& given) {
  for (const std::string_view option : OptionsOfViews(views)) {
    const std::string flag = fmt::format("--{}", option);
    if (!given(flag) || std::ranges::find(view.reads, option) != view.reads.end()) {
      continue;
    }
    return Fail(BadInput("use option", flag, fmt::format("the {} view does not read it", view.name),
                         "these do: " + ViewsThatRead(option, views)));
  }
  return {};
}

Result<ViewOptions> ViewOptionsOf(const ViewRequest& request, const View& view) {
  const bool by_objects = !view.by_evidence;
  if (auto status = RefuseGroupAsEvidence(request.rank.by, by_objects); !status)
    return Fail(status.error());
  RankWords words = request.rank;
  if (by_objects) words.by.clear();
  const Result<ParsedRank> rank = ParseRank(words);
  if (!rank) return Fail(rank.error());
  if (rank->by && rank->weight) {
    return Fail(BadInput("use option", "--rank-weight",
                         "--by chooses one kind of evidence instead of a weight", "give one"));
  }
  ViewOptions options{.model = rank->model,
                      .weight = rank->weight.value_or(ViewOptions{}.weight),
                      .by = rank->by,
                      .limit = request.limit > 0 ? std::optional(request.limit) : std::nullopt,
                      .heatmap_raw = request.raw,
                      .ping_pong_epochs = request.ping_pong};
  Result<std::vector<double>> rates = ParseRates(request.rates);
  if (!rates) return Fail(rates.error());
  std::ranges::sort(*rates);
  std::vector<std::string> rate_texts;
  for (const double rate : *rates) rate_texts.push_back(fmt::format("{}", rate));
  if (Status different = RequireDifferent("--rates", rate_texts, *rates); !different) {
    return Fail(different.error());
  }
  options.wss_rates = *std::move(rates);
  if (!request.group.empty()) {
    const Result<HotGroup> group = ParseHotGroup(request.group);
    if (!group) return Fail(group.error());
    options.hot_group = *group;
  }
  if (request.pid) options.pid = Pid(*request.pid);
  if (!request.epochs.empty()) {
    const Result<EpochRange> range = ParseEpochs(request.epochs);
    if (!range) return Fail(range.error());
    options.epochs = *range;
  }
  if (!request.addresses.empty()) {
    const Result<VpnRange> range = ParseAddresses(request.addresses);
    if (!range) return Fail(range.error());
    options.addresses = *range;
  }
  if (request.style != "auto") {
    const Result<HeatmapStyle> style = ParseHeatmapStyle(request.style);
    if (!style) return Fail(style.error());
    options.heatmap_style = *style;
  }
  return options;
}

}  // namespace tmprof
