// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/memcg_ageing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/host/first_line.h"
#include "base/host/procfs.h"
#include "base/unique_fd.h"
#include "profiler/sources/abit/host_kernel.h"
#include "profiler/sources/abit/lru_gen.h"
#include "profiler/sources/abit/node_map.h"

namespace tmprof::abit {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

// PROC_CGROUP_INIT_INO in linux/proc_ns.h. In another namespace, /proc/PID/cgroup counts paths from
// elsewhere than the kernel's file does.
constexpr char kFirstCgroupNamespace[] = "cgroup:[4026531835]";
// Who is in which group is looked up each kSurveyLasts, or as rarely as keeps it at half a percent
// of a CPU, but once a minute at least. While a group is distrusted, 5 % are allowed.
constexpr int kSurveyRests = 200;  // times what the last one took
constexpr int kSurveyRestsInDistrust = 20;
constexpr nanoseconds kLongestSurveyRest = std::chrono::minutes(1);
// Bits of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h).
constexpr std::uint64_t kOnLru = std::uint64_t{1} << 5;
constexpr std::uint64_t kUnevictable = std::uint64_t{1} << 18;
// Bits of /sys/kernel/mm/lru_gen/enabled (Documentation/admin-guide/mm/multigen_lru.rst).
constexpr unsigned long kSwitchedOn = 0x0001;
constexpr unsigned long kWalksPageTables = 0x0002;

Error NotAged(std::string object, int error, std::string reason, std::string advice) {
  Error refusal = Refused("age memory", std::move(object), error, std::move(advice));
  if (error == 0) refusal.system_error.reset();
  refusal.reason = std::move(reason);
  return refusal;
}

Error CannotOpenLruGen(const std::string& path, int error) {
  return NotAged(path, error, "",
                 error == ENOENT ? "mount debugfs: 'mount -t debugfs none /sys/kernel/debug'"
                                 : "run as root, with /sys/kernel/debug writable and no lockdown");
}

class DebugfsLruGen final : public LruGenFile {
 public:
  explicit DebugfsLruGen(std::string path) : path_(std::move(path)) {}

  Result<std::string> Read() override {
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return Fail(CannotOpenLruGen(path_, errno));
    std::string text;
    std::array<char, 16384> piece;
    while (true) {
      const ssize_t got = ::read(file.get(), piece.data(), piece.size());
      if (got == 0) return text;
      if (got > 0) {
        text.append(piece.data(), static_cast<std::size_t>(got));
      } else if (errno != EINTR) {
        return Fail(Refused("read", path_, errno));
      }
    }
  }

  int Write(std::string_view command) override {
    const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return errno;
    return ::write(file.get(), command.data(), command.size()) < 0 ? errno : 0;
  }

 private:
  std::string path_;
};

std::string CgroupOf(const ProcFs& procfs, Pid pid) {
  constexpr std::string_view kRemoved = " (deleted)";
  std::string path = procfs.Cgroup(pid).value_or("");
  if (path.ends_with(kRemoved)) path.resize(path.size() - kRemoved.size());
  return path;
}

std::set<std::int32_t> NodesOf(const std::vector<LruGenGroup>& groups) {
  std::set<std::int32_t> nodes;
  for (const LruGenGroup& group : groups)
    for (const LruGenGroup::Node& node : group.nodes) nodes.insert(node.number);
  return nodes;
}

// Returns the sum of these fields of /proc/PID/smaps_rollup. nullopt: one is missing.
std::optional<PageCount> SumOf(const std::string& rollup, std::set<std::string> names) {
  constexpr std::uint64_t kKibPerPage = kBasePageBytes / 1024;
  std::ifstream file(rollup);
  std::uint64_t kib = 0;
  std::string line;
  std::getline(file, line);  // the range of all mappings
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string name;
    std::uint64_t value = 0;
    if (fields >> name >> value && names.erase(name) == 1) kib += value;
  }
  if (!names.empty()) return std::nullopt;
  return PageCount(kib / kKibPerPage);
}

// Reads a file of /proc that holds 64 bits for each page frame.
class FrameFile {
 public:
  explicit FrameFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  // nullopt: unknown.
  std::vector<std::optional<std::uint64_t>> Of(std::span<const std::uint64_t> frames) const {
    std::vector<std::optional<std::uint64_t>> told(frames.size());
    std::array<std::uint64_t, 512> values;
    std::size_t adjacent = 0;
    for (std::size_t first = 0; first < frames.size(); first += adjacent) {
      adjacent = 1;
      while (adjacent < values.size() && first + adjacent < frames.size() &&
             frames[first + adjacent] == frames[first] + adjacent)
        ++adjacent;
      const auto offset = static_cast<off_t>(frames[first] * sizeof values[0]);
      const ssize_t got = ::pread(file_.get(), values.data(), adjacent * sizeof values[0], offset);
      const std::size_t known = got < 0 ? 0 : static_cast<std::size_t>(got) / sizeof values[0];
      for (std::size_t i = 0; i < std::min(known, adjacent); ++i) told[first + i] = values[i];
    }
    return told;
  }

 private:
  UniqueFd file_;
};

// Before Linux 6.12, the walk of a memory node passes by page tables that the walk of another node
// has just been at. True also if the kernel does not report its number.
bool HidesTablesFromOtherNodes(const std::string& proc) {
  int major = 0;
  int minor = 0;
  const std::string release = FirstLine(proc + "/sys/kernel/osrelease").value_or("");
  return std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2 ||
         std::pair(major, minor) < std::pair(6, 12);
}

// Returns all groups. Fails if, as the kernel is set now, none is to be aged.
Result<std::vector<LruGenGroup>> ReadGroupsToAge(const AgeingFiles& files) {
  const auto enabled = FirstLine(files.lru_gen_enabled);
  if (!enabled)
    return Fail(
        NotAged(files.lru_gen_enabled, 0, "the kernel is without it", "it takes CONFIG_LRU_GEN"));
  const unsigned long mask = std::strtoul(enabled->c_str(), nullptr, 16);
  if ((mask & kSwitchedOn) == 0 || (mask & kWalksPageTables) == 0)
    return Fail(
        NotAged(files.lru_gen_enabled, 0,
                (mask & kSwitchedOn) == 0 ? "it is switched off" : "page tables are not walked",
                fmt::format("'echo y >{}' switches it on", files.lru_gen_enabled)));
  if (FirstLine(files.lru_gen_min_ttl) != "0")
    return Fail(NotAged(files.lru_gen_min_ttl, 0,
                        "the kernel is to kill processes if young memory has to be reclaimed, and "
                        "ageing makes memory young",
                        fmt::format("'echo 0 >{}' switches that off", files.lru_gen_min_ttl)));
  const auto text = DebugfsLruGen(files.lru_gen).Read();
  if (!text) return Fail(text.error());
  std::vector<LruGenGroup> groups = ParseLruGen(*text);
  if (NodesOf(groups).size() > 1 && HidesTablesFromOtherNodes(files.proc))
    return Fail(NotAged(files.lru_gen, 0,
                        "with several memory nodes, a walk of one hides tables from the next",
                        "it takes Linux 6.12"));
  return groups;
}

class LinuxMemcgAgeing final : public MemcgAgeing {
 public:
  LinuxMemcgAgeing(const AgeingFiles& files, std::shared_ptr<const Clock> clock)
      : files_(files),
        clock_(std::move(clock)),
        file_(files.lru_gen),
        procfs_(files.proc),
        node_of_(files.sys),
        page_cgroups_(files.proc + "/kpagecgroup"),
        page_flags_(files.proc + "/kpageflags") {}

  const Group* GroupOf(Pid pid) override {
    const MonotonicTime now = clock_->Now();
    if (now >= SurveyAgain()) Survey(now);
    const auto known = path_of_.find(pid);
    if (known == path_of_.end() && !absent_.contains(pid)) AddNewcomer(pid);
    const auto at = path_of_.find(pid);
    if (at == path_of_.end() || distrusted_.contains(at->second)) return nullptr;
    return &groups_.at(at->second);
  }

  std::optional<std::string> Trouble() const override { return trouble_; }

  void Distrust(const std::string& path) override { distrusted_.insert(path); }

  Result<Present> PresentIn(const std::string& path, std::span<const Pid> pids) override {
    const auto text = file_.Read();
    if (!text) return Fail(text.error());
    const std::vector<LruGenGroup> groups = ParseLruGen(*text);
    Present present;
    for (const Pid pid : pids) {
      const std::string cgroup = CgroupOf(procfs_, pid);
      if (cgroup.empty()) continue;
      const LruGenGroup* charged = ChargedGroup(groups, cgroup);
      (charged != nullptr && charged->path == path ? present.inside : present.outside).insert(pid);
    }
    for (const LruGenGroup& group : groups)
      if (group.path == path) present.held = WithoutOwn(group.anonymous, path);
    return present;
  }

  std::optional<PageCount> ProportionalOf(Pid pid) override {
    const auto [known, is_new] = proportional_.try_emplace(pid);
    if (is_new) {
      const MonotonicTime began = clock_->Now();
      known->second = SumOf(fmt::format("{}/{}/smaps_rollup", files_.proc, pid.value()),
                            {"Pss_Anon:", "Pss_Shmem:"});
      survey_took_ += clock_->Now() - began;
    }
    return known->second;
  }

  Status Age(const std::string& path) override { return AgeGroup(file_, path); }

  std::optional<std::string> Pressure(const std::string& path) override {
    const auto line = FirstLine(files_.cgroups + path + "/memory.pressure");
    return line ? StallsOnMemory(*line) : std::nullopt;
  }

  std::vector<AgeingReach> ReachOf(const std::string& path,
                                   std::span<const std::uint64_t> frames) override {
    std::vector<AgeingReach> reach(frames.size(), AgeingReach::kNo);
    struct stat folder{};
    if (::stat((files_.cgroups + path).c_str(), &folder) != 0) return reach;
    // The kernel shows pages of a removed group as the next one's above. Ageing does not reach
    // them.
    const AgeingReach charged = HasRemovedGroups(path) ? AgeingReach::kUnknown : AgeingReach::kYes;
    const auto inodes = page_cgroups_.Of(frames);
    const auto flags = page_flags_.Of(frames);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (inodes[i] == folder.st_ino && flags[i] && (*flags[i] & kOnLru) != 0 &&
          (*flags[i] & kUnevictable) == 0)
        reach[i] = charged;
    }
    return reach;
  }

  std::optional<NodeId> NodeOf(std::uint64_t frame) const override {
    return only_node_ ? only_node_ : node_of_.NodeOf(frame);
  }

 private:
  MonotonicTime SurveyAgain() const {
    if (!survey_ended_) return MonotonicTime{};
    const int rests = distrusted_.empty() ? kSurveyRests : kSurveyRestsInDistrust;
    return *survey_ended_ + std::clamp(survey_took_ * rests, kSurveyLasts, kLongestSurveyRest);
  }

  // Looks up who is in which group.
  void Survey(MonotonicTime began) {
    groups_.clear();
    path_of_.clear();
    absent_.clear();
    distrusted_.clear();
    proportional_.clear();
    own_group_.clear();
    own_resident_ = PageCount(0);
    ReadGroups();
    for (const ListedProcess& process : procfs_.Processes()) Add(process.pid);
    for (auto& [path, group] : groups_) group.held = WithoutOwn(group.held, path);
    survey_ended_ = clock_->Now();
    survey_took_ = *survey_ended_ - began;
  }

  void ReadGroups() {
    lru_groups_.clear();
    trouble_.reset();
    if (auto groups = ReadGroupsToAge(files_)) {
      lru_groups_ = *std::move(groups);
    } else {
      trouble_ = groups.error().Message();
    }
    for (const LruGenGroup& group : lru_groups_) {
      groups_[group.path] = {
          .path = group.path, .members = {}, .file = group.file, .held = group.anonymous};
    }
    const std::set<std::int32_t> nodes = NodesOf(lru_groups_);
    only_node_.reset();
    if (nodes.size() == 1) only_node_ = NodeId(static_cast<NodeId::rep>(*nodes.begin()));
  }

  // False: it has no group, or no memory.
  bool Add(Pid pid) {
    const std::string cgroup = CgroupOf(procfs_, pid);
    const LruGenGroup* charged = cgroup.empty() ? nullptr : ChargedGroup(lru_groups_, cgroup);
    if (charged == nullptr) return false;
    const auto stat = procfs_.Stat(pid);
    if (!stat || stat->resident == PageCount(0)) return false;
    if (pid == Pid(::getpid())) {
      own_group_ = charged->path;
      own_resident_ = stat->resident;
      return false;
    }
    groups_.at(charged->path).members.push_back({.pid = pid, .resident = stat->resident});
    path_of_[pid] = charged->path;
    return true;
  }

  // Nobody else is looked up for a process that is new in a group. If the group is new, too, the
  // next survey finds both.
  void AddNewcomer(Pid pid) {
    if (!MayAdd(CgroupOf(procfs_, pid)) || !Add(pid)) absent_.insert(pid);
  }

  // False: the process is gone, or its group may be newer than the survey.
  bool MayAdd(const std::string& cgroup) const {
    if (cgroup.empty()) return false;
    if (std::ranges::find(lru_groups_, cgroup, &LruGenGroup::path) != lru_groups_.end())
      return true;
    std::error_code unknown;
    const bool has_memory = fs::exists(files_.cgroups + cgroup + "/memory.stat", unknown);
    return !has_memory && !unknown;
  }

  PageCount WithoutOwn(PageCount held, const std::string& path) const {
    return path == own_group_ ? held - std::min(held, own_resident_) : held;
  }

  // True also if the kernel does not report it.
  bool HasRemovedGroups(const std::string& path) const {
    std::ifstream file(files_.cgroups + path + "/cgroup.stat");
    std::uint64_t count = 0;
    for (std::string name; file >> name >> count;)
      if (name == "nr_dying_descendants") return count != 0;
    return true;
  }

  AgeingFiles files_;
  std::shared_ptr<const Clock> clock_;
  DebugfsLruGen file_;
  ProcFs procfs_;
  NodeMap node_of_;
  FrameFile page_cgroups_;
  FrameFile page_flags_;
  // These are of the latest survey.
  std::optional<MonotonicTime> survey_ended_;
  nanoseconds survey_took_{0};  // includes later reads for ProportionalOf()
  std::vector<LruGenGroup> lru_groups_;
  std::optional<std::string> trouble_;
  std::map<std::string, Group> groups_;  // key: path
  std::map<Pid, std::string> path_of_;
  std::set<Pid> absent_;  // not found
  std::map<Pid, std::optional<PageCount>> proportional_;
  std::set<std::string> distrusted_;
  std::optional<NodeId> only_node_;
  std::string own_group_;
  PageCount own_resident_{0};
};

// The hierarchy of the memory controller is one of version 1 if it has a number (cgroups(7)).
bool MemoryIsOfVersion1(const std::string& proc) {
  std::ifstream file(proc + "/cgroups");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    int hierarchy = 0;
    if (fields >> name >> hierarchy && name == "memory") return hierarchy != 0;
  }
  return false;
}

}  // namespace

PageCount WalkedBy(const MemcgAgeing::Group& group) {
  PageCount walked = group.file;
  for (const MemcgAgeing::Member& member : group.members) walked += member.resident;
  return walked;
}

double ForeignShare(const MemcgAgeing::Group& group, const std::map<Pid, PageCount>& ours) {
  PageCount of_ours{0};
  PageCount of_others{0};
  for (const MemcgAgeing::Member& member : group.members) {
    if (const auto known = ours.find(member.pid); known != ours.end()) {
      of_ours += known->second;
    } else {
      of_others += member.resident;
    }
  }
  if (group.held == PageCount(0)) return of_others == PageCount(0) ? 0 : 1;
  const PageCount of_nobody_of_ours = group.held - std::min(group.held, of_ours);
  const PageCount foreign = std::min(group.held, std::max(of_others, of_nobody_of_ours));
  return static_cast<double>(foreign.value()) / static_cast<double>(group.held.value());
}

Result<std::shared_ptr<MemcgAgeing>> OpenMemcgAgeing(const AgeingFiles& files,
                                                     std::shared_ptr<const Clock> clock) {
  if (const auto groups = ReadGroupsToAge(files); !groups) return Fail(groups.error());
  if (const UniqueFd file(::open(files.lru_gen.c_str(), O_RDWR | O_CLOEXEC)); !file)
    return Fail(CannotOpenLruGen(files.lru_gen, errno));
  std::error_code ignored;
  const std::string name_space = files.proc + "/self/ns/cgroup";
  if (fs::read_symlink(name_space, ignored) != kFirstCgroupNamespace)
    return Fail(NotAged(name_space, 0, "this is a cgroup namespace of its own",
                        "run outside of the container"));
  if (MemoryIsOfVersion1(files.proc))
    return Fail(NotAged(files.proc + "/cgroups", 0, "memory is controlled by cgroup version 1",
                        "boot with systemd.unified_cgroup_hierarchy=1"));
  const std::string of_cgroup2 = files.cgroups + "/cgroup.controllers";
  if (struct stat found{}; ::stat(of_cgroup2.c_str(), &found) != 0) {
    const int error = errno;
    return Fail(NotAged(of_cgroup2, error, "",
                        fmt::format("'mount -t cgroup2 none {}' mounts it", files.cgroups)));
  }
  for (const char* name : {"/kpagecgroup", "/kpageflags"}) {
    const std::string path = files.proc + name;
    if (const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); !file) {
      const int error = errno;
      return Fail(NotAged(
          path, error, "",
          error == ENOENT ? "it takes CONFIG_MEMCG and CONFIG_PROC_PAGE_MONITOR" : "run as root"));
    }
  }
  return std::make_shared<LinuxMemcgAgeing>(files, std::move(clock));
}

}  // namespace tmprof::abit
