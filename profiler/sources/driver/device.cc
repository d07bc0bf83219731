// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/device.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace tmprof::driver {
namespace {

class KernelDevice final : public Device {
 public:
  explicit KernelDevice(UniqueFd file) : file_(std::move(file)) {}

  int Call(unsigned long command, tmprof_head& argument) override {
    while (::ioctl(file_.get(), command, &argument) != 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  std::expected<std::size_t, int> Read(std::span<tmprof_page_record> records) override {
    while (true) {
      const ssize_t bytes = ::read(file_.get(), records.data(), records.size_bytes());
      if (bytes >= 0) return static_cast<std::size_t>(bytes) / sizeof(tmprof_page_record);
      if (errno != EINTR) return std::unexpected(errno);
    }
  }

 private:
  UniqueFd file_;
};

const char* AdviceFor(int error) {
  switch (error) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return "load the module with 'modprobe tmprof'; 'tmprof doctor' says whether it is there";
    case EACCES:
    case EPERM:
      return "run as root or with CAP_PERFMON, on a kernel that is not locked down for "
             "confidentiality";
    case EDQUOT:
      return "the module's memory is used up: /sys/module/tmprof/parameters/max_memory_bytes "
             "bounds it";
    default:
      return "";
  }
}

}  // namespace

Result<std::unique_ptr<Device>> OpenDevice(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (const int error = errno; !file)
    return Fail(Refused("open the driver's device", path.string(), error, AdviceFor(error)));
  return std::make_unique<KernelDevice>(std::move(file));
}

}  // namespace tmprof::driver
