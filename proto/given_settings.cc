// SPDX-License-Identifier: Apache-2.0

#include "proto/given_settings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"
#include "proto/config.pb.h"
#include "proto/setting_changes.h"
#include "proto/text_reader.h"

namespace tmprof {
namespace {

namespace pb = google::protobuf;

constexpr std::size_t kMostFaultsShown = 100;

// --- Paths

// The first word of a path: "tier" and 1 of "tier[1].node".
struct Step {
  std::string name;
  std::optional<int> index;
};

Step TakeStep(std::string_view& path) {
  const std::size_t dot = std::min(path.find('.'), path.size());
  std::string_view word = path.substr(0, dot);
  path.remove_prefix(std::min(dot + 1, path.size()));
  const std::size_t bracket = word.find('[');
  if (bracket == std::string_view::npos) return {.name = std::string(word), .index = {}};
  int index = 0;
  for (const char digit : word.substr(bracket + 1, word.size() - bracket - 2)) {
    TMPROF_CHECK(digit >= '0' && digit <= '9');
    index = 10 * index + (digit - '0');
  }
  return {.name = std::string(word.substr(0, bracket)), .index = index};
}

// A field and the group that has it; null if a group around it is not given.
template <typename Message>
struct Place {
  Message* group = nullptr;
  const pb::FieldDescriptor* field = nullptr;
};

// `enter` returns the group that a step leads to, from the group, the field and the index of the
// step; null: it is not given.
template <typename Message, typename Enter>
Place<Message> PlaceAt(std::string_view path, Message& config, const Enter& enter) {
  Place<Message> place{.group = &config};
  while (true) {
    const Step step = TakeStep(path);
    place.field = place.group->GetDescriptor()->FindFieldByName(step.name);
    TMPROF_CHECK(place.field != nullptr);
    if (path.empty()) return place;
    place.group = enter(*place.group, place.field, step.index);
    if (place.group == nullptr) return {};
  }
}

Place<const pb::Message> Find(std::string_view path, const pb::Message& config) {
  using Group = const pb::Message;
  const auto enter = [](Group& group, const pb::FieldDescriptor* field,
                        std::optional<int> index) -> Group* {
    const pb::Reflection& of = *group.GetReflection();
    if (!index) return of.HasField(group, field) ? &of.GetMessage(group, field) : nullptr;
    return *index < of.FieldSize(group, field) ? &of.GetRepeatedMessage(group, field, *index)
                                               : nullptr;
  };
  return PlaceAt(path, config, enter);
}

// Makes the groups around the field that are not given.
Place<pb::Message> Make(std::string_view path, pb::Message& config) {
  const auto enter = [](pb::Message& group, const pb::FieldDescriptor* field,
                        std::optional<int> index) {
    const pb::Reflection& of = *group.GetReflection();
    if (!index) return of.MutableMessage(&group, field);
    return *index == of.FieldSize(group, field) ? of.AddMessage(&group, field)
                                                : of.MutableRepeatedMessage(&group, field, *index);
  };
  return PlaceAt(path, config, enter);
}

void CollectPaths(const pb::Descriptor& group, const std::string& prefix, bool with_lists,
                  std::vector<std::string>& paths) {
  for (int i = 0; i < group.field_count(); ++i) {
    const pb::FieldDescriptor& field = *group.field(i);
    if (field.message_type() == nullptr) {
      if (with_lists || !field.is_repeated()) paths.push_back(prefix + field.name());
    } else if (!field.is_repeated()) {
      CollectPaths(*field.message_type(), fmt::format("{}{}.", prefix, field.name()), with_lists,
                   paths);
    }
  }
}

// --- Values

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

// Sets the field, or adds to a repeated one.
void GiveOne(const Scalar& value, const Place<pb::Message>& place) {
  const pb::Reflection& to = *place.group->GetReflection();
  const pb::FieldDescriptor* field = place.field;
  const auto put = [&](auto set, auto add, auto given) {
    if (field->is_repeated()) {
      (to.*add)(place.group, field, std::move(given));
    } else {
      (to.*set)(place.group, field, std::move(given));
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

// --- Faults

std::string PlaceIn(const std::string& name, const TextFault& fault) {
  const std::string place = fmt::format("{}:{}:{}: ", name, fault.place.line, fault.place.column);
  return fault.field.empty() ? place : place + fault.field + ": ";
}

Error Faulty(const std::string& name, std::vector<TextFault> faults) {
  std::ranges::sort(faults);
  std::string lines = faults.size() == 1 ? "1 fault" : fmt::format("{} faults", faults.size());
  for (std::size_t i = 0; i < std::min(faults.size(), kMostFaultsShown); ++i) {
    lines += "\n" + PlaceIn(name, faults[i]) + faults[i].what;
  }
  if (faults.size() > kMostFaultsShown) {
    lines += fmt::format("\nand {} more", faults.size() - kMostFaultsShown);
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

}  // namespace

// --- GivenSettings

std::vector<std::string> SettingPaths() {
  std::vector<std::string> paths;
  CollectPaths(*wire::Config::descriptor(), "", true, paths);
  return paths;
}

std::vector<std::string> SettablePaths() {
  std::vector<std::string> paths;
  CollectPaths(*wire::Config::descriptor(), "", false, paths);
  return paths;
}

GivenSettings::GivenSettings() : config_(std::make_unique<wire::Config>()) {}
GivenSettings::GivenSettings(const GivenSettings& other)
    : config_(std::make_unique<wire::Config>(*other.config_)) {}
GivenSettings& GivenSettings::operator=(const GivenSettings& other) {
  if (this != &other) config_ = std::make_unique<wire::Config>(*other.config_);
  return *this;
}
GivenSettings::GivenSettings(GivenSettings&& other) noexcept = default;
GivenSettings& GivenSettings::operator=(GivenSettings&& other) noexcept = default;
GivenSettings::~GivenSettings() = default;

std::vector<Scalar> GivenSettings::Values(std::string_view path) const {
  const auto [group, field] = Find(path, *config_);
  if (group == nullptr) return {};
  std::vector<Scalar> values;
  if (field->is_repeated()) {
    for (int i = 0; i < group->GetReflection()->FieldSize(*group, field); ++i) {
      values.push_back(ValueOf(*group, *field, i));
    }
  } else if (group->GetReflection()->HasField(*group, field)) {
    values.push_back(ValueOf(*group, *field));
  }
  return values;
}

std::size_t GivenSettings::Groups(std::string_view path) const {
  const auto [group, field] = Find(path, *config_);
  if (group == nullptr) return 0;
  return static_cast<std::size_t>(group->GetReflection()->FieldSize(*group, field));
}

void GivenSettings::Give(std::string_view path, const std::vector<Scalar>& values) {
  if (values.empty()) return;
  const Place<pb::Message> place = Make(path, *config_);
  for (const Scalar& value : values) GiveOne(value, place);
}

void GivenSettings::Clear(std::string_view path) {
  if (!Has(path)) return;
  const Place<pb::Message> place = Make(path, *config_);
  place.group->GetReflection()->ClearField(place.group, place.field);
}

std::expected<void, GivenSettings::Refusal> GivenSettings::Set(const Setting& setting) {
  const auto refuse = [](std::string why, bool is_unknown = false) {
    return std::unexpected(Refusal{.why = std::move(why), .is_unknown = is_unknown});
  };
  pb::Message* message = config_.get();
  std::string_view path = setting.name;
  std::string group;  // that `path` is in
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string name(path.substr(0, dot));
    const pb::FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return refuse(NoSuchField(*message->GetDescriptor(), group), true);
    if (field->is_repeated()) {
      return refuse("it is a list, which only the configuration file can change");
    }
    const bool is_group = field->message_type() != nullptr;
    if (is_group && dot == std::string_view::npos) {
      return refuse("names a group of fields: GROUP.FIELD=VALUE");
    }
    if (!is_group && dot != std::string_view::npos) {
      return refuse(fmt::format("{}.{} is a field, which has none in it", group, name));
    }
    if (!is_group) {
      const bool unquoted =
          field->type() == pb::FieldDescriptor::TYPE_STRING && !setting.value.starts_with('"');
      message->GetReflection()->ClearField(message, field);
      if (!unquoted && setting.value == "default") return {};
      const std::string value = unquoted ? '"' + setting.value + '"' : setting.value;
      if (StoreValue(*message, *field, value)) return {};
      return refuse(fmt::format("{} is needed, not '{}'", Wanted(*field), setting.value));
    }
    message = message->GetReflection()->MutableMessage(message, field);
    group += (group.empty() ? "" : ".") + name;
    path.remove_prefix(dot + 1);
  }
}

std::string GivenSettings::Text() const {
  pb::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(*config_, &text);
  return text;
}

bool GivenSettings::ReopensAs(const GivenSettings& other) const {
  const auto kept = [](const GivenSettings& settings) {
    wire::Config config = *settings.config_;
    KeepWhatReopens(config);
    return config.SerializeAsString();
  };
  return kept(*this) == kept(other);
}

// --- SettingsReading

struct SettingsReading::Faults {
  std::optional<Error> unusable;  // the text as a whole is refused
  TextReading reading;
};

SettingsReading::SettingsReading(std::string_view text, std::string name)
    : name_(std::move(name)), faults_(std::make_unique<Faults>()) {
  if (text.size() > kMostConfigBytes) {
    faults_->unusable =
        BadInput("use configuration", name_, "it is larger than 1 MiB, which no configuration is");
  } else if (auto fault = FirstControlCharacter(text)) {
    faults_->unusable = Faulty(name_, {*std::move(fault)});
  } else {
    faults_->reading = ReadText(text, *given_.config_);
  }
}

SettingsReading::~SettingsReading() = default;

void SettingsReading::Refuse(std::string_view path, std::string why, std::size_t index) {
  const auto [group, field] = Find(path, *given_.config_);
  TMPROF_CHECK(group != nullptr);
  faults_->reading.Refuse(*group, field->name(), std::move(why), static_cast<int>(index));
}

Result<GivenSettings> SettingsReading::Take() && {
  if (faults_->unusable) return Fail(*std::move(faults_->unusable));
  if (!faults_->reading.faults.empty()) {
    return Fail(Faulty(name_, std::move(faults_->reading.faults)));
  }
  return std::move(given_);
}

Result<std::string> ReadConfigText(const std::string& path) {
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
  return text;
}

}  // namespace tmprof
