// SPDX-License-Identifier: Apache-2.0

#include "base/host/procfs.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <ranges>
#include <system_error>

#include "base/unique_fd.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// include/linux/sched.h, PF_KTHREAD.
constexpr std::uint64_t kKernelThreadFlag = 0x00200000;
constexpr int kMinorBits = 20;  // include/linux/kdev_t.h

// A process that is gone shows as ENOENT before its file is opened and as ESRCH afterwards.
std::unexpected<Error> RefusedOfProcess(std::string_view attempt, const fs::path& path,
                                        int reason) {
  return Fail(Refused(std::string(attempt), path.string(), reason == ENOENT ? ESRCH : reason));
}

// take(piece) for each part of the file in turn.
template <typename Take>
Status ReadPieces(const fs::path& path, std::string_view attempt, Take take) {
  const auto refuse = [&](int reason) { return RefusedOfProcess(attempt, path, reason); };
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return refuse(errno);
  std::array<char, 16384> piece;
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got == 0) return {};
    if (got > 0) {
      take(std::string_view(piece.data(), static_cast<std::size_t>(got)));
    } else if (errno != EINTR) {
      return refuse(errno);
    }
  }
}

std::optional<std::uint64_t> InodeOf(const fs::path& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return found.st_ino;
}

Result<std::string> ReadWhole(const fs::path& path, std::string_view attempt) {
  std::string text;
  const Status read =
      ReadPieces(path, attempt, [&text](std::string_view piece) { text.append(piece); });
  if (!read) return Fail(read.error());
  return text;
}

// Names of a folder's entries, as far as it can be read: a process's folder may vanish meanwhile.
std::vector<std::string> EntriesOf(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code stopped;
  for (fs::directory_iterator entry(folder, stopped), end; !stopped && entry != end;
       entry.increment(stopped)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

template <typename Number>
bool Consume(std::string_view& text, Number& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool Consume(std::string_view& text, char expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(1);
  return true;
}

// Field `number` of /proc/PID/stat as proc(5) counts them, from the fields after the name: state
// is 3.
std::optional<std::uint64_t> StatField(const std::vector<std::string_view>& after_name,
                                       std::size_t number) {
  const std::size_t index = number - 3;
  if (index >= after_name.size()) return std::nullopt;
  std::string_view text = after_name[index];
  std::uint64_t value = 0;
  return Consume(text, value) ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> SplitAtSpaces(std::string_view text) {
  std::vector<std::string_view> fields;
  while (!text.empty()) {
    const std::size_t space = text.find_first_of(" \n");
    if (space != 0) fields.push_back(text.substr(0, space));
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  return fields;
}

std::optional<Pid> PidFromName(std::string_view name) {
  std::int32_t number = 0;
  if (!Consume(name, number) || !name.empty() || number <= 0) return std::nullopt;
  return Pid(number);
}

MappingKind KindOf(std::string_view path, bool shared) {
  if (path == "[heap]") return MappingKind::kHeap;
  if (path.starts_with("[stack")) return MappingKind::kStack;
  if (shared) return MappingKind::kShared;
  if (path.starts_with("[anon:")) return MappingKind::kAnonymous;
  if (path.starts_with('[')) return MappingKind::kSpecial;
  return path.empty() ? MappingKind::kAnonymous : MappingKind::kFile;
}

// Takes fields of a line of /proc/PID/maps. No file has inode 0.
std::optional<FilePlace> FilePlaceOf(PageCount pages, std::string_view offset,
                                     std::string_view device, std::string_view inode) {
  constexpr std::uint64_t kLastFilePage =
      std::numeric_limits<std::uint64_t>::max() / kBasePageBytes;
  FilePlace place;
  std::uint64_t offset_bytes = 0;
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  if (!Consume(offset, offset_bytes, 16) || !Consume(device, major, 16) || !Consume(device, ':') ||
      !Consume(device, minor, 16) || !Consume(inode, place.inode) || place.inode == 0) {
    return std::nullopt;
  }
  // The kernel prints the low 64 bits of what a driver may have made up.
  if (offset_bytes / kBasePageBytes + pages.value() > kLastFilePage) return std::nullopt;
  place.device = (major << kMinorBits) + minor;
  place.offset = PageCount(offset_bytes / kBasePageBytes);
  return place;
}

// A file has lines "NAME: VALUE": this is the value behind `name`, without the spaces around it;
// empty: there is no such line.
std::string_view FieldOf(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return {};
  std::string_view value = text.substr(at + name.size());
  value = value.substr(0, value.find('\n'));
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return value;
}

// A value in KiB.
std::optional<PageCount> SizeField(std::string_view text, std::string_view name) {
  std::string_view value = FieldOf(text, name);
  std::uint64_t kibibytes = 0;
  if (!Consume(value, kibibytes)) return std::nullopt;
  return PageCount(kibibytes * 1024 / kBasePageBytes);
}

// Adds the value of a line of /proc/PID/smaps.
void AddLine(std::string_view line, std::vector<MappedMemory>& memory) {
  // Names of fields begin with a capital, addresses with a small hexadecimal digit.
  if (line.empty() || line.front() < 'A' || line.front() > 'Z') {
    auto mapping = ParseMapsLine(line);
    if (!mapping) return;
    // A mapping may have grown since the piece before: it counts as it is now.
    while (!memory.empty() && memory.back().mapping.range.end > mapping->range.start)
      memory.pop_back();
    memory.push_back({.mapping = *std::move(mapping)});
    return;
  }
  if (memory.empty()) return;
  MappedMemory& last = memory.back();
  if (line.starts_with("Rss:")) {
    last.resident = SizeField(line, "Rss:").value_or(PageCount(0));
  } else if (line.starts_with("Pss:")) {
    std::string_view value = FieldOf(line, "Pss:");
    std::uint64_t kibibytes = 0;
    if (Consume(value, kibibytes)) last.proportional_bytes = kibibytes * 1024;
  } else if (line.starts_with("VmFlags:") && last.mapping.kind != MappingKind::kSpecial) {
    last.of_device = std::ranges::any_of(
        SplitAtSpaces(line), [](std::string_view flag) { return flag == "io" || flag == "pf"; });
  }
}

// The file is not kept as a whole: it has 700 bytes for each mapping.
Result<std::vector<MappedMemory>> ReadMappedMemory(const fs::path& path) {
  std::vector<MappedMemory> memory;
  std::string begun;  // the line that a piece has begun
  const auto read = ReadPieces(path, "read memory by mapping", [&](std::string_view piece) {
    for (std::size_t end = 0; (end = piece.find('\n')) != std::string_view::npos;) {
      begun.append(piece.substr(0, end));
      AddLine(begun, memory);
      begun.clear();
      piece.remove_prefix(end + 1);
    }
    begun.append(piece);
  });
  if (!read) return Fail(read.error());
  return memory;
}

struct TaskStat {
  ProcessStat stat;
  bool has_memory = false;   // not so for a kernel thread, nor for one that has begun to exit
  std::optional<CpuId> cpu;  // the CPU on which it runs, or ran last
  std::optional<std::uint64_t> environment_end;  // its address; 0: it has none yet
};

Result<TaskStat> ReadStat(const fs::path& path) {
  const Result<std::string> text = ReadWhole(path, "read process state");
  if (!text) return Fail(text.error());

  // The name stands in parentheses and may itself hold spaces and parentheses.
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return Fail(BadInput("read process state", path.string(), "no name in parentheses"));
  }
  const auto fields = SplitAtSpaces(std::string_view(*text).substr(close + 1));
  const auto parent = StatField(fields, 4);
  const auto session = StatField(fields, 6);
  const auto flags = StatField(fields, 9);
  const auto user_ticks = StatField(fields, 14);
  const auto system_ticks = StatField(fields, 15);
  const auto threads = StatField(fields, 20);
  const auto start = StatField(fields, 22);
  const auto virtual_bytes = StatField(fields, 23);
  const auto resident = StatField(fields, 24);
  const auto cpu = StatField(fields, 39);
  if (!parent || !session || !flags || !user_ticks || !system_ticks || !threads || !start ||
      !virtual_bytes || !resident) {
    return Fail(BadInput("read process state", path.string(), "a field is missing"));
  }
  const auto ticks_per_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const auto cpu_ticks = static_cast<std::int64_t>(*user_ticks + *system_ticks);
  return TaskStat{
      .stat = {.parent = Pid(static_cast<std::int32_t>(*parent)),
               .session = Pid(static_cast<std::int32_t>(*session)),
               .name = text->substr(open + 1, close - open - 1),
               .state = fields[0].front(),
               .cpu_time = std::chrono::nanoseconds(std::nano::den /
                                                    static_cast<std::int64_t>(ticks_per_second)) *
                           cpu_ticks,
               .start_time_ticks = *start,
               .threads = static_cast<std::uint32_t>(*threads),
               .mapped = PageCount(*virtual_bytes / kBasePageBytes),
               .resident = PageCount(*resident),
               .kernel_thread = (*flags & kKernelThreadFlag) != 0},
      .has_memory = *virtual_bytes > 0,
      .cpu = cpu ? std::optional(CpuId(static_cast<std::int32_t>(*cpu))) : std::nullopt,
      .environment_end = StatField(fields, 51)};
}

}  // namespace

std::optional<Mapping> ParseMapsLine(std::string_view line) {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  if (!Consume(line, start, 16) || !Consume(line, '-') || !Consume(line, end, 16) ||
      !Consume(line, ' ') || start >= end) {
    return std::nullopt;
  }
  // Permissions, offset, device and inode stand before the path, which may itself hold spaces.
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    field = line.substr(0, line.find(' '));
    if (field.empty()) return std::nullopt;
    line.remove_prefix(std::min(field.size() + 1, line.size()));
  }
  const auto& [permissions, offset, device, inode] = fields;
  if (permissions.size() != 4) return std::nullopt;
  const bool shared = permissions[3] == 's';
  const std::string_view path = line.substr(std::min(line.find_first_not_of(' '), line.size()));
  const VpnRange range{VpnOfAddress(start), VpnOfAddress(end)};
  return Mapping{.range = range,
                 .kind = KindOf(path, shared),
                 .path = path == "[heap]" || path.starts_with("[stack") ? "" : std::string(path),
                 .accessible = !permissions.starts_with("---"),
                 .file = FilePlaceOf(range.size(), offset, device, inode)};
}

fs::path ProcFs::OfProcess(Pid pid, std::string_view file) const {
  return root_ / std::to_string(pid.value()) / file;
}

fs::path ProcFs::OfThread(Pid pid, Tid thread, std::string_view file) const {
  return OfProcess(pid, "task") / std::to_string(thread.value()) / file;
}

std::vector<Tid> ProcFs::Threads(Pid pid) const {
  std::vector<Tid> threads;
  for (const std::string& name : EntriesOf(OfProcess(pid, "task"))) {
    if (const auto number = PidFromName(name)) threads.emplace_back(number->value());
  }
  std::ranges::sort(threads);
  return threads;
}

std::optional<std::string> ProcFs::ThreadName(Pid pid, Tid thread) const {
  const auto stat = ReadStat(OfThread(pid, thread, "stat"));
  return stat ? std::optional(stat->stat.name) : std::nullopt;
}

std::set<CpuId> ProcFs::CpusInUse(Pid pid) const {
  constexpr std::size_t kMostAsked = 64;  // some 5 us each
  std::set<CpuId> cpus;
  for (const Tid thread : Threads(pid) | std::views::take(kMostAsked)) {
    const auto stat = ReadStat(OfThread(pid, thread, "stat"));
    if (stat && stat->stat.state == 'R' && stat->cpu) cpus.insert(*stat->cpu);
  }
  return cpus;
}

std::optional<Tid> ProcFs::ThreadWithMemory(Pid pid) const {
  std::vector<Tid> threads = Threads(pid);
  std::ranges::stable_partition(threads, [&](Tid thread) { return thread.value() == pid.value(); });
  for (const Tid thread : threads) {
    const auto stat = ReadStat(OfThread(pid, thread, "stat"));
    if (stat && stat->has_memory) return thread;
  }
  return std::nullopt;
}

// A file that is empty or refused for a task without memory.
Result<std::string> ProcFs::ReadOfMemory(Pid pid, std::string_view file,
                                         std::string_view attempt) const {
  Result<std::string> text = ReadWhole(OfProcess(pid, file), attempt);
  if (text ? !text->empty() : text.error().system_error != ESRCH) return text;
  const auto thread = ThreadWithMemory(pid);
  if (!thread || thread->value() == pid.value()) return text;
  return ReadWhole(OfThread(pid, *thread, file), attempt);
}

Result<ProcessStat> ProcFs::Stat(Pid pid) const {
  auto whole = ReadStat(OfProcess(pid, "stat"));
  if (!whole) return Fail(whole.error());
  if (!whole->has_memory && whole->stat.threads > 1) {
    const auto thread = ThreadWithMemory(pid);
    const auto other = thread ? ReadStat(OfThread(pid, *thread, "stat")) : whole;
    if (other) {
      whole->stat.mapped = other->stat.mapped;
      whole->stat.resident = other->stat.resident;
    }
  }
  return whole->stat;
}

std::string ProcFs::Command(Pid pid) const {
  Result<std::string> text = ReadOfMemory(pid, "cmdline", "read command line");
  if (!text) return {};
  while (text->ends_with('\0')) text->pop_back();
  std::ranges::replace(*text, '\0', ' ');
  return *std::move(text);
}

Result<std::vector<Mapping>> ProcFs::Mappings(Pid pid) const {
  const Result<std::string> text = ReadOfMemory(pid, "maps", "read memory mappings");
  if (!text) return Fail(text.error());
  std::vector<Mapping> mappings;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t newline = std::min(rest.find('\n'), rest.size());
    if (auto mapping = ParseMapsLine(rest.substr(0, newline))) {
      // Read in pieces while the process maps: a mapping may have grown since the piece before.
      Vpn& start = mapping->range.start;
      if (!mappings.empty()) start = std::max(start, mappings.back().range.end);
      if (start < mapping->range.end) mappings.push_back(*std::move(mapping));
    }
    rest.remove_prefix(std::min(newline + 1, rest.size()));
  }
  return mappings;
}

std::vector<Pid> ProcFs::Children(Pid pid) const {
  std::vector<Pid> children;
  bool listed = false;
  const fs::path threads = OfProcess(pid, "task");
  for (const std::string& thread : EntriesOf(threads)) {
    const Result<std::string> text = ReadWhole(threads / thread / "children", "list children");
    if (!text) continue;
    listed = true;
    for (const std::string_view name : SplitAtSpaces(*text)) {
      if (const auto child = PidFromName(name)) children.push_back(*child);
    }
  }
  if (!listed) {  // kernel without CONFIG_PROC_CHILDREN
    for (const ListedProcess& other : Processes()) {
      const auto stat = Stat(other.pid);
      if (stat && stat->parent == pid) children.push_back(other.pid);
    }
  }
  std::ranges::sort(children);
  return children;
}

std::vector<ListedProcess> ProcFs::Processes() const {
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  std::vector<ListedProcess> processes;
  const std::unique_ptr<DIR, Close> folder(opendir(root_.c_str()));
  if (!folder) return processes;
  while (const dirent* entry = readdir(folder.get())) {
    if (const auto pid = PidFromName(entry->d_name)) {
      processes.push_back({.pid = *pid, .inode = entry->d_ino});
    }
  }
  std::ranges::sort(processes, {}, &ListedProcess::pid);
  return processes;
}

Result<std::string> ProcFs::Executable(Pid pid) const {
  constexpr std::string_view kReplaced = " (deleted)";  // usually by an upgrade
  const fs::path link = OfProcess(pid, "exe");
  std::error_code refusal;
  std::string program = fs::read_symlink(link, refusal).string();
  if (refusal.value() == ENOENT) {
    const auto thread = ThreadWithMemory(pid);
    if (thread) program = fs::read_symlink(OfThread(pid, *thread, "exe"), refusal).string();
  }
  if (refusal) return RefusedOfProcess("read program", link, refusal.value());
  if (program.ends_with(kReplaced)) program.resize(program.size() - kReplaced.size());
  return program;
}

Result<std::string> ProcFs::Environment(Pid pid) const {
  Result<std::string> text = ReadOfMemory(pid, "environ", "read environment");
  // execve(2) has the new memory in place before it writes the environment there.
  if (text && text->empty()) {
    const auto stat = ReadStat(OfProcess(pid, "stat"));
    if (stat && stat->environment_end == 0) {
      return Fail(Refused("read environment", OfProcess(pid, "environ").string(), EAGAIN));
    }
  }
  return text;
}

std::optional<bool> ProcFs::IsSecure(Pid pid) const {
  const Result<std::string> text = ReadOfMemory(pid, "auxv", "read auxiliary vector");
  if (!text) return std::nullopt;
  for (std::size_t at = 0; at + sizeof(Elf64_auxv_t) <= text->size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, text->data() + at, sizeof entry);
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return std::nullopt;
}

Result<std::string> ProcFs::Cgroup(Pid pid) const {
  constexpr std::string_view kAttempt = "read control group";
  constexpr std::string_view kVersion2 = "0::";  // cgroups(7)
  const fs::path path = OfProcess(pid, "cgroup");
  const Result<std::string> text = ReadWhole(path, kAttempt);
  if (!text) return Fail(text.error());
  for (const auto line : *text | std::views::split('\n')) {
    const std::string_view hierarchy(line.begin(), line.end());
    if (hierarchy.starts_with(kVersion2)) {
      return std::string(hierarchy.substr(kVersion2.size()));
    }
  }
  return Fail(Refused(std::string(kAttempt), path.string(), ENOENT,
                      "the kernel shows no cgroup v2; mount it"));
}

std::optional<ProcFs::HeldMemory> ProcFs::Held(Pid pid) const {
  const Result<std::string> text = ReadOfMemory(pid, "status", "read process status");
  if (!text) return std::nullopt;
  const auto locked = SizeField(*text, "\nVmLck:");
  if (!locked) return std::nullopt;
  // Absent from a kernel without hugetlbfs.
  return HeldMemory{.locked = *locked,
                    .hugetlb = SizeField(*text, "\nHugetlbPages:").value_or(PageCount(0))};
}

Result<std::vector<MappedMemory>> ProcFs::MemoryByMapping(Pid pid) const {
  auto memory = ReadMappedMemory(OfProcess(pid, "smaps"));
  if (memory ? !memory->empty() : memory.error().system_error != ESRCH) return memory;
  const auto thread = ThreadWithMemory(pid);
  if (!thread || thread->value() == pid.value()) return memory;
  return ReadMappedMemory(OfThread(pid, *thread, "smaps"));
}

std::optional<std::uint64_t> ProcFs::IpcNamespace(Pid pid) const {
  return InodeOf(OfProcess(pid, "ns/ipc"));
}

std::optional<std::uint64_t> ProcFs::PidNamespace(Pid pid) const {
  return InodeOf(OfProcess(pid, "ns/pid"));
}

std::optional<Pid> ProcFs::InOtherNamespace(Pid inner) const {
  std::optional<Pid> found;
  for (const ListedProcess& process : Processes()) {
    const Result<std::string> text = ReadWhole(OfProcess(process.pid, "status"), "read status");
    if (!text) continue;
    const std::string_view numbers = FieldOf(*text, "\nNSpid:");
    const std::size_t last = numbers.find_last_of(" \t");
    if (last == std::string_view::npos) continue;  // in this namespace alone
    if (PidFromName(numbers.substr(last + 1)) != inner) continue;
    if (found) return std::nullopt;
    found = process.pid;
  }
  return found;
}

Status ProcFs::CheckNamespace() const {
  std::error_code refusal;
  const std::string self = fs::read_symlink(root_ / "self", refusal).string();
  if (!refusal && PidFromName(self) == Pid(getpid())) return {};
  return Fail(Error{.attempt = "observe processes by",
                    .object = root_.string(),
                    .reason = "it shows the processes of another PID namespace",
                    .advice = "mount the one of tmprof's namespace there: unshare --pid --fork "
                              "--mount-proc, or mount -t proc proc /proc"});
}

std::optional<PageCount> ProcFs::TotalMemory() const {
  const Result<std::string> text = ReadWhole(root_ / "meminfo", "read memory size");
  return text ? SizeField(*text, "MemTotal:") : std::nullopt;
}

std::optional<std::chrono::nanoseconds> ProcessCpuTime(Pid pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid.value(), &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace tmprof
