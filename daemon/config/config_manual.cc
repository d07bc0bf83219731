// SPDX-License-Identifier: Apache-2.0

#include "daemon/config/config_manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/text/roff.h"
#include "base/version.h"
#include "proto/setting_changes.h"

namespace tmprof {
namespace {

std::string_view Trimmed(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  return line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
}

// The word in front of `end`: "epoch_ms" of "optional uint32 epoch_ms = 1;" with "=".
std::string WordBefore(std::string_view line, std::string_view end) {
  const std::string_view front = Trimmed(line.substr(0, line.find(end)));
  return std::string(front.substr(front.find_last_of(' ') + 1));
}

// "From 1 to 100." of "[(range) = {least: 1, most: 100}];"; empty where there is no range. For
// text, the range is that of its length, which a reader need not know.
std::string Range(std::string_view line) {
  const std::size_t least = line.find("least: ");
  const std::size_t most = line.find("most: ");
  if (least == std::string_view::npos || most == std::string_view::npos) return {};
  if (line.contains("string ")) return {};
  const auto number = [line](std::size_t at) {
    return line.substr(at, line.find_first_of(",}", at) - at);
  };
  return fmt::format("From {} to {}.\n", number(least + 7), number(most + 6));
}

// Messages of the configuration are named as their fields, which are in lower case.
std::string InLowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The section on changes of a running daemon.
std::string Changes() {
  std::string section =
      ".SH CHANGES\nSIGHUP to the daemon, and the command set of\n.BR tmprof\\-ctl (1),\n"
      "change it while it runs. It keeps what it has learnt, unless that depends on a changed "
      "field.\n";
  for (const SettingChange& change : SettingChanges()) {
    section += fmt::format(".TP\n{}\\fB{}\\fR\nStarts anew: {}. In force: {}.\n",
                           change.others ? "Other fields of " : "",
                           Roff(fmt::format("{}", fmt::join(change.settings, ", "))),
                           Roff(change.anew), Roff(change.in_force));
  }
  return section;
}

}  // namespace

std::string ConfigManual(std::string_view proto, std::string_view installed) {
  std::string page = fmt::format(
      ".TH tmprofd.conf 5 \"\" \"tmprof {}\" \"tmprof manual\"\n"
      ".SH NAME\ntmprofd.conf \\- configuration of the placement daemon\n"
      ".SH SYNOPSIS\n.B tmprofd \\-\\-config\n.I FILE\n.SH DESCRIPTION\n",
      kVersion);
  std::istringstream lines{std::string(proto)};
  std::string comment;
  std::vector<std::string> scopes;  // names of messages and oneofs around a line; "" for another
  bool is_description = true;
  for (std::string whole; std::getline(lines, whole);) {
    const std::string_view line = Trimmed(whole);
    if (line.starts_with("//")) {
      if (line.contains("SPDX-License-Identifier")) continue;
      const bool is_example = line.starts_with("//   ");
      const std::string_view text = Trimmed(line.substr(2));
      if (is_example) {
        comment += fmt::format(".PP\n.nf\n{}\n.fi\n", Roff(text));
      } else if (!text.starts_with("configs/")) {
        comment += text.empty() ? ".PP\n" : Roff(text) + "\n";
      }
      continue;
    }
    if (is_description && line.empty() && !comment.empty()) {
      page += comment;
      is_description = false;
      comment.clear();
    }
    const bool is_inside = !scopes.empty() && scopes.front() == "config";
    if (line.starts_with("message ") || line.starts_with("oneof ")) {
      scopes.push_back(InLowerCase(WordBefore(line, "{")));
      if (is_inside && line.starts_with("message ")) {
        std::string name;
        for (std::size_t i = 1; i < scopes.size(); ++i) name += (i > 1 ? "." : "") + scopes[i];
        page += fmt::format(".SH {}\n", Roff(name));
      }
      if (is_inside) page += comment;
    } else if (line.ends_with("{")) {
      scopes.emplace_back();
    } else if (line == "}") {
      if (!scopes.empty()) scopes.pop_back();
    } else if (line.contains(" = ") && line.ends_with(";") && is_inside) {
      const std::string name = WordBefore(line, " = ");
      page += fmt::format(".TP\n.B {}\n{}{}", Roff(name), comment, Roff(Range(line)));
    } else if (line.empty()) {
      continue;  // a comment is of the next line that has something
    }
    comment.clear();
  }
  const std::string files = fmt::format(
      ".SH FILES\n.TP\n.I {}\nThe configuration that the systemd unit names.\n", Roff(installed));
  return page + Changes() +
         ".SH EXAMPLES\n"
         "Observe only, and move nothing:\n.PP\n.nf\nplacement { track_only: true }\n.fi\n.PP\n"
         "Place one service, with 8 GiB of tier 1:\n.PP\n.nf\n"
         "targets { cgroup: \"/system.slice/redis.service\" }\ntiers { capacity_mib: 8192 "
         "}\n.fi\n" +
         files +
         ".TP\n.I share/doc/tmprof/examples\nCommented examples, below the prefix of the "
         "installation.\n"
         ".SH SEE ALSO\n.BR tmprofd (8),\n.BR tmprof\\-ctl (1),\n.BR tmprof (1)\n";
}

}  // namespace tmprof
