// SPDX-License-Identifier: Apache-2.0

#include "tests/apps/program.h"

#include <fcntl.h>
#include <grp.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

// Returns the arguments in the form of execvp(): the last is null. `argv` must outlive them.
std::vector<char*> ArgumentsOf(const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

// Waits for a child and returns its exit status, or 128 + signal.
int StatusOf(pid_t child) {
  int wait_status = 0;
  TMPROF_CHECK(waitpid(child, &wait_status, 0) == child);
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

Outcome RunProgram(const std::vector<std::string>& argv, const std::function<void()>& before_exec) {
  const TemporaryFolder folder;
  const std::string out = folder.File("out");
  const std::string err = folder.File("err");
  std::vector<char*> arguments = ArgumentsOf(argv);

  const pid_t pid = fork();
  TMPROF_CHECK(pid >= 0);
  if (pid == 0) {
    const int out_fd = open(out.c_str(), O_CREAT | O_WRONLY, 0600);
    const int err_fd = open(err.c_str(), O_CREAT | O_WRONLY, 0600);
    const int in_fd = open("/dev/null", O_RDONLY);
    dup2(in_fd, STDIN_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    unsetenv("COLUMNS");
    before_exec();
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  const int status = StatusOf(pid);
  return {.status = status, .out = ReadFile(out), .err = ReadFile(err)};
}

Outcome RunAtTerminal(const std::vector<std::string>& argv, unsigned short columns) {
  std::vector<char*> arguments = ArgumentsOf(argv);
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  termios settings{};
  settings.c_cflag = CS8 | CREAD;  // no c_oflag: a line feed stays one
  cfsetospeed(&settings, B38400);
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, &settings, &size);
  TMPROF_CHECK(pid >= 0);
  if (pid == 0) {
    unsetenv("COLUMNS");
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  std::string out;
  std::array<char, 4096> part{};
  // Linux ends the output with EIO once the program has closed the terminal.
  for (ssize_t got = 0; (got = read(terminal, part.data(), part.size())) > 0;) {
    out.append(part.data(), static_cast<std::size_t>(got));
  }
  const int status = StatusOf(pid);
  close(terminal);
  return {.status = status, .out = std::move(out), .err = ""};
}

Outcome RunAsNobody(const std::vector<std::string>& argv) {
  return RunProgram(argv, [] {
    if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(126);
  });
}

std::string TmprofPath() { return std::string(TMPROF_BINARY_DIR) + "/tmprof"; }

Outcome Tmprof(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TmprofPath());
  return RunProgram(arguments);
}

std::size_t LongestLine(const std::string& text) {
  std::istringstream lines(text);
  std::ptrdiff_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, std::ranges::count_if(line, [](unsigned char byte) {
                         return (byte & 0xc0) != 0x80;  // begins a character
                       }));
  }
  return static_cast<std::size_t>(longest);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "tmprof-test-XXXXXX").string();
  TMPROF_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

}  // namespace tmprof::test
