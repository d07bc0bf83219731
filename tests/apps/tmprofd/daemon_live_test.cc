// SPDX-License-Identifier: Apache-2.0
// The built tmprofd, which observes a program here and moves nothing: what becomes of its ledger
// and of those who ask it when its configuration changes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/control/control_client.h"
#include "proto/ledger_file.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace daemon_live_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kDeadline{30};

bool Await(const std::function<bool()>& holds) {
  for (const auto until = steady_clock::now() + kDeadline; steady_clock::now() < until;) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

class Child {
 public:
  Child(const std::vector<std::string>& argv, const std::string& log) {
    std::vector<char*> words;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) End(SIGKILL);
  }

  pid_t pid() const { return pid_; }
  void Signal(int signal) const { ::kill(pid_, signal); }
  // Its exit status, or 128 + signal.
  int End(int signal) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// A port of the loopback interface that somebody has.
class TakenPort {
 public:
  TakenPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_.get(), 1), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

std::size_t EpochsOf(const std::string& ledger) {
  auto reader = LedgerReader::Open(ledger);
  if (!reader) return 0;
  std::size_t epochs = 0;
  for (LedgerEpoch epoch; reader->Next(epoch).value_or(false);) ++epochs;
  return epochs;
}

class DaemonLiveTest : public ::testing::Test {
 protected:
  static constexpr const char* kByCommand = "command: \"tmprofd-gups\"";

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "placing takes root";
    StartTarget();
    Configure(kByCommand, "track_only: true");
    StartDaemon();
  }

  void StartTarget() {
    const std::filesystem::path programs = std::filesystem::path(TmprofPath()).parent_path();
    daemon_path_ = programs / "tmprofd";
    target_path_ = folder_.File("tmprofd-gups");
    std::filesystem::copy_file(programs / "gups", target_path_);
    target_ = std::make_unique<Child>(
        std::vector<std::string>{target_path_, "--footprint", "4MiB", "--duration", "1h"},
        "/dev/null");
  }
  // Node 1 has no pages here; those of the target are on node 0.
  void Configure(const std::string& targets, const std::string& placement,
                 const std::string& tiers = "tier { node: 0 } tier { node: 1 } capacity_mib: 4") {
    WriteFile(config_, "targets { " + targets + " }\ntiers { " + tiers +
                           " }\nprofile { epoch_ms: 100 source: \"clock\" }\nplacement { " +
                           placement + " }\nledger { file: \"" + ledger_ +
                           "\" }\ncontrol { socket: \"" + socket_ + "\" }\n");
  }
  // `by`: a program that executes the rest of its arguments, and its own arguments.
  void StartDaemon(std::vector<std::string> by = {}) {
    by.insert(by.end(), {daemon_path_, "--config", config_});
    daemon_ = std::make_unique<Child>(by, log_);
    ASSERT_TRUE(Await([this] { return EpochsOf(ledger_) >= 2; })) << ReadFile(log_);
  }
  // The names of its targets, until these are all that it has.
  ::testing::AssertionResult AwaitTargets(const std::vector<std::string>& names) {
    std::vector<std::string> now;
    const auto are_those = [&] {
      now.clear();
      const Json targets = Status()["targets"];
      for (const Json& target : targets) now.push_back(target["name"]);
      return now == names;
    };
    if (Await(are_those)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << ::testing::PrintToString(now) << ReadFile(log_);
  }

  Outcome Ctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "ctl");
    arguments.insert(arguments.end(), {"--socket", socket_});
    return Tmprof(arguments);
  }
  Json Status() { return Json::parse(Ctl({"status", "--format", "json"}).out); }

  TemporaryFolder folder_;
  const std::string config_ = folder_.File("config");
  const std::string ledger_ = folder_.File("ledger");
  const std::string socket_ = folder_.File("socket");
  const std::string log_ = folder_.File("log");
  std::string daemon_path_;
  std::string target_path_;
  std::unique_ptr<Child> target_;
  std::unique_ptr<Child> daemon_;
};

TEST_F(DaemonLiveTest, AppliesNewSettingsAndKeepsTheLedgerBefore) {
  const Outcome set = Ctl({"set", "profile.epoch_ms=130"});
  ASSERT_EQ(set.status, 0) << set.err;
  ASSERT_TRUE(Await([this] { return EpochsOf(ledger_ + ".1") >= 2 && EpochsOf(ledger_) >= 1; }));
  EXPECT_TRUE(Status()["refusal"].is_null());
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, RefusesSettingsThatCannotBeInForceAndGoesOn) {
  const TakenPort taken;
  const Outcome set = Ctl({"set", "metrics.listen=" + taken.Address()});
  EXPECT_EQ(set.status, 1);
  EXPECT_THAT(set.err, HasSubstr(taken.Address()));
  EXPECT_THAT(Status()["refusal"].get<std::string>(),
              HasSubstr("goes on by the configuration before"));
  const std::size_t epochs = EpochsOf(ledger_);
  EXPECT_TRUE(Await([&] { return EpochsOf(ledger_) > epochs; }));
  EXPECT_FALSE(std::filesystem::exists(ledger_ + ".1")) << "what was refused has ended a ledger";
  EXPECT_EQ(Ctl({"set", "profile.epoch_ms=130"}).status, 0);
  EXPECT_TRUE(Await([this] { return Status()["refusal"].is_null(); })) << "that is in force";
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, ListsTheHottestPagesOfItsTargetsWithTheirAges) {
  Json hot;
  const auto ask = [&] {
    const Outcome outcome = Ctl({"hot", "--limit", "5", "--format", "json"});
    hot = outcome.status == 0 ? Json::parse(outcome.out) : Json();
    return outcome.status == 0 && !hot["rows"].empty();
  };
  ASSERT_TRUE(Await(ask)) << ReadFile(log_);
  EXPECT_LE(hot["rows"].size(), 5U);
  EXPECT_GE(hot["spans"], hot["rows"].size());
  EXPECT_EQ(hot["rows"][0]["pid"], target_->pid());
  EXPECT_EQ(hot["rows"][0]["name"], "tmprofd-gups");
  EXPECT_TRUE(Await([&] { return ask() && !hot["rows"][0]["age_s"].is_null(); })) << hot;
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

// Epochs are numbered from the first in which its sources observe, and targets from the first that
// was found.
TEST_F(DaemonLiveTest, KeepsItsEvidenceIfSourcesAndTiersStay) {
  ASSERT_TRUE(Await([this] { return !Status()["targets"].empty(); }));
  std::uint64_t index = Status()["epoch"]["index"];
  const Json target = Status()["targets"][0]["id"];
  const auto goes_on = [&](const char* what) {
    EXPECT_TRUE(Await([&] { return Status()["epoch"]["index"] > index + 1; })) << what;
    index = Status()["epoch"]["index"];
    ASSERT_EQ(Status()["targets"].size(), 1U) << what;
    EXPECT_EQ(Status()["targets"][0]["id"], target) << what;
  };
  EXPECT_EQ(Ctl({"set", "mover.most_pages_per_epoch=100", "tiers.capacity_mib=2",
                 "placement.rank_model=sum"})
                .status,
            0);
  goes_on("set");
  daemon_->Signal(SIGHUP);
  goes_on("the file is as it was");
  const std::string file = ReadFile(config_);
  WriteFile(config_,
            "targets { command: \"no-such-program\" }\n" + file.substr(file.find('\n') + 1));
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Await([this] { return Status()["targets"].empty(); })) << ReadFile(log_);
  WriteFile(config_, file);
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Await([this] { return !Status()["targets"].empty(); })) << ReadFile(log_);
  goes_on("it is a target again");
  EXPECT_EQ(Ctl({"set", "profile.max_overhead=0.02"}).status, 0);
  EXPECT_TRUE(Await([&] { return Status()["epoch"]["index"] < index; })) << "sources begin anew";
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, ALedgerThatCannotBeBegunEndsNone) {
  const Outcome set = Ctl({"set", "ledger.file=/proc/nowhere/ledger"});
  EXPECT_EQ(set.status, 1);
  EXPECT_THAT(set.err, HasSubstr("/proc/nowhere/ledger"));
  const std::size_t epochs = EpochsOf(ledger_);
  EXPECT_TRUE(Await([&] { return EpochsOf(ledger_) > epochs; }));
  const std::string other = folder_.File("other-ledger");
  EXPECT_EQ(Ctl({"set", "ledger.file=" + other}).status, 0);
  EXPECT_TRUE(Await([&] { return EpochsOf(other) >= 2; }));
  EXPECT_FALSE(std::filesystem::exists(ledger_ + ".1"));
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, TheStatusSaysThatAFileWasRefusedUntilOneIsTaken) {
  const std::string good = ReadFile(config_);
  WriteFile(config_, "nonsense");
  daemon_->Signal(SIGHUP);
  ASSERT_TRUE(Await([this] { return !Status()["refusal"].is_null(); }));
  EXPECT_THAT(Status()["refusal"].get<std::string>(), HasSubstr(config_ + ":1:"));
  WriteFile(config_, good);
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Await([this] { return Status()["refusal"].is_null(); }));
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, AMovedControlSocketAnswersAndRefusesWhatCannotMove) {
  const Outcome nowhere = Ctl({"set", "control.socket=/proc/nowhere/socket"});
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_TRUE(Await([this] { return !Status()["refusal"].is_null(); })) << "the old one answers on";
  const std::string other = folder_.File("other");
  EXPECT_EQ(Ctl({"set", "control.socket=" + other}).status, 0);
  ASSERT_TRUE(Await([&] { return Tmprof({"ctl", "status", "--socket", other}).status == 0; }))
      << ReadFile(log_);
  EXPECT_FALSE(std::filesystem::exists(socket_));
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

TEST_F(DaemonLiveTest, ASecondDaemonLeavesTheLedgerOfTheFirst) {
  const Outcome second = RunProgram({daemon_path_, "--config", config_});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr("serves it"));
  EXPECT_FALSE(std::filesystem::exists(ledger_ + ".1"));
  const std::size_t epochs = EpochsOf(ledger_);
  EXPECT_TRUE(Await([&] { return EpochsOf(ledger_) > epochs; }));
}

TEST_F(DaemonLiveTest, LogsTheReasonForItsEndAsAnObjectIfTheLogHasObjects) {
  WriteFile(config_, ReadFile(config_) + "log { format: \"json\" }\n");
  const Outcome second = RunProgram({daemon_path_, "--config", config_});
  EXPECT_EQ(second.status, 1);
  std::istringstream lines(second.err);
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(last.is_object()) << line;
  }
  EXPECT_EQ(last.value("level", ""), "error") << second.err;
  EXPECT_THAT(last.value("message", ""), HasSubstr("serves it"));
}

// Issued while sources are opened and closed.
TEST_F(DaemonLiveTest, AnswersForItsStatusWithinATenthOfASecondWhateverItDoes) {
  std::vector<milliseconds> took;
  std::atomic<int> changed = 0;
  std::jthread changes([this, &changed](const std::stop_token& stop) {
    for (int seed = 2; !stop.stop_requested(); ++seed) {
      changed += Ctl({"set", "profile.seed=" + std::to_string(seed)}).status == 0;
    }
  });
  for (int i = 0; i < 40; ++i) {
    const auto asked = steady_clock::now();
    const auto answer = AskDaemon(socket_, {{"command", "status"}}, milliseconds(5000));
    took.push_back(std::chrono::ceil<milliseconds>(steady_clock::now() - asked));
    EXPECT_TRUE(answer) << answer.error().Message();
    std::this_thread::sleep_for(milliseconds(50));
  }
  changes.request_stop();
  changes.join();
  EXPECT_GT(changed, 0);
  // The machine may have other work for a moment, and the daemon may have to wait for a CPU.
  std::ranges::sort(took, std::greater());
  EXPECT_LT(took[2].count(), 100) << "all of 40 but two";
}

// The daemon sees a file in the place of the kernel's setting.
TEST_F(DaemonLiveTest, WarnsWhereTheKernelMovesPagesTooAlsoWhenThatIsTurnedOnLater) {
  if (!std::filesystem::exists("/proc/sys/kernel/numa_balancing")) {
    GTEST_SKIP() << "this kernel does not move pages";
  }
  daemon_->End(SIGTERM);
  std::filesystem::remove(ledger_);
  const std::string setting = folder_.File("numa_balancing");
  WriteFile(setting, "0\n");
  Configure(kByCommand, "dry_run: true");
  StartDaemon({"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
               "mount --bind '" + setting + "' /proc/sys/kernel/numa_balancing && exec \"$@\"",
               "sh"});
  const auto warns = [this] {
    return Status()["warnings"].dump().find("kernel.numa_balancing is 2") != std::string::npos;
  };
  EXPECT_FALSE(warns());
  WriteFile(setting, "2\n");
  EXPECT_TRUE(Await(warns)) << "from the next epoch on";
  WriteFile(setting, "0\n");
  EXPECT_TRUE(Await([&] { return !warns(); }));
  EXPECT_EQ(Ctl({"set", "profile.epoch_ms=60000"}).status, 0);
  std::this_thread::sleep_for(milliseconds(300));  // an epoch of a minute is under way
  WriteFile(setting, "2\n");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Await(warns)) << "when its configuration is read again";
  const std::string log = ReadFile(log_);
  EXPECT_THAT(log, HasSubstr("kernel.numa_balancing is 2"));
  EXPECT_EQ(Ctl({"set", "placement.dry_run=false", "placement.track_only=true"}).status, 0);
  EXPECT_TRUE(Await([&] { return !warns(); })) << "it moves none itself";
}

TEST_F(DaemonLiveTest, FindsItsTargetsByThePathOfTheirPrograms) {
  ASSERT_TRUE(AwaitTargets({"tmprofd-gups"}));
  Configure("exe: \"" + folder_.path().string() + "/*\"", "track_only: true");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(AwaitTargets({"tmprofd-gups"}));
  Configure("exe: \"/nowhere/*\"", "track_only: true");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(AwaitTargets({}));
}

TEST_F(DaemonLiveTest, FindsItsTargetsByTheirControlGroup) {
  const std::string root = folder_.File("cgroup");
  std::filesystem::create_directory(root);
  if (::mount("none", root.c_str(), "cgroup2", 0, nullptr) != 0) {
    GTEST_SKIP() << "cgroup v2 cannot be mounted: " << std::strerror(errno);
  }
  const std::string name = "/tmprofd-live-" + std::to_string(::getpid());
  const std::string group = root + name;
  std::error_code refused;
  ASSERT_TRUE(std::filesystem::create_directory(group, refused)) << refused.message();
  WriteFile(group + "/cgroup.procs", std::to_string(target_->pid()));
  Configure("cgroup: \"" + name + "-other\"", "track_only: true");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(AwaitTargets({}));
  Configure("cgroup: \"" + name + "\"", "track_only: true");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(AwaitTargets({"tmprofd-gups"}));
  daemon_->End(SIGTERM);
  target_->End(SIGKILL);
  EXPECT_TRUE(std::filesystem::remove(group, refused)) << refused.message();
  EXPECT_EQ(::umount(root.c_str()), 0) << std::strerror(errno);
}

// The target uses a whole CPU, as far as others let it.
TEST_F(DaemonLiveTest, FindsItsTargetsByWhatTheyUse) {
  Configure("min_cpu_share: 0.05", "track_only: true");
  daemon_->Signal(SIGHUP);
  const auto has_it = [this] {
    const Json targets = Status()["targets"];
    return std::ranges::any_of(targets,
                               [](const Json& target) { return target["name"] == "tmprofd-gups"; });
  };
  EXPECT_TRUE(Await(has_it)) << ReadFile(log_);
  target_->Signal(SIGSTOP);
  EXPECT_TRUE(Await([&] { return !has_it(); })) << "it uses nothing any more";
}

// The emulated machine has the nodes for moves to be decided (closed_loop/endure).
TEST_F(DaemonLiveTest, ADryRunFollowsItsTargetsAndTriesNothing) {
  daemon_->End(SIGTERM);
  std::filesystem::remove(ledger_);
  Configure(kByCommand, "dry_run: true",
            "tier { node: 0 } tier { node: 1 } capacity_mib: 1 reserve_mib: 0");
  StartDaemon();
  ASSERT_TRUE(AwaitTargets({"tmprofd-gups"}));
  EXPECT_EQ(Status()["state"], "dry-run");
  ASSERT_TRUE(Await([this] { return Status()["targets"][0]["tracked_pages"].get<int>() > 1000; }));
  EXPECT_TRUE(Status()["totals"]["moved"].empty());
  EXPECT_TRUE(Status()["totals"]["failures"].empty()) << Status()["totals"].dump();
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

// Exactly what tmprofd.service leaves it.
TEST_F(DaemonLiveTest, WorksWithTheCapabilitiesOfItsUnit) {
  daemon_->End(SIGTERM);
  std::filesystem::remove(ledger_);
  std::string kept = "-all";
  std::istringstream unit(ReadFile(TMPROF_SOURCE_DIR "/apps/tmprofd/tmprofd.service.in"));
  constexpr std::string_view kSetting = "CapabilityBoundingSet=";
  for (std::string line; std::getline(unit, line);) {
    if (!line.starts_with(kSetting)) continue;
    std::istringstream names(line.substr(kSetting.size()));
    for (std::string name; names >> name;) {
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      kept += ",+" + name.substr(std::string_view("cap_").size());
    }
  }
  ASSERT_THAT(kept, HasSubstr("+bpf"));
  target_->End(SIGKILL);
  target_ = std::make_unique<Child>(
      std::vector<std::string>{"/usr/bin/setpriv", "--reuid=65534", "--clear-groups", target_path_,
                               "--footprint", "4MiB", "--duration", "1h"},
      "/dev/null");
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  Configure(kByCommand, "track_only: true", "tier { node: 0 } tier { node: 1 } capacity_mib: 4");
  std::string file = ReadFile(config_);
  file.replace(file.find("\"clock\""), 7, "\"clock\" source: \"abit-bpf\"");
  WriteFile(config_, file);
  StartDaemon({"/usr/bin/setpriv", "--bounding-set=" + kept, "--inh-caps=-all", "--no-new-privs"});
  ASSERT_TRUE(AwaitTargets({"tmprofd-gups"}));
  ASSERT_TRUE(Await([this] { return Status()["targets"][0]["tracked_pages"].get<int>() > 1000; }))
      << ReadFile(log_);
  for (const Json& source : Status()["sources"])
    EXPECT_NE(source["state"], "unavailable") << source;
  EXPECT_THAT(ReadFile(log_), ::testing::Not(HasSubstr("numa_maps is read instead")));
  EXPECT_EQ(Status()["decision"]["not_moved"]["binding_unknown"], 0);
  EXPECT_EQ(daemon_->End(SIGTERM), 0) << ReadFile(log_);
}

}  // namespace daemon_live_test
}  // namespace tmprof::test
