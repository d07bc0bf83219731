// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/hot_list.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <string_view>

#include "base/text/human_units.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

using enum TextTable::Align;
using enum TextTable::Importance;

constexpr std::string_view kMagic = "TMPROFHT";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kHeaderBytes = 72;
constexpr std::uint32_t kRecordBytes = 40;
constexpr std::size_t kNameBytes = 16;
constexpr std::uint8_t kAssumed = 1;
constexpr std::uint8_t kJoint = 2;
constexpr std::uint16_t kNoNode = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kNoAge = std::numeric_limits<std::uint64_t>::max();

// Finds the processes of many spans.
class Processes {
 public:
  explicit Processes(const HotList& list) {
    for (const HotList::Process& process : list.processes) by_id_.emplace(process.id, &process);
  }
  // nullptr: it is not listed.
  const HotList::Process* Find(TargetId id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }

 private:
  std::map<TargetId, const HotList::Process*> by_id_;
};

template <std::integral T>
void Put(std::string& bytes, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t byte = 0; byte < sizeof bits; ++byte) {
    bytes.push_back(static_cast<char>(bits >> (8 * byte) & 0xff));
  }
}

}  // namespace

std::string ScoreUnit(const HotList& list) {
  if (ScoresAreAccesses(list.model, list.by)) return std::string(AccessesOf(list.by));
  return list.by == RankSource::kCombined ? "references and samples"
         : list.by == RankSource::kMemory ? "samples"
                                          : std::string(Name(list.by));
}

Json AsJson(const HotList& list) {
  const Processes processes(list);
  Json rows = Json::array();
  for (const HotSpan& span : list.spans) {
    const HotList::Process* process = processes.Find(span.key.target);
    rows.push_back({{"rank", rows.size() + 1},
                    {"target", span.key.target.value()},
                    {"pid", process == nullptr ? Json(nullptr) : Json(process->pid.value())},
                    {"name", process == nullptr ? Json(nullptr) : Json(process->name)},
                    {"start", Address(span.key.vpn)},
                    {"span", span.pages.value()},
                    {"score", span.score},
                    {"relative_sd", OrNull(span.relative_sd)},
                    {"assumed", span.assumed},
                    {"joint", span.joint},
                    {"node", span.node ? Json(span.node->value()) : Json(nullptr)},
                    {"tier", span.tier ? Json(span.tier->value()) : Json(nullptr)},
                    {"age_s", span.age ? Json(Seconds(*span.age)) : Json(nullptr)}});
  }
  return {{"epoch", {{"index", list.epoch}, {"length_s", Seconds(list.epoch_length)}}},
          {"by", Name(list.by)},
          {"rank_weight", Name(WeightOf(list.by))},
          {"model", Name(list.model)},
          {"score_unit", ScoreUnit(list)},
          {"spans", list.ranked},
          {"rows", std::move(rows)}};
}

std::string AsText(const HotList& list, TextWidth width) {
  const Processes processes(list);
  TextTable table({{"pid", kRight, kKey},
                   {"name", kLeft, kThird},
                   {"start", kLeft, kKey},
                   {"size"},
                   {ScoreUnit(list), kRight, kKey},
                   {"±", kRight, kFirst},
                   {"tier", kRight, kFirst},
                   {"node", kRight, kThird},
                   {"last seen", kRight, kSecond}});
  bool assumed = false;
  for (const HotSpan& span : list.spans) {
    const HotList::Process* process = processes.Find(span.key.target);
    assumed |= span.assumed;
    table.AddRow({process == nullptr ? "unknown" : std::to_string(process->pid.value()),
                  process == nullptr ? "unknown" : Printable(process->name), Address(span.key.vpn),
                  HumanSize(span.pages), Significant(span.score),
                  span.assumed ? "assumed" : OrUnknown(span.relative_sd, Percent),
                  OrUnknown(span.tier, [](Tier tier) { return std::to_string(tier.value()); }),
                  OrUnknown(span.node, [](NodeId node) { return std::to_string(node.value()); }),
                  OrUnknown(span.age, [](std::chrono::nanoseconds age) {
                    return fmt::format("{:.1f} s ago", Seconds(age));
                  })});
  }
  std::string text = fmt::format("hottest spans by {} in epoch {} ({:.1f} s)\n", ScoreUnit(list),
                                 list.epoch, Seconds(list.epoch_length));
  if (!list.spans.empty()) text += table.Text(width);
  text +=
      fmt::format("{} of {} shown\n", Grouped(list.spans.size()), CountText(list.ranked, "span"));
  if (assumed) {
    text +=
        "note: 'assumed' scores are those of similar pages, because nobody looked at these "
        "lately\n";
  }
  return text;
}

std::string AsBinary(const HotList& list) {
  const Processes processes(list);
  std::string bytes(kMagic);
  bytes.reserve(kHeaderBytes + kRecordBytes * list.spans.size());
  Put(bytes, kVersion);
  Put(bytes, kHeaderBytes);
  Put(bytes, kRecordBytes);
  Put(bytes, std::uint32_t{0});
  Put(bytes, static_cast<std::uint64_t>(list.spans.size()));
  Put(bytes, list.ranked);
  Put(bytes, list.epoch);
  Put(bytes, list.epoch_length.count());
  std::string name(Name(list.by));
  name.resize(kNameBytes);
  bytes += name;
  for (const HotSpan& span : list.spans) {
    const HotList::Process* process = processes.Find(span.key.target);
    Put(bytes, process == nullptr ? 0 : process->pid.value());
    Put(bytes, static_cast<std::uint32_t>(span.pages.value()));
    Put(bytes, AddressOf(span.key.vpn));
    Put(bytes, std::bit_cast<std::uint64_t>(span.score));
    Put(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(span.relative_sd.value_or(NAN))));
    Put(bytes, static_cast<std::uint8_t>(span.tier ? span.tier->value() : 0));
    Put(bytes,
        static_cast<std::uint8_t>((span.assumed ? kAssumed : 0) | (span.joint ? kJoint : 0)));
    Put(bytes, static_cast<std::uint16_t>(span.node ? span.node->value() : kNoNode));
    Put(bytes, span.age ? static_cast<std::uint64_t>(span.age->count()) : kNoAge);
  }
  return bytes;
}

}  // namespace tmprof
