// SPDX-License-Identifier: Apache-2.0

#include "locking/stopped_thread.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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
// Most uninterruptible sleepers wait for a disk.
constexpr std::chrono::seconds kLongestWait(5);
constexpr std::chrono::microseconds kPoll(100);
// These are from include/uapi/linux/ptrace.h. PTRACE_EVENT_STOP is an enumerator of <sys/ptrace.h>;
// these two may be newer than the C library.
constexpr int kGetRseqConfiguration = 0x420f;   // Linux 5.13, with CONFIG_RSEQ
constexpr int kGetSyscallDispatcher = 0x4211;   // Linux 6.4
constexpr std::uint64_t kCodeSegment64 = 0x33;  // arch/x86/include/asm/segment.h, __USER_CS
constexpr std::uint64_t kSingleStep = 0x100;    // Intel SDM 1, 3.4.3.3, TF of EFLAGS
constexpr std::uint64_t kNoSyscall = ~std::uint64_t{0};
constexpr std::uint64_t kMaskBytes = 8;  // size of the kernel's sigset_t
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};
constexpr int kSyscallStop = SIGTRAP | 0x80;  // with PTRACE_O_TRACESYSGOOD
constexpr int kTriesOutsideCriticalSection = 100;
constexpr std::size_t kMostCodeSearched = std::size_t{1} << 20;  // [vdso] has a few pages

// Calls that end with EINTR when their thread was stopped, even without a handler (signal(7)).
// Calls on sockets do so only with a timeout (SO_RCVTIMEO), which is not visible from outside.
constexpr std::array kNotRestarted{
    SYS_epoll_wait, SYS_epoll_pwait,  SYS_epoll_pwait2,  SYS_rt_sigtimedwait, SYS_semop,
    SYS_semtimedop, SYS_io_getevents, SYS_io_pgetevents, SYS_io_uring_enter,  SYS_recvfrom,
    SYS_recvmsg,    SYS_recvmmsg,     SYS_sendto,        SYS_sendmsg,         SYS_sendmmsg,
    SYS_accept,     SYS_accept4,      SYS_connect};

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

// The C library declares enumerations of requests that lack the newer ones.
long Ptrace(int request, pid_t thread, std::uint64_t address, const void* data) {
  return ptrace(static_cast<__ptrace_request>(request), thread, reinterpret_cast<void*>(address),
                const_cast<void*>(data));
}
long Ptrace(int request, pid_t thread, std::uint64_t value = 0) {
  return Ptrace(request, thread, 0, reinterpret_cast<const void*>(value));
}

bool IsEventStop(int status) { return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP; }

// Returns the signal that is about to be delivered; 0: the stop has another reason.
int SignalOf(int status) {
  return status >> 16 == 0 && WSTOPSIG(status) != kSyscallStop ? WSTOPSIG(status) : 0;
}

bool ReadMemory(pid_t thread, std::uint64_t address, void* to, std::size_t bytes) {
  iovec local{.iov_base = to, .iov_len = bytes};
  iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = bytes};
  return process_vm_readv(thread, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

void Pause() {
  const timespec poll{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kPoll).count()};
  nanosleep(&poll, nullptr);
}

// Returns a line of /proc/PID/status; nullopt: there is none.
std::optional<std::string> StatusLine(pid_t thread, std::string_view title) {
  std::ifstream file(fmt::format("/proc/{}/status", thread));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(title)) continue;
    const std::size_t value = line.find_first_not_of(" \t", title.size());
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return std::nullopt;
}

// The degrees to which the program would notice if a thread were stopped.
enum class Aptness : std::uint8_t { kUnnoticed, kSeesAnError, kSleepsDeeply, kHasEnded };

Aptness AptnessOf(Pid pid, pid_t thread) {
  const std::string state = StatusLine(thread, "State:").value_or("X");
  if (state.starts_with('Z') || state.starts_with('X')) return Aptness::kHasEnded;
  if (state.starts_with('D')) return Aptness::kSleepsDeeply;
  std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", pid.value(), thread));
  long call = 0;
  // The file has a word instead of a number for a running thread.
  const bool waits = static_cast<bool>(file >> call);
  const bool restarted = std::ranges::find(kNotRestarted, call) == kNotRestarted.end();
  return waits && !restarted ? Aptness::kSeesAnError : Aptness::kUnnoticed;
}

// Returns the thread that notices least, preferably the main one; nullopt: none has memory.
std::optional<pid_t> ThreadOf(Pid pid) {
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
  std::optional<pid_t> chosen;
  Aptness least = Aptness::kHasEnded;
  for (const pid_t thread : threads) {
    const Aptness aptness = AptnessOf(pid, thread);
    if (aptness >= least) continue;
    least = aptness;
    chosen = thread;
    if (least == Aptness::kUnnoticed) break;
  }
  return chosen;
}

// Returns the address of a SYSCALL instruction in [vdso], the kernel's own code for programs, which
// is never unmapped; nullopt: there is none. Another thread could unmap other code meanwhile, and
// our call would fault.
std::optional<std::uint64_t> FindSyscall(pid_t thread) {
  std::ifstream maps(fmt::format("/proc/{}/maps", thread));
  constexpr std::string_view kSyscall("\x0f\x05");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("[vdso]")) continue;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    const char* const last = line.data() + line.size();
    const auto [dash, bad] = std::from_chars(line.data(), last, start, 16);
    if (bad != std::errc() || dash == last || *dash != '-') continue;
    const auto [blank, worse] = std::from_chars(dash + 1, last, end, 16);
    if (worse != std::errc() || !std::string_view(blank, last).starts_with(" r-x")) continue;
    std::string text(std::min<std::size_t>(end - start, kMostCodeSearched), '\0');
    if (!ReadMemory(thread, start, text.data(), text.size())) continue;
    const std::size_t found = text.find(kSyscall);
    if (found != std::string::npos) return start + found;
  }
  return std::nullopt;
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
  StoppedThread thread(pid);
  const std::optional<pid_t> id = ThreadOf(pid);
  if (!id) return Fail(thread.Gone(ESRCH));
  if (Ptrace(PTRACE_SEIZE, *id, PTRACE_O_TRACESYSGOOD) != 0) {
    const int refused = errno;
    // A thread that is ending may not be traced.
    if (refused == ESRCH || AptnessOf(pid, *id) == Aptness::kHasEnded)
      return Fail(thread.Gone(ESRCH));
    const std::string tracer = StatusLine(*id, "TracerPid:").value_or("0");
    return Fail(Refused(std::string(kAttempt), fmt::format("PID {}", pid.value()), refused,
                        tracer != "0" ? "PID " + tracer + " traces it: end that first"
                                      : "run as the same user or with CAP_SYS_PTRACE; "
                                        "kernel.yama.ptrace_scope may forbid it"));
  }
  thread.thread_ = *id;
  thread.running_ = true;
  if (Status stopped = thread.Interrupt(); !stopped) return Fail(std::move(stopped.error()));
  if (Status prepared = thread.Prepare(); !prepared) return Fail(std::move(prepared.error()));
  return thread;
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : pid_(other.pid_),
      thread_(std::exchange(other.thread_, std::nullopt)),
      running_(other.running_),
      masked_(other.masked_),
      called_(other.called_),
      registers_(other.registers_),
      signal_mask_(other.signal_mask_),
      syscall_address_(other.syscall_address_) {}

StoppedThread::~StoppedThread() { (void)Release(); }

// Waits for the thread's next stop. A thread with our registers is waited for as long as it takes,
// because it must not be released there.
Result<int> StoppedThread::Wait() {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (true) {
    int status = 0;
    const pid_t found = waitpid(*thread_, &status, called_ ? __WALL : __WALL | WNOHANG);
    if (found < 0 && errno == EINTR) continue;
    if (found < 0 || (found > 0 && !WIFSTOPPED(status))) {
      thread_.reset();
      return Fail(Gone(ESRCH));
    }
    if (found > 0) {
      running_ = false;
      return status;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      // A running thread cannot be released. It is when this thread ends.
      thread_.reset();
      return Fail(Unfit("it sleeps and cannot be interrupted", "try again when its disk answers"));
    }
    Pause();
  }
}

Status StoppedThread::Resume(int request, int signal) {
  if (Ptrace(request, *thread_, static_cast<std::uint64_t>(signal)) != 0) return Fail(Gone(errno));
  running_ = true;
  return {};
}

// Resumes the thread until the requested stop. Signals on the way are its own. With our signal mask
// only SIGSTOP comes, which stops the other threads of its process, and this one when it is
// released.
Status StoppedThread::RunTo(int request, int stop) {
  int signal = 0;
  while (true) {
    if (!running_) {
      if (Status resumed = Resume(request, signal); !resumed) return resumed;
    }
    const Result<int> status = Wait();
    if (!status) return Fail(status.error());
    if (stop == PTRACE_EVENT_STOP ? IsEventStop(*status)
                                  : *status >> 16 == 0 && WSTOPSIG(*status) == stop)
      return {};
    signal = SignalOf(*status);
    if (masked_ && signal != 0 && signal != SIGSTOP) {
      // The fault is ours, not the program's.
      if (stop != PTRACE_EVENT_STOP)
        return Fail(Unfit(fmt::format("the call met signal {}", signal), std::string(kByItself)));
      signal = 0;
    }
  }
}

// Stops the thread where the kernel is about to deliver signals and has not yet decided whether to
// restart the interrupted system call.
Status StoppedThread::Interrupt() {
  for (int tries = 1;; ++tries) {
    if (Ptrace(PTRACE_INTERRUPT, *thread_) != 0) {
      const int error = errno;
      thread_.reset();
      return Fail(Gone(error));
    }
    if (Status stopped = RunTo(PTRACE_CONT, PTRACE_EVENT_STOP); !stopped) return stopped;
    siginfo_t cause{};
    if (Ptrace(PTRACE_GETSIGINFO, *thread_, 0, &cause) != 0 || cause.si_signo != SIGTRAP) {
      // It stays stopped after it is released.
      return Fail(Unfit("a signal has stopped it", "continue it first: kill -CONT"));
    }
    const Result<bool> inside = InCriticalSection();
    if (!inside) return Fail(inside.error());
    if (!*inside) return {};
    if (tries == kTriesOutsideCriticalSection)
      return Fail(Unfit("it is in a restartable sequence whenever it is looked at", "try again"));
    if (Status resumed = Resume(PTRACE_CONT, 0); !resumed) return resumed;
    Pause();  // it will leave the sequence
  }
}

// True if the thread is in a restartable sequence (rseq(2)). After a detour the kernel would not
// tell it to restart the sequence. A kernel that does not answer the request has no such sequences,
// because Prepare() refuses kernels that are too old to be asked.
Result<bool> StoppedThread::InCriticalSection() const {
  user_regs_struct registers{};
  if (Ptrace(PTRACE_GETREGS, *thread_, 0, &registers) != 0) return Fail(Gone(errno));
  RseqConfiguration rseq{};
  if (Ptrace(kGetRseqConfiguration, *thread_, sizeof rseq, &rseq) < 0 || rseq.address == 0)
    return false;
  std::uint64_t address = 0;
  if (!ReadMemory(*thread_, rseq.address + kCriticalSectionInRseq, &address, sizeof address))
    return true;  // unknown
  if (address == 0) return false;
  CriticalSection section{};
  if (!ReadMemory(*thread_, address, &section, sizeof section)) return true;
  return registers.rip - section.start < section.length;
}

// Checks for anything that forbids a call, and saves the state to be restored.
Status StoppedThread::Prepare() {
  const std::string seccomp = StatusLine(*thread_, "Seccomp:").value_or("0");
  const std::optional<std::uint64_t> syscall = FindSyscall(*thread_);
  SyscallDispatcher dispatcher{};
  const bool knows_dispatcher =
      Ptrace(kGetSyscallDispatcher, *thread_, sizeof dispatcher, &dispatcher) == 0;
  // The thread answered, so it was still alive when the dispatcher was read.
  if (Ptrace(PTRACE_GETREGS, *thread_, 0, &registers_) != 0 ||
      Ptrace(PTRACE_GETSIGMASK, *thread_, kMaskBytes, &signal_mask_) != 0)
    return Fail(Gone(errno));
  const std::string by_itself(kByItself);
  if (seccomp != "0") {
    return Fail(Unfit("seccomp judges its system calls, and may kill it for ours", by_itself));
  }
  if (registers_.cs != kCodeSegment64) return Fail(Unfit("it runs 32-bit code", by_itself));
  if (!knows_dispatcher) {
    return Fail(
        Unfit("before Linux 6.4 the kernel does not tell whether a program may be made to "
              "call (restartable sequences, dispatched system calls)",
              by_itself));
  }
  if (dispatcher.mode != 0) {
    return Fail(
        Unfit("it dispatches its system calls itself (PR_SET_SYSCALL_USER_DISPATCH)", by_itself));
  }
  if (!syscall) return Fail(Unfit("there is no SYSCALL instruction in its [vdso]", by_itself));
  syscall_address_ = *syscall;
  // Otherwise a handler of the program would run with our registers.
  if (Ptrace(PTRACE_SETSIGMASK, *thread_, kMaskBytes, &kAllSignals) != 0) return Fail(Gone(errno));
  masked_ = true;
  return {};
}

Result<std::int64_t> StoppedThread::Call(std::int64_t number,
                                         std::array<std::uint64_t, 3> arguments) {
  if (!thread_) return Fail(Gone(ESRCH));
  user_regs_struct registers = registers_;
  registers.rip = syscall_address_;
  registers.rax = static_cast<std::uint64_t>(number);
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.orig_rax = kNoSyscall;  // no system call is to be restarted
  registers.eflags &= ~kSingleStep;
  called_ = true;
  if (Ptrace(PTRACE_SETREGS, *thread_, 0, &registers) != 0) return Fail(Gone(errno));
  for (int stop = 0; stop < 2; ++stop) {  // before the call, and after it
    if (Status status = RunTo(PTRACE_SYSCALL, kSyscallStop); !status)
      return Fail(std::move(status.error()));
  }
  if (Ptrace(PTRACE_GETREGS, *thread_, 0, &registers) != 0) return Fail(Gone(errno));
  return static_cast<std::int64_t>(registers.rax);
}

Status StoppedThread::Release() {
  if (!thread_) return {};
  const auto lost = [this](Error error) {
    thread_.reset();
    return Fail(std::move(error));
  };
  if (running_ || called_) {
    // Takes the thread from the end of a system call, or from wherever it runs, to where the kernel
    // decides about a restart. No instruction lies between that and the end of a call.
    if (Ptrace(PTRACE_INTERRUPT, *thread_) != 0) return lost(Gone(errno));
    if (Status status = RunTo(PTRACE_CONT, PTRACE_EVENT_STOP); !status)
      return lost(std::move(status.error()));
  }
  if ((called_ && Ptrace(PTRACE_SETREGS, *thread_, 0, &registers_) != 0) ||
      (masked_ && Ptrace(PTRACE_SETSIGMASK, *thread_, kMaskBytes, &signal_mask_) != 0) ||
      Ptrace(PTRACE_DETACH, *thread_) != 0)
    return lost(Gone(errno));
  thread_.reset();
  return {};
}

}  // namespace tmprof
