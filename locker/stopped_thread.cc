// SPDX-License-Identifier: Apache-2.0

#include "locker/stopped_thread.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tmprof {
namespace {

constexpr std::string_view kAttempt = "stop";
constexpr std::string_view kByItself = "have the program call mlock2() itself";
// Of those who sleep uninterruptibly, most wait for a disk.
constexpr std::chrono::seconds kLongestWait(5);
constexpr std::chrono::microseconds kPoll(100);
// include/uapi/linux/ptrace.h: PTRACE_EVENT_STOP is an enumerator of <sys/ptrace.h>, these two may
// be newer than the C library.
constexpr int kGetRseqConfiguration = 0x420f;   // Linux 5.13
constexpr int kGetSyscallDispatcher = 0x4211;   // Linux 6.4
constexpr std::uint64_t kCodeSegment64 = 0x33;  // arch/x86/include/asm/segment.h, __USER_CS
constexpr std::uint64_t kNoSyscall = ~std::uint64_t{0};
constexpr std::uint64_t kMaskBytes = 8;  // of the kernel's sigset_t
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};
constexpr int kSyscallStop = SIGTRAP | 0x80;  // with PTRACE_O_TRACESYSGOOD
constexpr int kTriesOutsideCriticalSection = 100;
constexpr std::size_t kMostCodeSearched = std::size_t{1} << 22;

// include/uapi/linux/ptrace.h, struct ptrace_rseq_configuration.
struct RseqConfiguration {
  std::uint64_t address;
  std::uint32_t size;
  std::uint32_t signature;
  std::uint32_t flags;
  std::uint32_t padding;
};
constexpr std::uint64_t kCriticalSectionInRseq = 8;  // offsetof(struct rseq, rseq_cs)
// include/uapi/linux/rseq.h, struct rseq_cs.
struct CriticalSection {
  std::uint32_t version;
  std::uint32_t flags;
  std::uint64_t start;
  std::uint64_t length;
  std::uint64_t abort;
};
// include/uapi/linux/ptrace.h, struct ptrace_sud_config; mode 0: off.
struct SyscallDispatcher {
  std::uint64_t mode;
  std::uint64_t selector;
  std::uint64_t offset;
  std::uint64_t length;
};

// The C library declares enumerations of requests, which newer ones are none of.
long Ptrace(int request, pid_t thread, std::uint64_t address, const void* data) {
  return ptrace(static_cast<__ptrace_request>(request), thread, reinterpret_cast<void*>(address),
                const_cast<void*>(data));
}
long Ptrace(int request, pid_t thread, std::uint64_t value = 0) {
  return Ptrace(request, thread, 0, reinterpret_cast<const void*>(value));
}

bool IsEventStop(int status) { return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP; }

bool ReadMemory(pid_t thread, std::uint64_t address, void* to, std::size_t bytes) {
  iovec local{.iov_base = to, .iov_len = bytes};
  iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes};
  return process_vm_readv(thread, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

// A line of /proc/PID/status; nullopt: there is none.
std::optional<std::string> StatusLine(pid_t thread, std::string_view title) {
  std::ifstream file(fmt::format("/proc/{}/status", thread));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(title)) continue;
    const std::size_t value = line.find_first_not_of(" \t", title.size());
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return std::nullopt;
}

// One with memory that is not likely to sleep for long: the main one, unless it has exited.
pid_t ThreadOf(Pid pid) {
  std::vector<pid_t> threads;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid.value()), ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread > 0) threads.push_back(thread);
  }
  std::ranges::sort(threads);
  pid_t asleep = 0;
  for (const pid_t thread : threads) {
    const std::string state = StatusLine(thread, "State:").value_or("X");
    if (state.starts_with('D') && asleep == 0) asleep = thread;
    if (!state.starts_with('D') && !state.starts_with('Z') && !state.starts_with('X'))
      return thread;
  }
  return asleep;
}

// The address of a SYSCALL instruction in code that nobody writes; 0: there is none. The kernel's
// own code for programs, [vdso], has one.
std::uint64_t FindSyscall(pid_t thread) {
  std::ifstream maps(fmt::format("/proc/{}/maps", thread));
  std::vector<std::pair<std::uint64_t, std::size_t>> code;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    const char* const last = line.data() + line.size();
    const auto [dash, bad] = std::from_chars(line.data(), last, start, 16);
    if (bad != std::errc() || dash == last || *dash != '-') continue;
    const auto [blank, worse] = std::from_chars(dash + 1, last, end, 16);
    if (worse != std::errc() || !std::string_view(blank, last).starts_with(" r-x")) continue;
    if (line.ends_with("[vsyscall]")) continue;
    const std::pair found{start, std::min<std::size_t>(end - start, kMostCodeSearched)};
    if (line.ends_with("[vdso]")) {
      code.insert(code.begin(), found);
    } else {
      code.push_back(found);
    }
  }
  constexpr std::array<unsigned char, 2> kSyscall{0x0f, 0x05};
  for (const auto& [start, bytes] : code) {
    std::vector<unsigned char> text(bytes);
    if (!ReadMemory(thread, start, text.data(), bytes)) continue;
    const auto found = std::ranges::search(text, kSyscall);
    if (!found.empty()) return start + static_cast<std::uint64_t>(found.begin() - text.begin());
  }
  return 0;
}

}  // namespace

Error StoppedThread::Gone(int system_error) const {
  return Refused(std::string(kAttempt), fmt::format("PID {}", pid_.value()), system_error,
                 system_error == ESRCH ? "it has ended" : "");
}

Error StoppedThread::Unfit(std::string reason, std::string advice) const {
  return {.kind = ErrorKind::kRefused,
          .attempt = std::string(kAttempt),
          .object = fmt::format("PID {}", pid_.value()),
          .reason = std::move(reason),
          .advice = std::move(advice)};
}

Result<StoppedThread> StoppedThread::Stop(Pid pid) {
  StoppedThread thread(pid, 0);
  const pid_t id = ThreadOf(pid);
  if (id == 0) return Fail(thread.Gone(ESRCH));
  if (StatusLine(id, "Seccomp:").value_or("0") == "2") {
    return Fail(thread.Unfit("a seccomp filter judges its system calls, and may kill it for ours",
                             std::string(kByItself)));
  }
  if (Ptrace(PTRACE_SEIZE, id, PTRACE_O_TRACESYSGOOD) != 0) {
    const int refused = errno;
    if (refused == ESRCH) return Fail(thread.Gone(ESRCH));
    const std::string tracer = StatusLine(id, "TracerPid:").value_or("0");
    return Fail(Refused(std::string(kAttempt), fmt::format("PID {}", pid.value()), refused,
                        tracer != "0" ? "PID " + tracer + " traces it: end that first"
                                      : "run as the same user or with CAP_SYS_PTRACE; "
                                        "kernel.yama.ptrace_scope may forbid it"));
  }
  thread.thread_ = id;
  if (Status stopped = thread.Interrupt(); !stopped) return Fail(std::move(stopped.error()));
  if (Status prepared = thread.Prepare(); !prepared) return Fail(std::move(prepared.error()));
  return thread;
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : pid_(other.pid_),
      thread_(std::exchange(other.thread_, 0)),
      masked_(other.masked_),
      called_(other.called_),
      registers_(other.registers_),
      signal_mask_(other.signal_mask_),
      syscall_address_(other.syscall_address_) {}

StoppedThread::~StoppedThread() { (void)Release(); }

// The next stop, or end, that it comes to.
Result<int> StoppedThread::Wait() const {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (true) {
    int status = 0;
    const pid_t found = waitpid(thread_, &status, __WALL | WNOHANG);
    if (found < 0 && errno != EINTR) return Fail(Gone(ESRCH));
    if (found == thread_) {
      if (!WIFSTOPPED(status)) return Fail(Gone(ESRCH));
      return status;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return Fail(Unfit("it sleeps and cannot be interrupted", "try again when its disk answers"));
    }
    const timespec poll{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kPoll).count()};
    nanosleep(&poll, nullptr);
  }
}

Result<int> StoppedThread::Resume(int request) const {
  if (Ptrace(request, thread_) != 0) return Fail(Gone(errno));
  return Wait();
}

// Until the stop that is asked for; passes by others, which a SIGSTOP makes.
Status StoppedThread::ResumeTo(int request, int stop) const {
  while (true) {
    const Result<int> status = Resume(request);
    if (!status) return Fail(status.error());
    if (stop == PTRACE_EVENT_STOP ? IsEventStop(*status) : WSTOPSIG(*status) == stop) return {};
  }
}

// Where the kernel is about to deliver signals, and has not yet decided whether to restart the
// system call that this interrupted.
Status StoppedThread::Interrupt() {
  for (int tries = 0; tries < kTriesOutsideCriticalSection; ++tries) {
    if (Ptrace(PTRACE_INTERRUPT, thread_) != 0) {
      const int error = errno;
      thread_ = 0;
      return Fail(Gone(error));
    }
    Result<int> status = Wait();
    while (status && !IsEventStop(*status)) {
      // A signal that came first is its own.
      if (Ptrace(PTRACE_CONT, thread_, static_cast<std::uint64_t>(WSTOPSIG(*status))) != 0) {
        status = Fail(Gone(errno));
      } else {
        status = Wait();
      }
    }
    if (!status) {
      // Not stopped, it cannot be detached; it is when this process ends.
      thread_ = 0;
      return Fail(std::move(status.error()));
    }
    if (WSTOPSIG(*status) != SIGTRAP) {
      // Let go, it stays stopped.
      return Fail(Unfit("a signal has stopped it", "continue it first: kill -CONT"));
    }
    const Result<bool> inside = InCriticalSection();
    if (!inside) return Fail(inside.error());
    if (!*inside) return {};
    if (Ptrace(PTRACE_CONT, thread_) != 0) return Fail(Gone(errno));
  }
  thread_ = 0;
  return Fail(Unfit("it is in a restartable sequence whenever it is looked at", "try again"));
}

// Away from a restartable sequence and back, it would not be told to restart it (rseq(2)).
Result<bool> StoppedThread::InCriticalSection() const {
  user_regs_struct registers{};
  if (Ptrace(PTRACE_GETREGS, thread_, 0, &registers) != 0) return Fail(Gone(errno));
  RseqConfiguration rseq{};
  if (Ptrace(kGetRseqConfiguration, thread_, sizeof rseq, &rseq) < 0 || rseq.address == 0)
    return false;
  std::uint64_t address = 0;
  if (!ReadMemory(thread_, rseq.address + kCriticalSectionInRseq, &address, sizeof address) ||
      address == 0)
    return false;
  CriticalSection section{};
  if (!ReadMemory(thread_, address, &section, sizeof section)) return false;
  return registers.rip - section.start < section.length;
}

// Remembers what it is to have again.
Status StoppedThread::Prepare() {
  if (Ptrace(PTRACE_GETREGS, thread_, 0, &registers_) != 0 ||
      Ptrace(PTRACE_GETSIGMASK, thread_, kMaskBytes, &signal_mask_) != 0)
    return Fail(Gone(errno));
  if (registers_.cs != kCodeSegment64)
    return Fail(Unfit("it runs 32-bit code", std::string(kByItself)));
  SyscallDispatcher dispatcher{};
  if (Ptrace(kGetSyscallDispatcher, thread_, sizeof dispatcher, &dispatcher) == 0 &&
      dispatcher.mode != 0)
    return Fail(Unfit("it dispatches its system calls itself (PR_SET_SYSCALL_USER_DISPATCH)",
                      std::string(kByItself)));
  syscall_address_ = FindSyscall(thread_);
  if (syscall_address_ == 0)
    return Fail(Unfit("there is no SYSCALL instruction in its code", std::string(kByItself)));
  // Or a handler of it would run with registers of ours.
  if (Ptrace(PTRACE_SETSIGMASK, thread_, kMaskBytes, &kAllSignals) != 0) return Fail(Gone(errno));
  masked_ = true;
  return {};
}

Result<std::int64_t> StoppedThread::Call(std::int64_t number,
                                         std::array<std::uint64_t, 3> arguments) {
  user_regs_struct registers = registers_;
  registers.rip = syscall_address_;
  registers.rax = static_cast<std::uint64_t>(number);
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.orig_rax = kNoSyscall;  // that is to be restarted
  called_ = true;
  if (Ptrace(PTRACE_SETREGS, thread_, 0, &registers) != 0) return Fail(Gone(errno));
  for (int stop = 0; stop < 2; ++stop) {  // before the call, and after it
    if (Status status = ResumeTo(PTRACE_SYSCALL, kSyscallStop); !status)
      return Fail(std::move(status.error()));
  }
  if (Ptrace(PTRACE_GETREGS, thread_, 0, &registers) != 0) return Fail(Gone(errno));
  return static_cast<std::int64_t>(registers.rax);
}

Status StoppedThread::Release() {
  if (thread_ == 0) return {};
  const auto lost = [this](Error error) {
    thread_ = 0;
    return Fail(std::move(error));
  };
  if (called_) {
    // From the end of a system call to where a restart is decided; no instruction lies between.
    if (Ptrace(PTRACE_INTERRUPT, thread_) != 0) return lost(Gone(errno));
    if (Status status = ResumeTo(PTRACE_CONT, PTRACE_EVENT_STOP); !status)
      return lost(std::move(status.error()));
    if (Ptrace(PTRACE_SETREGS, thread_, 0, &registers_) != 0) return lost(Gone(errno));
  }
  if ((masked_ && Ptrace(PTRACE_SETSIGMASK, thread_, kMaskBytes, &signal_mask_) != 0) ||
      Ptrace(PTRACE_DETACH, thread_) != 0)
    return lost(Gone(errno));
  thread_ = 0;
  return {};
}

}  // namespace tmprof
