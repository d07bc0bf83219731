// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/config_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <expected>
#include <functional>
#include <utility>

#include "apps/tmprofd/setting_changes.h"
#include "apps/tmprofd/setting_rows.h"
#include "base/check.h"
#include "base/text/near_names.h"
#include "base/unique_fd.h"
#include "proto/config.pb.h"
#include "proto/text_reader.h"

namespace tmprof {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kMostFaultsTold = 100;

// --- Settings in the message

struct Place {
  pb::Message* message = nullptr;  // a group, or the whole configuration
  const pb::FieldDescriptor* field = nullptr;
};

// The field of a row. It makes the groups around it.
Place PlaceOf(std::string_view path, wire::Config& config) {
  Place place{.message = &config};
  while (true) {
    const std::size_t dot = path.find('.');
    place.field = place.message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    TMPROF_CHECK(place.field != nullptr);
    if (dot == std::string_view::npos) return place;
    place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    path.remove_prefix(dot + 1);
  }
}

// The same, or null if a group around it is not given.
std::pair<const pb::Message*, const pb::FieldDescriptor*> FindGiven(std::string_view path,
                                                                    const wire::Config& config) {
  const pb::Message* message = &config;
  while (true) {
    const std::size_t dot = path.find('.');
    const pb::FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    TMPROF_CHECK(field != nullptr);
    if (dot == std::string_view::npos) return {message, field};
    if (!message->GetReflection()->HasField(*message, field)) return {};
    message = &message->GetReflection()->GetMessage(*message, field);
    path.remove_prefix(dot + 1);
  }
}

Scalar ValueOf(const pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& of = *message.GetReflection();
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return of.GetBool(message, &field);
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return of.GetDouble(message, &field);
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return of.GetString(message, &field);
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return std::uint64_t{of.GetUInt32(message, &field)};
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return std::uint64_t{of.GetUInt64(message, &field)};
    default:
      TMPROF_CHECK(false);
  }
}

Scalar ValueOf(const pb::Message& message, const pb::FieldDescriptor& field, int index) {
  const pb::Reflection& of = *message.GetReflection();
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return of.GetRepeatedString(message, &field, index);
    case pb::FieldDescriptor::CPPTYPE_INT32:  // from 0 by its range
      return static_cast<std::uint64_t>(of.GetRepeatedInt32(message, &field, index));
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return std::uint64_t{of.GetRepeatedUInt32(message, &field, index)};
    default:
      TMPROF_CHECK(false);
  }
}

// Empty if it is not given.
std::vector<Scalar> ValuesOf(const pb::Message& message, const pb::FieldDescriptor& field) {
  std::vector<Scalar> values;
  if (field.is_repeated()) {
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
      values.push_back(ValueOf(message, field, i));
    }
  } else if (message.GetReflection()->HasField(message, &field)) {
    values.push_back(ValueOf(message, field));
  }
  return values;
}

// Sets the field, or adds to a repeated one.
void Give(const Scalar& value, const Place& place) {
  const pb::Reflection& to = *place.message->GetReflection();
  const pb::FieldDescriptor* field = place.field;
  const auto put = [&](auto set, auto add, auto given) {
    if (field->is_repeated()) {
      (to.*add)(place.message, field, std::move(given));
    } else {
      (to.*set)(place.message, field, std::move(given));
    }
  };
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return put(&pb::Reflection::SetBool, &pb::Reflection::AddBool, std::get<bool>(value));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return put(&pb::Reflection::SetDouble, &pb::Reflection::AddDouble, std::get<double>(value));
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return put(&pb::Reflection::SetString, &pb::Reflection::AddString,
                 std::get<std::string>(value));
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return put(&pb::Reflection::SetInt32, &pb::Reflection::AddInt32,
                 static_cast<std::int32_t>(std::get<std::uint64_t>(value)));
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return put(&pb::Reflection::SetUInt32, &pb::Reflection::AddUInt32,
                 static_cast<std::uint32_t>(std::get<std::uint64_t>(value)));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return put(&pb::Reflection::SetUInt64, &pb::Reflection::AddUInt64,
                 std::get<std::uint64_t>(value));
    default:
      TMPROF_CHECK(false);
  }
}

// --- From the message

// Refuses the value with this index, 0 if there is one, of the field with this name in the group.
using RefuseField = std::function<void(const pb::Message& group, const std::string& field,
                                       std::string why, int index)>;

// Builds the configuration from a message whose values are of their fields' types and ranges.
// Values that ReadText() refused are unset by now.
class Building {
 public:
  Building(const wire::Config& wire, RefuseField refuse)
      : wire_(wire), refuse_(std::move(refuse)) {}

  Config Run() {
    for (const SettingRow& row : SettingRows()) {
      const auto [message, field] = FindGiven(row.path, wire_);
      if (message == nullptr) continue;
      const std::vector<Scalar> given = ValuesOf(*message, *field);
      if (given.empty()) continue;
      row.set(given, config_, [&](std::size_t index, std::string why) {
        refuse_(*message, field->name(), std::move(why), static_cast<int>(index));
      });
    }
    TiersOf(wire_.tiers(), config_.tiers);
    const wire::Config::Placement& placement = wire_.placement();
    if (config_.placement.rank_given) {
      Rank(placement, config_.placement);
    } else {
      Weight(placement, config_.placement);
    }
    Cache(placement, config_.placement);
    if (config_.placement.track_only && config_.mover.limits.dry_run) {
      Refuse(placement, "dry_run",
             "track_only decides no move that could be made dry; only one of them can be true");
    }
    return std::move(config_);
  }

 private:
  void Refuse(const pb::Message& group, const std::string& field, std::string why) {
    refuse_(group, field, std::move(why), 0);
  }

  void TiersOf(const wire::Config::Tiers& wire, TierConfig& tiers) {
    if (wire.tier_size() != 0) {
      std::vector<std::vector<NodeId>> nodes;
      for (const auto& tier : wire.tier()) {
        nodes.emplace_back();
        for (const std::uint32_t node : tier.node()) {
          nodes.back().emplace_back(static_cast<NodeId::rep>(node));
        }
      }
      auto made = tmprof::Tiers::Make(std::move(nodes));
      if (made) {
        tiers.given = *std::move(made);
      } else {
        Refuse(wire, "tier", fmt::format("{}: {}", made.error().object, made.error().reason));
      }
    }
    for (int i = 0; i < wire.tier_size(); ++i) OwnCapacity(wire, i, tiers);
  }

  // Reads the capacity of a tier that has one.
  Capacity CapacityOf(const wire::Config::Tiers::Tier& wire) {
    if (wire.has_capacity_mib()) return PageCount(wire.capacity_mib() * kPagesPerMib);
    if (!wire.has_footprint_ratio()) return FreeCapacity{};
    const auto ratio = ParseRatio(wire.footprint_ratio());
    if (ratio) return *ratio;
    Refuse(wire, "footprint_ratio", Fault(wire.footprint_ratio(), ratio.error()));
    return FreeCapacity{};
  }

  void OwnCapacity(const wire::Config::Tiers& wire, int i, TierConfig& tiers) {
    const auto& tier = wire.tier(i);
    if (tier.capacity_case() == wire::Config::Tiers::Tier::CAPACITY_NOT_SET) {
      if (i > 0) tiers.lower_capacities.emplace_back(FreeCapacity{});
      return;
    }
    const char* field = tier.has_capacity_mib() ? "capacity_mib" : "footprint_ratio";
    const Capacity capacity = CapacityOf(tier);
    if (i == 0) {
      if (wire.capacity_case() != wire::Config::Tiers::CAPACITY_NOT_SET) {
        Refuse(tier, field, "tiers has a capacity, too, and that is tier 1's");
      }
      tiers.capacity = capacity;
      return;
    }
    if (i + 1 == wire.tier_size()) {
      Refuse(tier, field, "what is beyond it would have no tier to go to");
    }
    tiers.lower_capacities.push_back(capacity);
  }

  static bool Sums(const PlacementConfig& placement) {
    return placement.ranker.model == RankModel::kSum;
  }

  void Rank(const wire::Config::Placement& wire, PlacementConfig& placement) {
    placement.weight = WeightOf(placement.rank);
    if (placement.weight_given) {
      Refuse(wire, "rank_weight",
             "rank chooses one kind of evidence instead of a weight; set one of them");
    }
    if (Sums(placement) && placement.rank == RankSource::kMemory) {
      Refuse(wire, "rank", "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
    }
  }

  void Weight(const wire::Config::Placement& wire, PlacementConfig& placement) {
    if (Sums(placement) && !placement.weight_given) placement.weight = RankWeight::kAccesses;
    if (Sums(placement) && wire.rank_weight() == Name(RankWeight::kMemory)) {
      Refuse(wire, "rank_weight",
             "'memory': rank_model 'sum' estimates no rates; use rank_model 'rate'");
    }
    // The placer goes by all accesses while no source counts those to memory.
    placement.rank = BasisOf(placement.weight, {.memory = true}, RankUse::kPlace).source;
  }

  void Cache(const wire::Config::Placement& wire, PlacementConfig& placement) {
    if (!wire.has_llc_kib()) return;
    if (placement.ranker.model == RankModel::kSum) {
      Refuse(wire, "llc_kib", "rank_model 'sum' estimates no rates; use rank_model 'rate'");
    } else if (placement.rank != RankSource::kMemory) {
      Refuse(wire, "llc_kib",
             fmt::format("{} '{}' counts accesses that the cache serves, too; use "
                         "rank_weight 'memory'",
                         placement.rank_given ? "rank" : "rank_weight",
                         placement.rank_given ? Name(placement.rank) : Name(placement.weight)));
    }
  }

  const wire::Config& wire_;
  RefuseField refuse_;
  Config config_;
};

// --- To the message

void Print(const TierConfig& tiers, wire::Config::Tiers& wire) {
  for (std::size_t i = 1; tiers.given && i <= tiers.given->size(); ++i) {
    auto& tier = *wire.add_tier();
    for (const NodeId node : tiers.given->NodesOf(Tier(static_cast<Tier::rep>(i)))) {
      tier.add_node(node.value());
    }
    if (i < 2 || i - 2 >= tiers.lower_capacities.size()) continue;
    const Capacity& capacity = tiers.lower_capacities[i - 2];
    if (const auto* pages = std::get_if<PageCount>(&capacity)) {
      tier.set_capacity_mib(pages->value() / kPagesPerMib);
    } else if (const auto* ratio = std::get_if<Ratio>(&capacity)) {
      tier.set_footprint_ratio(ToString(*ratio));
    }
  }
}

// With the values that follow from other settings, or without.
wire::Config WireOf(const Config& config, bool with_following = true) {
  wire::Config wire;
  Print(config.tiers, *wire.mutable_tiers());
  for (const SettingRow& row : SettingRows()) {
    if (!with_following && row.follows && row.follows(config)) continue;
    const std::vector<Scalar> values = row.get(config);
    if (values.empty()) continue;
    const Place place = PlaceOf(row.path, wire);
    for (const Scalar& value : values) Give(value, place);
  }
  return wire;
}

// --- Files

std::string PlaceIn(const std::string& name, const TextFault& fault) {
  const std::string place = fmt::format("{}:{}:{}: ", name, fault.place.line, fault.place.column);
  return fault.field.empty() ? place : place + fault.field + ": ";
}

Error Refusal(const std::string& name, std::vector<TextFault> faults) {
  std::ranges::sort(faults);
  std::string lines = faults.size() == 1 ? "1 fault" : fmt::format("{} faults", faults.size());
  for (std::size_t i = 0; i < std::min(faults.size(), kMostFaultsTold); ++i) {
    lines += "\n" + PlaceIn(name, faults[i]) + faults[i].what;
  }
  if (faults.size() > kMostFaultsTold) {
    lines += fmt::format("\nand {} more", faults.size() - kMostFaultsTold);
  }
  return BadInput("use configuration", name, lines);
}

std::optional<TextFault> FirstControlCharacter(std::string_view text) {
  TextPlace place;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\n' && c != '\t' && c != '\r') || byte == 0x7F) {
      return TextFault{place, "", fmt::format("byte 0x{:02x} is not of a text", byte)};
    }
    ++place.column;
    if (c == '\n') place = {place.line + 1, 1};
  }
  return std::nullopt;
}

// Advice on a name that no field has: that of the field with this name in any group, or the
// nearest.
std::string AdviceOn(const std::string& name) {
  std::vector<std::string> names;
  for (const SettingRow& row : SettingRows()) {
    names.emplace_back(row.path);
    if (row.path.ends_with("." + name)) return fmt::format("did you mean '{}'?", row.path);
  }
  const std::string nearest = Nearest(name, names);
  return nearest.empty() ? nearest : fmt::format("did you mean '{}'?", nearest);
}

// Sets the field that "group.field" names; the error is a reason, and advice behind it. Fields that
// may be repeated are set in files only.
std::expected<void, std::string> SetField(wire::Config& config, const Setting& setting) {
  pb::Message* message = &config;
  std::string_view path = setting.name;
  std::string group;  // that `path` is in
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string name(path.substr(0, dot));
    const pb::FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) {
      const std::string advice = AdviceOn(setting.name);
      return std::unexpected(NoSuchField(*message->GetDescriptor(), group) +
                             (advice.empty() ? "" : "; " + advice));
    }
    if (field->is_repeated()) {
      return std::unexpected("it is a list, which only the configuration file can change");
    }
    const bool is_group = field->message_type() != nullptr;
    if (is_group && dot == std::string_view::npos) {
      return std::unexpected("names a group of fields: GROUP.FIELD=VALUE");
    }
    if (!is_group && dot != std::string_view::npos) {
      return std::unexpected(fmt::format("{}.{} is a field, which has none in it", group, name));
    }
    if (!is_group) {
      const pb::Reflection& reflection = *message->GetReflection();
      const bool unquoted =
          field->type() == pb::FieldDescriptor::TYPE_STRING && !setting.value.starts_with('"');
      reflection.ClearField(message, field);
      if (!unquoted && setting.value == "default") return {};
      const std::string value = unquoted ? '"' + setting.value + '"' : setting.value;
      if (StoreValue(*message, *field, value)) return {};
      return std::unexpected(fmt::format("{} is needed, not '{}'", Wanted(*field), setting.value));
    }
    message = message->GetReflection()->MutableMessage(message, field);
    group += (group.empty() ? "" : ".") + name;
    path.remove_prefix(dot + 1);
  }
}

// "mover.attempts" for a field of a group in `config`.
std::string PathOf(const pb::Message& group, const std::string& field) {
  std::string path = field;
  for (const pb::Descriptor* type = group.GetDescriptor(); type->containing_type() != nullptr;
       type = type->containing_type()) {
    // Groups are named as their fields, which are in lower case.
    std::string name = type->name();
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    path = fmt::format("{}.{}", name, path);
  }
  return path;
}

}  // namespace

Result<Config> ParseConfig(std::string_view text, const std::string& name) {
  if (text.size() > kMostConfigBytes) {
    return Fail(
        BadInput("use configuration", name, "it is larger than 1 MiB, which no configuration is"));
  }
  if (auto fault = FirstControlCharacter(text)) return Fail(Refusal(name, {*std::move(fault)}));
  wire::Config wire;
  TextReading reading = ReadText(text, wire);
  const auto refuse = [&reading](const pb::Message& group, const std::string& field,
                                 std::string why, int index) {
    reading.Refuse(group, field, std::move(why), index);
  };
  Config config = Building(wire, refuse).Run();
  if (!reading.faults.empty()) return Fail(Refusal(name, std::move(reading.faults)));
  return config;
}

Result<Config> LoadConfig(const std::string& path) {
  const auto refuse = [&path](int error) {
    return Fail(Refused("read configuration", path, error));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return refuse(errno);
  std::string text(kMostConfigBytes + 1, '\0');  // one more byte shows that a file is too large
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return ParseConfig(text, path);
}

std::string PrintConfig(const Config& config) {
  pb::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(WireOf(config), &text);
  return text;
}

bool ObserveAlike(const Config& a, const Config& b) {
  const auto observation = [](const Config& config) {
    wire::Config wire = WireOf(config);
    KeepWhatReopens(wire);
    return wire.SerializeAsString();
  };
  return observation(a) == observation(b);
}

Result<Config> WithSettings(const Config& config, const std::vector<Setting>& settings) {
  // Settings that follow from another one follow from its new value.
  wire::Config wire = WireOf(config, false);
  for (const Setting& setting : settings) {
    if (auto status = SetField(wire, setting); !status) {
      return Fail(BadInput("set", setting.name, status.error()));
    }
  }
  std::vector<std::string> faults;
  std::string field_at_fault;
  const auto refuse = [&](const pb::Message& group, const std::string& field, std::string why,
                          int /*index*/) {
    const std::string path = PathOf(group, field);
    if (faults.empty()) field_at_fault = path;
    faults.push_back(faults.empty() ? std::move(why) : fmt::format("{}: {}", path, why));
  };
  Config changed = Building(wire, refuse).Run();
  if (faults.empty()) return changed;
  return Fail(BadInput("set", field_at_fault, fmt::format("{}", fmt::join(faults, "\n"))));
}

}  // namespace tmprof
