// SPDX-License-Identifier: Apache-2.0
// The driver's device file. Tests put a fake one behind it.

#pragma once

#include <cstddef>
#include <expected>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "driver/uapi/tmprof.h"

namespace tmprof::driver {

// One session of the driver. Calls may come from several threads at once.
class Device {
 public:
  virtual ~Device() = default;

  // ioctl(2) with one of TMPROF_IOC_*: 0, or errno. Interrupted calls are made again.
  virtual int Call(unsigned long command, tmprof_head& argument) = 0;

  // read(2): how many whole records of the last ended epoch were put into `records`, 0 at their
  // end; or errno.
  virtual std::expected<std::size_t, int> Read(std::span<tmprof_page_record> records) = 0;
};
using DeviceOpener = std::function<Result<std::unique_ptr<Device>>()>;

// Fails with what the open gave and what would help.
Result<std::unique_ptr<Device>> OpenDevice(const std::filesystem::path& path = TMPROF_DEVICE_PATH);

// `argument.head` is filled in here; the rest is the caller's.
template <typename Argument>
int Call(Device& device, unsigned long command, Argument& argument, std::uint32_t flags = 0) {
  argument.head = {.size = sizeof argument, .version = TMPROF_ABI_VERSION, .flags = flags};
  return device.Call(command, argument.head);
}

}  // namespace tmprof::driver
