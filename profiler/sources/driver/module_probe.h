// SPDX-License-Identifier: Apache-2.0
// doctor's probe of the driver: in use, loadable, or why not.

#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "profiler/probe.h"
#include "profiler/sources/driver/device.h"

namespace tmprof::driver {

// Places to look at; tests give a directory tree and a device of their own.
struct Places {
  std::filesystem::path root = "/";  // above sys, proc and lib
  std::string kernel_release;        // the output of uname -r
  DeviceOpener open_device;
};
Places ThisMachine();

Probe ProbeDriver(const Places& places = ThisMachine());

}  // namespace tmprof::driver
