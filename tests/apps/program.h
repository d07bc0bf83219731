// SPDX-License-Identifier: Apache-2.0
// Runs a built program and keeps what it said.

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tmprof::test {

struct Outcome {
  int status = 0;  // exit status, or 128 + signal
  std::string out;
  std::string err;
};

// Blocking. argv[0] is looked up in PATH unless it holds a slash. `before_exec` runs in the child.
// COLUMNS is not in its environment.
Outcome RunProgram(
    const std::vector<std::string>& argv, const std::function<void()>& before_exec = [] {});
// The same as an ordinary user without capabilities (uid and gid 65534); the caller must be root.
Outcome RunAsNobody(const std::vector<std::string>& argv);

// Runs a program at a terminal of so many columns; 0: the terminal does not know them. `out` has
// what the program wrote to standard output and to standard error, with LF at the ends of lines.
Outcome RunAtTerminal(const std::vector<std::string>& argv, unsigned short columns);

// The tmprof program of this build, with arguments.
Outcome Tmprof(std::vector<std::string> arguments);
std::string TmprofPath();

// The characters of the longest line of what a program said in UTF-8.
std::size_t LongestLine(const std::string& text);

// A fresh folder, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& contents);

}  // namespace tmprof::test
