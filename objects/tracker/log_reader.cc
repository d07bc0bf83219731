// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"

namespace tmprof {

namespace fs = std::filesystem;
using objtrace::AllocationLog;
using objtrace::LogEvent;
using objtrace::LogEventKind;

std::string ThreadNameOf(const LoggedEvent& ended) {
  char name[objtrace::kThreadNameBytes];
  objtrace::GetThreadName(ended.address, ended.bytes, name);
  return name;
}

void ProcessLog::Unmap::operator()(AllocationLog* log) const {
  ::munmap(log, sizeof(AllocationLog));
}

Pid ProcessLog::pid() const { return Pid(static_cast<pid_t>(log_->pid)); }
MonotonicTime ProcessLog::begin() const {
  return MonotonicTime(std::chrono::nanoseconds(log_->begin_ns));
}

std::uint32_t ProcessLog::sites() const {
  return std::min(log_->sites.load(std::memory_order_acquire), objtrace::kLogSites);
}

std::span<const std::uint64_t> ProcessLog::Frames(std::uint32_t site) const {
  if (site == 0 || site >= sites()) return {};
  const objtrace::LogSite& found = log_->site[site];
  if (found.ready.load(std::memory_order_acquire) == 0) return {};
  return {&found.frames[0], std::min(found.depth, objtrace::kLogFrames)};
}

std::size_t ProcessLog::ModulesOf(std::uint32_t site) const {
  return Frames(site).empty() ? 0 : log_->site[site].modules;
}

std::vector<LoggedModule> ProcessLog::Modules() const {
  const std::uint32_t count =
      std::min(log_->modules.load(std::memory_order_acquire), objtrace::kLogModules);
  std::vector<LoggedModule> modules;
  for (const objtrace::LogModule& module : std::span(log_->module).first(count)) {
    modules.push_back(
        {.path = std::string(&module.path[0], ::strnlen(&module.path[0], sizeof(module.path))),
         .start = module.start,
         .end = module.end,
         .bias = module.bias});
  }
  return modules;
}

std::uint64_t ProcessLog::lost() const {
  return log_->lost.load(std::memory_order_relaxed) + torn_;
}

bool ProcessLog::IsMappedIn(std::span<const Mapping> mappings) const {
  return std::ranges::any_of(mappings, [&](const Mapping& mapping) {
    return mapping.kind == MappingKind::kShared && mapping.path.contains(name_);
  });
}

Result<AllocationLogs> AllocationLogs::Create(const Options& options) {
  std::string folder = (options.parent / "tmprof-objects-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return Fail(Refused("create folder", folder, errno, "allocations are handed over there"));
  }
  AllocationLogs logs;
  logs.folder_ = std::make_unique<fs::path>(folder);
  const std::string lock = (*logs.folder_ / objtrace::kTrackLock).string();
  logs.lock_ = UniqueFd(::open(lock.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!logs.lock_ || ::flock(logs.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Fail(Refused("lock", lock, errno));
  }
  logs.interval_bytes_ = options.interval_bytes;
  logs.request_ = fmt::format("{} {} {}", options.threshold_bytes, options.interval_bytes, folder);
  return logs;
}

AllocationLogs::~AllocationLogs() {
  std::error_code ignored;  // no other remedy is left
  if (folder_ != nullptr) fs::remove_all(*folder_, ignored);
}

// Opens new logs and removes their names at once. A log disappears when the last of the two sides
// unmaps it.
void AllocationLogs::FindNew() {
  std::error_code error;
  std::vector<fs::path> paths;
  std::vector<fs::path> refused;
  for (const auto& entry : fs::directory_iterator(*folder_, error)) {
    if (entry.path().extension() == objtrace::kLogSuffix) paths.push_back(entry.path());
    if (entry.path().extension() == objtrace::kRefusedSuffix) refused.push_back(entry.path());
  }
  for (const fs::path& path : refused) refused_ += fs::remove(path, error) ? 1 : 0;
  std::ranges::sort(paths);
  const auto known = static_cast<std::ptrdiff_t>(logs_.size());
  for (const fs::path& path : paths) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat status{};
    if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<std::uint64_t>(status.st_size) < sizeof(AllocationLog)) {
      continue;  // it is being created
    }
    void* mapped =
        ::mmap(nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) continue;
    auto log = std::make_shared<ProcessLog>();
    log->log_.reset(static_cast<AllocationLog*>(mapped));
    if (log->log_->magic.load(std::memory_order_acquire) != objtrace::kLogMagic) continue;
    log->name_ = ("/" / folder_->filename() / path.filename()).string();
    fs::remove(path, error);
    logs_.push_back(std::move(log));
  }
  // A process's last log comes last. By name 1-9.log comes after 1-10.log.
  std::ranges::stable_sort(logs_.begin() + known, logs_.end(), {},
                           [](const Log& log) { return log->begin(); });
}

// Computes an event's weight. If the tracker samples it with probability p (IsSampled() there), it
// stands for 1 / p.
LoggedEvent AllocationLogs::Checked(const LogEvent& event) const {
  LoggedEvent checked{.kind = event.kind,
                      .address = event.address,
                      .bytes = event.bytes,
                      .time = MonotonicTime(std::chrono::nanoseconds(event.time_ns)),
                      .site = event.site,
                      .weight = 1};
  if (event.is_sampled != 0 && event.bytes > 0 && interval_bytes_ > 0) {
    const double intervals =
        static_cast<double>(event.bytes) / static_cast<double>(interval_bytes_);
    checked.weight = -1 / std::expm1(-intervals);
  }
  return checked;
}

void AllocationLogs::TakeOf(const Log& taken, bool is_gone, const Visit& visit) const {
  ProcessLog& log = *taken;
  const std::uint64_t written = log.log_->written.load(std::memory_order_acquire);
  for (; log.next_ < written && written - log.next_ <= objtrace::kLogEvents; ++log.next_) {
    LogEvent& event = log.log_->event[log.next_ % objtrace::kLogEvents];
    if (event.turn.load(std::memory_order_acquire) == objtrace::LapOf(log.next_) + 1) {
      visit(taken, Checked(event));
    } else if (is_gone) {
      ++log.torn_;
    } else {
      return;  // it is being written
    }
    event.turn.store(objtrace::LapOf(log.next_) + objtrace::kLogEvents, std::memory_order_release);
  }
}

void AllocationLogs::Take(const Visit& visit, const After& after) {
  FindNew();
  std::vector<Log> left;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    const Log& log = logs_[i];
    const bool has_ended = ::kill(log->pid().value(), 0) != 0 && errno == ESRCH;
    // An exec(2) began another log.
    const auto next = std::find_if(logs_.begin() + static_cast<std::ptrdiff_t>(i) + 1, logs_.end(),
                                   [&](const Log& later) { return later->pid() == log->pid(); });
    std::optional<MonotonicTime> end;
    if (next != logs_.end()) {
      end = (*next)->begin();
    } else if (has_ended || log->is_left_) {
      end = SystemClock().Now();
    }
    TakeOf(log, end.has_value(), visit);
    after(log, end);
    if (!end) left.push_back(log);
  }
  logs_ = std::move(left);
}

}  // namespace tmprof
