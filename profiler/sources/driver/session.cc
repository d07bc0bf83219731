// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/session.h"

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace tmprof::driver {
namespace {

Error Unsuitable(std::string reason, std::string advice) {
  Error error = Refused("use the driver", TMPROF_DEVICE_PATH, 0, std::move(advice));
  error.system_error.reset();
  error.reason = std::move(reason);
  return error;
}

Status CheckFeatures(const tmprof_info& info, Purpose purpose) {
  const auto has = [&](std::uint64_t needed) { return (info.features & needed) == needed; };
  switch (purpose) {
    case Purpose::kAccessedBits:
      if (!has(TMPROF_FEATURE_FRAMES)) {
        return Fail(
            Unsuitable("it shows page frames only with CAP_SYS_ADMIN, or CAP_BPF and CAP_PERFMON",
                       "run tmprof with these capabilities"));
      }
      if (has(TMPROF_FEATURE_ABIT | TMPROF_FEATURE_FLUSH) && info.max_scan_pages > 0) return {};
      return Fail(Unsuitable("on this kernel it cannot clear accessed bits and flush them",
                             "--source abit-bpf does without the module"));
    case Purpose::kRegions:
      if (has(TMPROF_FEATURE_ABIT | TMPROF_FEATURE_REGIONS)) return {};
      return Fail(Unsuitable("the loaded module does not look at regions by itself",
                             "--abit regions,ladder does without that"));
    case Purpose::kSamples:
      if (has(TMPROF_FEATURE_SAMPLER | TMPROF_FEATURE_GATE) &&
          info.page_record_bytes == sizeof(tmprof_page_record)) {
        return {};
      }
      return Fail(
          Unsuitable("on this kernel it cannot sample", "without --source driver, perf samples"));
  }
  return {};
}

// KVM names the descriptor of a virtual machine so (virt/kvm/kvm_main.c,
// kvm_dev_ioctl_create_vm()).
bool RunsVirtualMachine(const std::filesystem::path& root, Pid pid) {
  std::error_code error;
  const auto folder = root / "proc" / std::to_string(pid.value()) / "fd";
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(it->path(), gone) == "anon_inode:kvm-vm") return true;
  }
  return false;
}

Error GuestMemory(Pid pid) {
  Error error = Refused("read accessed bits of", fmt::format("PID {}", pid.value()), 0,
                        "run tmprof in the guest");
  error.system_error.reset();
  error.reason =
      "guest memory: not observable, because accesses of a virtual machine set no bits here";
  return error;
}

std::string AdviceFor(int error, const tmprof_info& info) {
  switch (error) {
    case ENOSPC:
      return fmt::format("it watches at most {} processes (--max-targets)", info.max_targets);
    case EACCES:
      return "other users' processes take CAP_SYS_PTRACE";
    case EPERM:
      return "a driver's target takes CAP_PERFMON";
    case EDQUOT:
      return "the module's memory is used up: /sys/module/tmprof/parameters/max_memory_bytes "
             "bounds it";
    default:
      return "";
  }
}

}  // namespace

Session::Session(std::unique_ptr<Device> device, const tmprof_info& info, Purpose purpose,
                 std::filesystem::path root)
    : device_(std::move(device)), info_(info), purpose_(purpose), root_(std::move(root)) {}

Result<std::shared_ptr<Session>> Session::Open(std::unique_ptr<Device> device, Purpose purpose,
                                               std::filesystem::path root) {
  tmprof_info info{};
  if (const int error = Call(*device, TMPROF_IOC_INFO, info); error != 0) {
    // Before all else a module compares the version and the sizes.
    if (error == EPROTO || error == EINVAL || error == ENOTTY) {
      return Fail(
          Unsuitable(fmt::format("the loaded module does not speak version {} of the interface",
                                 TMPROF_ABI_VERSION),
                     "build and load the module that belongs to this tmprof"));
    }
    return Fail(Refused("ask the driver what it can do", TMPROF_DEVICE_PATH, error));
  }
  if (Status able = CheckFeatures(info, purpose); !able) return Fail(std::move(able.error()));
  return std::shared_ptr<Session>(new Session(std::move(device), info, purpose, std::move(root)));
}

Result<Session::Target> Session::Hold(std::shared_ptr<Session> session, Pid pid,
                                      std::uint64_t start_time_ticks) {
  const ProcessKey process{pid, start_time_ticks};
  const std::lock_guard lock(session->mutex_);
  Held& held = session->held_[process];
  if (held.holders == 0) {
    tmprof_target_request request{};
    request.pid = pid.value();
    request.start_time_ticks = start_time_ticks;
    if (const int error = Call(*session->device_, TMPROF_IOC_ADD_TARGET, request); error != 0) {
      session->held_.erase(process);
      return Fail(Refused("have the driver watch", fmt::format("PID {}", pid.value()), error,
                          AdviceFor(error, session->info_)));
    }
    if (session->purpose_ != Purpose::kSamples &&
        request.target_flags & TMPROF_TARGET_OTHER_TABLES &&
        RunsVirtualMachine(session->root_, pid)) {
      Call(*session->device_, TMPROF_IOC_REMOVE_TARGET, request);
      session->held_.erase(process);
      return Fail(GuestMemory(pid));
    }
    held.id = request.target_id;
  }
  ++held.holders;
  return Target(session, process, held.id);
}

void Session::Drop(const ProcessKey& process) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(process);
  if (--found->second.holders > 0) return;
  tmprof_target_request request{};
  request.target_id = found->second.id;
  Call(*device_, TMPROF_IOC_REMOVE_TARGET, request);
  held_.erase(found);
}

}  // namespace tmprof::driver
