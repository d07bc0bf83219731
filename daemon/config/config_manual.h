// SPDX-License-Identifier: Apache-2.0
// The manual page of the configuration, made from the comments of proto/config.proto.

#pragma once

#include <string>
#include <string_view>

namespace tmprof {

// The page tmprofd.conf(5) in roff. `proto` is the text of config.proto: its first comment is the
// description, each message in `Config` a section, and each field an item with the comment above
// it. `installed` is the path of the file that the systemd unit names.
std::string ConfigManual(std::string_view proto, std::string_view installed);

}  // namespace tmprof
