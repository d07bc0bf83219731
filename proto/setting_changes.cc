// SPDX-License-Identifier: Apache-2.0

#include "proto/setting_changes.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "proto/config.pb.h"

namespace tmprof {
namespace {

namespace pb = google::protobuf;
using pb::FieldDescriptor;

// A description of a change, with the field that has it and that field's path.
struct Described {
  const FieldDescriptor* by = nullptr;
  std::string path;

  wire::Change change() const {
    return by == nullptr ? wire::Change{} : by->options().GetExtension(wire::change);
  }
};

bool Alike(const wire::Change& a, const wire::Change& b) {
  return a.anew() == b.anew() && a.in_force() == b.in_force() && a.reopens() == b.reopens();
}

// The description of `field`, which has that of the group around it unless it has one itself.
Described DescriptionOf(const FieldDescriptor& field, const std::string& path,
                        const Described& around) {
  return field.options().HasExtension(wire::change) ? Described{&field, path} : around;
}

// Those of all settings in `group`, in the proto's order.
void Collect(const pb::Descriptor& group, const std::string& path, const Described& around,
             std::vector<Described>& found) {
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor& field = *group.field(i);
    const std::string inner = fmt::format("{}.{}", path, field.name());
    const Described description = DescriptionOf(field, inner, around);
    if (field.message_type() != nullptr) {
      Collect(*field.message_type(), inner, description, found);
    } else {
      found.push_back(description);
    }
  }
}

void KeepReopening(pb::Message& message, const Described& around) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const Described description = DescriptionOf(*field, "", around);
    if (field->message_type() == nullptr) {
      if (!description.change().reopens()) reflection.ClearField(&message, field);
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        KeepReopening(*reflection.MutableRepeatedMessage(&message, field, i), description);
      }
    } else {
      pb::Message& inner = *reflection.MutableMessage(&message, field);
      KeepReopening(inner, description);
      // A group without fields says the same as none.
      if (inner.ByteSizeLong() == 0) reflection.ClearField(&message, field);
    }
  }
}

}  // namespace

std::vector<SettingChange> SettingChanges() {
  std::vector<SettingChange> changes;
  const pb::Descriptor& config = *wire::Config::descriptor();
  for (int i = 0; i < config.field_count(); ++i) {
    const FieldDescriptor& group = *config.field(i);
    const Described own = DescriptionOf(group, group.name(), {});
    std::vector<Described> found;
    Collect(*group.message_type(), group.name(), own, found);
    const std::size_t first = changes.size();
    bool has_others = false;
    for (const Described& description : found) {
      const wire::Change change = description.change();
      if (Alike(change, own.change())) {
        has_others = true;
        continue;
      }
      const auto known =
          std::find_if(changes.begin() + static_cast<std::ptrdiff_t>(first), changes.end(),
                       [&](const SettingChange& row) {
                         return row.anew == change.anew() && row.in_force == change.in_force();
                       });
      SettingChange& row = known != changes.end()
                               ? *known
                               : changes.emplace_back(SettingChange{.anew = change.anew(),
                                                                    .in_force = change.in_force()});
      if (std::ranges::find(row.settings, description.path) == row.settings.end()) {
        row.settings.push_back(description.path);
      }
    }
    if (!has_others) continue;
    changes.push_back({.settings = {group.name()},
                       .others = changes.size() > first,
                       .anew = own.change().anew(),
                       .in_force = own.change().in_force()});
  }
  return changes;
}

std::string SettingChangeTable() {
  std::string table = "| changed | starts anew | in force |\n|---|---|---|\n";
  for (const SettingChange& change : SettingChanges()) {
    table += fmt::format("| {}`{}` | {} | {} |\n", change.others ? "other fields of " : "",
                         fmt::join(change.settings, "`, `"), change.anew, change.in_force);
  }
  return table;
}

void KeepWhatReopens(google::protobuf::Message& config) { KeepReopening(config, {}); }

}  // namespace tmprof
