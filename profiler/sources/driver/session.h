// SPDX-License-Identifier: Apache-2.0
// State that the driver's sources share: one open device, and the processes it watches.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "profiler/sources/driver/device.h"

namespace tmprof::driver {

enum class Purpose : std::uint8_t {
  kAccessedBits,  // to clear them and flush them
  kRegions,       // and to look at one page of each region by itself
  kSamples,       // to sample a PMU's event, gated
};

// Thread-safe.
class Session {
 public:
  // Fails when the module speaks another version, or cannot do on this kernel what it is for.
  // `root` has the folder /proc.
  static Result<std::shared_ptr<Session>> Open(std::unique_ptr<Device> device, Purpose purpose,
                                               std::filesystem::path root = "/");

  Device& device() { return *device_; }
  const tmprof_info& info() const { return info_; }

  // The process is a target of the driver's as long as someone holds it. ESRCH: it is gone.
  // Accessed bits of a virtual machine are refused: the guest's accesses set bits in its nested
  // tables.
  class Target;
  static Result<Target> Hold(std::shared_ptr<Session> session, Pid pid,
                             std::uint64_t start_time_ticks);

 private:
  // The permanent name of a process.
  using ProcessKey = std::pair<Pid, std::uint64_t>;
  struct Held {
    std::uint32_t id = 0;
    std::uint32_t holders = 0;
  };

  Session(std::unique_ptr<Device> device, const tmprof_info& info, Purpose purpose,
          std::filesystem::path root);
  void Drop(const ProcessKey& process);

  std::unique_ptr<Device> device_;
  tmprof_info info_;
  Purpose purpose_;
  std::filesystem::path root_;
  std::mutex mutex_;
  std::map<ProcessKey, Held> held_;
};

class Session::Target {
 public:
  Target(Target&&) = default;
  Target& operator=(Target&&) = delete;
  ~Target() {
    if (session_) session_->Drop(process_);
  }
  std::uint32_t id() const { return id_; }
  Session& session() const { return *session_; }

 private:
  friend class Session;
  Target(std::shared_ptr<Session> session, ProcessKey process, std::uint32_t id)
      : session_(std::move(session)), process_(process), id_(id) {}

  std::shared_ptr<Session> session_;
  ProcessKey process_;
  std::uint32_t id_;
};

}  // namespace tmprof::driver
