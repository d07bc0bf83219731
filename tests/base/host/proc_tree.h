// SPDX-License-Identifier: Apache-2.0
// A directory tree in the shape of /proc, for tests that decide who lives and dies.

#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace tmprof {

struct FakeProcess {
  std::int32_t pid = 0;
  std::int32_t parent = 1;
  std::int32_t session = 6;
  std::string name = "worker";
  char state = 'S';
  std::uint64_t flags = 0;
  std::uint64_t user_ticks = 0;
  std::uint64_t system_ticks = 0;
  std::uint32_t threads = 1;
  std::uint64_t start_time_ticks = 100;
  std::uint64_t virtual_bytes = 8192;  // 0: it has no address space (any more)
  std::uint64_t resident_pages = 10;
  std::int32_t cpu = 0;
  std::string command_line{"worker\0--fast\0", 14};
  std::string maps = "1000-3000 rw-p 00000000 00:00 0 \n";
  std::string executable;              // empty: none that could be read
  std::string cgroup = "0::/\n";       // the kernel's text
  std::uint64_t environment_end = 51;  // its address
};

class ProcTree {
 public:
  ProcTree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tmprof-proc-XXXXXX").string();
    TMPROF_CHECK(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
  }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;
  ~ProcTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path Folder(std::int32_t pid) const { return root_ / std::to_string(pid); }

  void Write(const std::filesystem::path& relative, const std::string& text) const {
    const std::filesystem::path path = root_ / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    TMPROF_CHECK(file.good());
  }

  // Adds or overwrites.
  void Put(const FakeProcess& process) const { Put(process, std::to_string(process.pid)); }
  // A thread, whose number is `thread.pid`.
  void PutThread(std::int32_t process, const FakeProcess& thread) const {
    Put(thread,
        std::filesystem::path(std::to_string(process)) / "task" / std::to_string(thread.pid));
  }
  // Writes them in the kernel's format: numbers, each followed by a space.
  void SetChildren(std::int32_t pid, std::int32_t thread,
                   const std::vector<std::int32_t>& children) const {
    std::string text;
    for (const std::int32_t child : children) text += std::to_string(child) + " ";
    Write(std::filesystem::path(std::to_string(pid)) / "task" / std::to_string(thread) / "children",
          text);
  }

  void Remove(std::int32_t pid) const { std::filesystem::remove_all(Folder(pid)); }

 private:
  // Fields as proc(5) numbers them; those that nobody reads hold their number.
  void Put(const FakeProcess& process, const std::filesystem::path& folder) const {
    const auto n = [](auto number) { return std::to_string(number); };
    const std::string stat =
        n(process.pid) + " (" + process.name + ") " + process.state + " " + n(process.parent) +
        " 5 " + n(process.session) + " 7 -1 " + n(process.flags) + " 10 11 12 13 " +
        n(process.user_ticks) + " " + n(process.system_ticks) + " 16 17 -18 19 " +
        n(process.threads) + " 21 " + n(process.start_time_ticks) + " " + n(process.virtual_bytes) +
        " " + n(process.resident_pages) + " 25 26 27 28 29 30 31 32 33 34 35 36 37 38 " +
        n(process.cpu) + " 40 41 42 43 44 45 46 47 48 49 50 " + n(process.environment_end) +
        " 52\n";
    Write(folder / "stat", stat);
    Write(folder / "cmdline", process.command_line);
    Write(folder / "maps", process.maps);
    Write(folder / "cgroup", process.cgroup);
    std::filesystem::remove(root_ / folder / "exe");
    if (!process.executable.empty()) {
      std::filesystem::create_symlink(process.executable, root_ / folder / "exe");
    }
  }

  std::filesystem::path root_;
};

}  // namespace tmprof
