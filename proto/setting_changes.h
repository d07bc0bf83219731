// SPDX-License-Identifier: Apache-2.0
// This says how a change of a setting affects the running daemon, by the option `change` of its
// field in proto/config.proto.

#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace tmprof {

struct SettingChange {
  std::vector<std::string> settings;  // "profile.epoch_ms"; a group stands for all of its fields
  bool others = false;                // `settings` is one group, and stands for the rest of it
  std::string anew;                   // what starts anew
  std::string in_force;               // "at once"
};

// One for each kind of change in each group, in the proto's order, the group's own kind last.
std::vector<SettingChange> SettingChanges();

// The same as a table in Markdown. docs/configuration.md has it.
std::string SettingChangeTable();

// Removes from a tmprof.wire.Config all that changes without that sources and tiers are opened
// again. Configurations that are then equal observe alike.
void KeepWhatReopens(google::protobuf::Message& config);

}  // namespace tmprof
