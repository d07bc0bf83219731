// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/module_probe.h"

#include <sys/utsname.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/host/first_line.h"
#include "profiler/source_kind.h"
#include "profiler/sources/driver/session.h"

namespace tmprof::driver {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// depmod lists each module that modprobe would find.
bool Installed(const Places& places) {
  std::ifstream list(places.root / "lib/modules" / places.kernel_release / "modules.dep");
  for (std::string line; std::getline(list, line);) {
    const std::string file = fs::path(line.substr(0, line.find(':'))).filename();
    if (file == "tmprof.ko" || file.starts_with("tmprof.ko.")) return true;
  }
  return false;
}

// "none [integrity] confidentiality": the one in brackets holds. Empty: not locked down.
std::string Lockdown(const Places& places) {
  const auto line = FirstLine(places.root / "sys/kernel/security/lockdown");
  if (!line) return {};
  const auto open = line->find('[');
  const auto close = line->find(']', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::string level = line->substr(open + 1, close - open - 1);
  return level == "none" ? std::string() : level;
}

// The module is not there: why, and what would bring it.
void ExplainAbsence(const Places& places, Probe& probe) {
  const std::string lockdown = Lockdown(places);
  if (!Exists(places.root / "proc/modules")) {
    probe.detail = "this kernel was built without loadable modules";
    probe.impossible = "a kernel without loadable modules";
  } else if (FirstLine(places.root / "proc/sys/kernel/modules_disabled") == "1") {
    probe.detail = "no module may be loaded until the next boot (kernel.modules_disabled)";
    probe.fix = "load it before that is set: list tmprof in /etc/modules-load.d";
  } else if (Installed(places)) {
    probe.detail = "the module is installed for this kernel, and not loaded";
    probe.fix = "modprobe tmprof";
    if (!lockdown.empty()) {
      probe.fix += fmt::format(
          "; under lockdown ({}) it must be signed with a key that the kernel "
          "trusts",
          lockdown);
    }
  } else {
    probe.detail = fmt::format("no module is installed for kernel {}", places.kernel_release);
    probe.fix = "build and install it (docs/driver.md)";
  }
}

}  // namespace

Places ThisMachine() {
  utsname system{};
  ::uname(&system);
  return {.kernel_release = system.release, .open_device = [] { return OpenDevice(); }};
}

Probe ProbeDriver(const Places& places) {
  const fs::path loaded = places.root / "sys/module/tmprof";
  auto device = places.open_device();
  if (!device) {
    Probe probe = Unusable(kDriverSource, device.error());
    if (!Exists(loaded)) {
      probe.fix.clear();
      ExplainAbsence(places, probe);
    } else if (device.error().system_error == ENOENT) {
      probe.detail = "the module is loaded, and there is no " TMPROF_DEVICE_PATH " here";
      probe.fix = "in a container, pass the device in; else see that udev or devtmpfs runs";
    } else if (device.error().system_error == EPERM && Lockdown(places) == "confidentiality") {
      probe.detail += ": the kernel is locked down for confidentiality";
      probe.fix = "boot without lockdown=confidentiality";
    }
    return probe;
  }
  const auto session = Session::Open(*std::move(device), Purpose::kAccessedBits);
  if (!session) return Unusable(kDriverSource, session.error());
  Probe probe =
      Usable(kDriverSource,
             fmt::format("module version {}", FirstLine(loaded / "version").value_or("unknown")));
  if (!((*session)->info().features & TMPROF_FEATURE_KEEPS_YOUNG)) {
    probe.detail += "; on this kernel, reclaim does not see the accesses whose bits were cleared";
  }
  return probe;
}

}  // namespace tmprof::driver
