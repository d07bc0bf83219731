// SPDX-License-Identifier: Apache-2.0
// `tmprof record --source exact` on programs whose accesses are known by construction.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "proto/trace_file.h"
#include "tests/apps/program.h"
#include "tests/folders.h"

namespace tmprof::test {
namespace exact_cli_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;

std::string Program(const std::string& name) {
  return std::string(TMPROF_BINARY_DIR) + "/tests/" + name;
}

std::string WhyTracingIsRefused() {
  static const std::string reason = [] {
    const Outcome doctor = Tmprof({"doctor", "--format", "json"});
    const Json probes = Json::parse(doctor.out, nullptr, /*allow_exceptions=*/false);
    if (doctor.status != 0 || probes.is_discarded()) return std::string();  // the tests then fail
    for (const Json& probe : probes["sources"]) {
      if (probe["name"] != "exact" || probe["usable"].get<bool>()) continue;
      return probe["detail"].get<std::string>();
    }
    return std::string();
  }();
  return reason;
}

struct Trace {
  std::vector<EpochProfile> epochs;
  bool finished = false;
};

Trace Read(const std::string& path) {
  Trace trace;
  auto reader = TraceReader::Open(path);
  EXPECT_TRUE(reader) << reader.error().Message();
  if (!reader) return trace;
  const StreamEnd end =
      ReadToEnd(*reader, [&](const EpochProfile& epoch) { trace.epochs.push_back(epoch); });
  EXPECT_FALSE(end.damage) << end.damage->Message();
  trace.finished = end.finished == true;
  return trace;
}

// Sums over a whole trace, by pid and page.
std::map<std::pair<int, std::uint64_t>, AccessCounts> Sum(const Trace& trace) {
  std::map<std::pair<int, std::uint64_t>, AccessCounts> sum;
  for (const EpochProfile& epoch : trace.epochs) {
    std::map<TargetId, Pid> pids;
    for (const Target& target : epoch.targets) pids[target.id] = target.pid;
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      const PageRecord record = RecordAt(epoch.pages, i);
      TMPROF_CHECK(record.accesses && record.span == PageCount(1));
      AccessCounts& counts = sum[{pids.at(record.key.target).value(), record.key.vpn.value()}];
      counts.loads += record.accesses->loads;
      counts.stores += record.accesses->stores;
    }
  }
  return sum;
}

// Sums over the 64 pages from `vpn` on, by process, in the order in which these come in the trace.
std::vector<AccessCounts> SumOfArea(const Trace& trace, std::uint64_t vpn) {
  std::map<TargetId, AccessCounts> sums;
  for (const EpochProfile& epoch : trace.epochs) {
    for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
      const PageRecord record = RecordAt(epoch.pages, i);
      if (record.key.vpn < Vpn(vpn) || record.key.vpn >= Vpn(vpn + 64)) continue;
      AccessCounts& sum = sums[record.key.target];
      const auto add = [](std::optional<std::uint64_t>& to, std::optional<std::uint64_t> more) {
        if (more) to = to.value_or(0) + *more;
      };
      sum.loads += record.accesses->loads;
      sum.stores += record.accesses->stores;
      add(sum.llc_misses, record.accesses->llc_misses);
      add(sum.hidden_misses, record.accesses->hidden_misses);
      add(sum.stall_ns, record.accesses->stall_ns);
    }
  }
  std::vector<AccessCounts> in_order;
  for (const auto& [id, sum] : sums) in_order.push_back(sum);
  return in_order;
}

// The loads of one page, by process, ascending.
std::vector<std::uint64_t> LoadsOf(const Trace& trace, std::uint64_t vpn) {
  std::vector<std::uint64_t> loads;
  for (const auto& [key, counts] : Sum(trace))
    if (key.second == vpn) loads.push_back(counts.loads);
  std::ranges::sort(loads);
  return loads;
}

class Exact : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = WhyTracingIsRefused(); !reason.empty())
      GTEST_SKIP() << "exact tracing is refused here: " << reason;
  }

  Outcome Record(std::vector<std::string> options, const std::vector<std::string>& command) {
    options.insert(options.begin(), {"record", "--source", "exact", "-o", trace_});
    options.emplace_back("--");
    options.insert(options.end(), command.begin(), command.end());
    return Tmprof(options);
  }

  // known.c says these.
  static void ExpectKnown(const Trace& trace, std::size_t other_pages = 0) {
    const auto sum = Sum(trace);
    std::size_t known = 0;
    for (const auto& [key, counts] : sum) {
      if (key.second < 0x10000 || key.second >= 0x10008) continue;
      const std::uint64_t i = key.second - 0x10000 + 1;
      EXPECT_EQ(counts.loads, 1000 * i + 3) << "page " << i - 1;
      EXPECT_EQ(counts.stores, 10 * i + 3) << "page " << i - 1;
      ++known;
    }
    EXPECT_EQ(known, 8u);
    if (other_pages == 0) {
      EXPECT_EQ(sum.size(), 8u) << "it accesses no other page";
    }
  }

  TemporaryFolder folder_;
  std::string trace_ = folder_.File("exact.data");
};

TEST_F(Exact, CountsEachLoadAndStoreOfAKnownProgram) {
  const Outcome outcome = Record({}, {Program("exact_known")});
  EXPECT_EQ(outcome.status, 7) << "the program's own status: " << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  ExpectKnown(trace);
  ASSERT_FALSE(trace.epochs.empty());
  const EpochProfile& last = trace.epochs.back();
  ASSERT_EQ(last.sources.size(), 1u);
  EXPECT_EQ(last.sources[0].name, "exact");
  EXPECT_EQ(last.sources[0].role, SourceRole::kTruth);
  EXPECT_EQ(last.sources[0].lost, 0u);
  ASSERT_EQ(last.targets.size(), 1u);
  EXPECT_EQ(last.targets[0].name, "exact_known");
  EXPECT_EQ(last.targets[0].command, Program("exact_known"));
  EXPECT_NE(FindMapping(last.targets[0], Vpn(0x10003)), nullptr);
}

TEST_F(Exact, EpochsByInstructionsAreTheSameInEachRun) {
  std::vector<Trace> runs;
  for (int run = 0; run < 2; ++run) {
    const Outcome outcome = Record({"--epoch-instructions", "20000"}, {Program("exact_known")});
    ASSERT_EQ(outcome.status, 7) << outcome.err;
    runs.push_back(Read(trace_));
    ExpectKnown(runs.back());
  }
  // 3 x 36 000 instructions for the loads alone.
  ASSERT_GE(runs[0].epochs.size(), 5u);
  ASSERT_EQ(runs[0].epochs.size(), runs[1].epochs.size());
  for (std::size_t i = 0; i < runs[0].epochs.size(); ++i) {
    EXPECT_EQ(runs[0].epochs[i].pages, runs[1].epochs[i].pages) << "epoch " << i;
    EXPECT_EQ(runs[0].epochs[i].sources, runs[1].epochs[i].sources) << "epoch " << i;
  }
}

TEST_F(Exact, AModelledCacheMissesOnceForEachLineThatFits) {
  const Outcome outcome = Record({"--exact-llc", "1MiB"}, {Program("exact_known")});
  ASSERT_EQ(outcome.status, 7) << outcome.err;
  const Trace trace = Read(trace_);
  ExpectKnown(trace);
  std::map<std::uint64_t, std::uint64_t> misses;
  for (const EpochProfile& epoch : trace.epochs) {
    for (std::size_t i = 0; i < epoch.pages.size(); ++i)
      misses[epoch.pages.vpn[i].value()] += RecordAt(epoch.pages, i).accesses->llc_misses.value();
    EXPECT_THAT(epoch.sources[0].label, HasSubstr("16384 x 64 B, 16 ways, LRU"));
  }
  // The lines at 0, 64, 128 and 4032 of each page.
  for (std::uint64_t vpn = 0x10000; vpn < 0x10008; ++vpn) EXPECT_EQ(misses[vpn], 4u) << vpn;
}

TEST_F(Exact, CountsOfThreadsAddUp) {
  const Outcome outcome = Record({"--epoch", "20ms"}, {Program("exact_many"), "threads"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(4 * 20 * 5000));
  for (std::uint64_t vpn = 0x10001; vpn <= 0x10004; ++vpn)
    EXPECT_THAT(LoadsOf(trace, vpn), ElementsAre(20 * 5000));
}

// A GiB apart: they share a place in the tracer's list of tables that were used last, and are more
// than its index has room for at first.
TEST_F(Exact, PagesFarApartAreToldApart) {
  const Outcome outcome = Record({}, {Program("exact_many"), "sparse"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto sum = Sum(Read(trace_));
  std::map<std::uint64_t, std::uint64_t> loads;
  for (const auto& [key, counts] : sum) loads[key.second] += counts.loads;
  for (std::uint64_t i = 0; i < 700; ++i) {
    const std::uint64_t vpn = 0x100000000 + (i << 18);
    EXPECT_EQ(loads[vpn], 3 * (1 + i % 7) + (i < 2 ? 1000 : 0)) << "page " << i;
  }
}

TEST_F(Exact, EachForkedProcessIsATargetOfItsOwn) {
  const Outcome outcome = Record({}, {Program("exact_many"), "forks"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(LoadsOf(Read(trace_), 0x10000), ElementsAre(1000, 2000, 3000, 6000));
}

// Returns the sum of the instructions that each epoch up to this one has.
std::vector<std::uint64_t> InstructionsUpToEachEpoch(const Trace& trace) {
  std::vector<std::uint64_t> sums;
  for (const EpochProfile& epoch : trace.epochs) {
    EXPECT_EQ(epoch.sources[0].details[0].name, "instructions");
    sums.push_back((sums.empty() ? 0 : sums.back()) + epoch.sources[0].details[0].count);
  }
  return sums;
}

// One process runs at a time: the others wait for it.
TEST_F(Exact, EpochsByInstructionsAreOfAllProcessesTogether) {
  constexpr std::uint64_t kInstructions = 5000;
  const std::vector<std::string> command{"/usr/bin/env", Program("exact_many"), "forks"};
  const Outcome outcome = Record({"--epoch-instructions", std::to_string(kInstructions)}, command);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(1000, 2000, 3000, 6000));
  ASSERT_GE(trace.epochs.size(), 10u);
  std::uint64_t index = 0;
  for (const EpochProfile& epoch : trace.epochs) {
    EXPECT_EQ(epoch.index, index++);
    EXPECT_EQ(epoch.sources[0].note, "");
  }
  // An epoch ends once the processes have reported N instructions since the one before. Accesses
  // that a process had not reported when an epoch ended are of that epoch, and are delivered in a
  // later one.
  const std::vector<std::uint64_t> up_to = InstructionsUpToEachEpoch(trace);
  for (std::size_t i = 0; i + 1 < up_to.size(); ++i)
    EXPECT_GE(up_to[i], (i + 1) * kInstructions) << "in the epochs up to " << i;

  const Outcome whole = Record({"--epoch-instructions", "100000000"}, command);
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(up_to.back(), InstructionsUpToEachEpoch(Read(trace_)).back());
}

// A child has no epochs of its own: its 1000 loads, 3000 instructions, end none of a larger one.
TEST_F(Exact, AForkedProcessDoesNotBeginAnEpoch) {
  const Outcome outcome =
      Record({"--epoch-instructions", "100000000"}, {Program("exact_many"), "forks"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  ASSERT_LE(trace.epochs.size(), 2u) << "the last one is what came after the parent's end";
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(1000, 2000, 3000, 6000));
}

// Its child executes until the waiting parent's stream has grown. A limit ends a failed test only.
TEST_F(Exact, AWaitingProcessEndsItsEpochsWithTheOthers) {
  const std::string stream = folder_.File("stream");
  const Outcome run =
      RunProgram({"timeout", "60", "qemu-x86_64", "-plugin",
                  std::string(TMPROF_BINARY_DIR) + "/tmprof_exact.so,stream=" + stream +
                      ",epoch_instructions=20000",
                  Program("exact_many"), "watched", stream});
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(Exact, ForkedProcessesHitTheLinesOfTheirParentUntilTheyWrite) {
  const Outcome outcome = Record({"--exact-llc", "16MiB"}, {Program("exact_memory"), "inherits"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  // Accesses and misses of each process. The parent writes and reads all of it.
  const auto of_processes = [&](std::uint64_t vpn) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> counts;
    for (const AccessCounts& sum : SumOfArea(trace, vpn))
      counts.emplace_back(sum.loads + sum.stores, sum.llc_misses.value());
    return counts;
  };
  EXPECT_THAT(of_processes(0x20000), UnorderedElementsAre(Pair(8192, 4096), Pair(4096, 0)))
      << "the child reads";
  EXPECT_THAT(of_processes(0x21000), UnorderedElementsAre(Pair(8192, 4096), Pair(4096, 4096)))
      << "the child has pages of its own";
  EXPECT_THAT(of_processes(0x22000), UnorderedElementsAre(Pair(8192, 4096), Pair(8192, 0)))
      << "the memory is shared, whoever writes";
}

TEST_F(Exact, ProgramsThatMapOneFileHitEachOthersLines) {
  const std::string file = folder_.File("mapped");
  WriteFile(file, std::string(64 * 4096, 'x'));
  const Outcome outcome = Record({"--exact-llc", "16MiB"}, {Program("exact_memory"), "file", file});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  const auto first = SumOfArea(trace, 0x22000);
  const auto again = SumOfArea(trace, 0x23000);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(first[0].loads, 4096u);
  EXPECT_EQ(first[0].llc_misses, 4096u);
  EXPECT_EQ(again[0].loads, 4096u);
  EXPECT_EQ(again[0].llc_misses, 0u);
}

// 64 pages, of which the LLC holds a half and an L2 all.
TEST_F(Exact, EachThreadHasAnL2BeforeTheLlc) {
  std::vector<std::uint64_t> misses;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--exact-l2", "1MiB"}}) {
    std::vector<std::string> options{"--exact-llc", "128KiB"};
    options.insert(options.end(), more.begin(), more.end());
    const Outcome outcome = Record(options, {Program("exact_memory"), "rounds"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Trace trace = Read(trace_);
    const auto sums = SumOfArea(trace, 0x20000);
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_EQ(sums[0].loads, 5u * 4096);
    misses.push_back(sums[0].llc_misses.value());
    const bool tells =
        trace.epochs[0].sources[0].label.find("L2: 16384 x 64 B") != std::string::npos;
    EXPECT_EQ(tells, !more.empty()) << trace.epochs[0].sources[0].label;
  }
  EXPECT_THAT(misses, ElementsAre(5 * 4096, 2 * 4096)) << "of five rounds; one thread's first each";
}

TEST_F(Exact, StallsTellChainsFromScatteredAndPrefetchedLoads) {
  constexpr std::uint64_t kLines = 4096;
  std::map<std::string, AccessCounts> of;
  for (const std::string mode : {"chase", "scattered", "stream"}) {
    const Outcome outcome =
        Record({"--exact-llc", "16MiB", "--exact-prefetch", "16", "--exact-stalls", "100ns"},
               {Program("exact_memory"), mode});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto sums = SumOfArea(Read(trace_), 0x24000);
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_EQ(sums[0].llc_misses, kLines) << mode << ": hidden misses are misses";
    of[mode] = sums[0];
  }
  // The group that a program begins or ends with may have other lines, too.
  EXPECT_NEAR(static_cast<double>(*of["chase"].stall_ns), 100 * kLines, 200);
  EXPECT_EQ(of["chase"].hidden_misses, 0u);
  EXPECT_NEAR(static_cast<double>(*of["scattered"].stall_ns), 100 * kLines / 16, 200);
  EXPECT_EQ(of["scattered"].hidden_misses, 0u);
  // Three lines of each page are read before it is a stream.
  EXPECT_EQ(of["stream"].hidden_misses, 61u * 64);
  EXPECT_GE(*of["stream"].stall_ns, 100u * 3 * 64 / 16 - 100);
  EXPECT_LE(*of["stream"].stall_ns, 100u * 3 * 64);
}

TEST_F(Exact, ALineThatAStreamAskedForHidesOneMiss) {
  const Outcome outcome = Record({"--exact-llc", "1KiB", "--exact-prefetch", "64"},
                                 {Program("exact_memory"), "strays"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto sums = SumOfArea(Read(trace_), 0x24000);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].llc_misses, 3u * 64);
  EXPECT_EQ(sums[0].hidden_misses, 61u) << "three lines are read before it is a stream";
}

// Pages of which each miss is hidden are read while the program counts. A recording has no epochs
// as short as this.
TEST_F(Exact, EpochsThatEndAmidHiddenMissesLoseNone) {
  constexpr std::uint64_t kRounds = 1'000'000;
  const std::string stream = folder_.File("stream");
  const Outcome run =
      RunProgram({"qemu-x86_64", "-plugin",
                  std::string(TMPROF_BINARY_DIR) + "/tmprof_exact.so,stream=" + stream +
                      ",epoch_ns=1000000,llc_bytes=1024,prefetch_lines=64",
                  Program("exact_memory"), "hides"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Outcome convert = Tmprof({"convert", "--to", "trace", stream, "-o", trace_});
  ASSERT_EQ(convert.status, 0) << convert.err;
  EXPECT_THAT(convert.err, IsEmpty());
  const Trace trace = Read(trace_);
  EXPECT_GT(trace.epochs.size(), 100u);
  const auto sums = SumOfArea(trace, 0x24000);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].loads, 16 * kRounds);
  EXPECT_EQ(sums[0].hidden_misses, 10 * kRounds);
  EXPECT_EQ(sums[0].llc_misses, 10 * kRounds + 6) << "the first three lines of each page";
}

TEST_F(Exact, StallsAndHiddenMissesAreUnknownUnlessModelled) {
  const Outcome outcome = Record({"--exact-llc", "16MiB"}, {Program("exact_memory"), "stream"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto sums = SumOfArea(Read(trace_), 0x24000);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].hidden_misses, std::nullopt);
  EXPECT_EQ(sums[0].stall_ns, std::nullopt);
}

TEST_F(Exact, NonTemporalStoresPassTheCacheByAndTakeTheLineOut) {
  std::map<std::string, AccessCounts> of;
  for (const std::string mode : {"gathers", "fills"}) {
    const Outcome outcome = Record({"--exact-llc", "16MiB"}, {Program("exact_memory"), mode});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto sums = SumOfArea(Read(trace_), 0x20000);
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_EQ(sums[0].loads, 2u * 4096) << mode;
    EXPECT_EQ(sums[0].stores, 8u * 4096) << mode;
    of[mode] = sums[0];
  }
  EXPECT_EQ(of["gathers"].llc_misses, 3u * 4096) << "loads, the stores to a line, and loads again";
  EXPECT_EQ(of["fills"].llc_misses, 4096u);
}

TEST_F(Exact, ALoadEndsTheGatheringOfNonTemporalStores) {
  const Outcome outcome = Record({"--exact-llc", "16MiB"}, {Program("exact_memory"), "renews"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto sums = SumOfArea(Read(trace_), 0x20000);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].loads, 3u * 4096);
  EXPECT_EQ(sums[0].stores, 3u * 4096);
  EXPECT_EQ(sums[0].llc_misses, 3u * 2 * 4096) << "each store and each load";
}

TEST_F(Exact, AProgramWhoseExecFailsIsTracedOn) {
  const Outcome outcome = Record({"--epoch", "20ms"}, {Program("exact_many"), "fails"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(1000 + 20 * 100)) << outcome.err;
  for (const EpochProfile& epoch : trace.epochs) EXPECT_EQ(epoch.sources[0].note, "");
}

// A program in another IPC namespace cannot attach the tracer's memory.
TEST_F(Exact, AProgramWithoutTheTracersMemoryRunsUntracedAndIsNamed) {
  if (RunProgram({"unshare", "--ipc", "true"}).status != 0)
    GTEST_SKIP() << "'unshare --ipc' is refused here";
  for (const auto& [option, value] :
       {std::pair("--exact-llc", "1MiB"), std::pair("--epoch-instructions", "20000")}) {
    SCOPED_TRACE(option);
    const Outcome outcome = Record({option, value}, {"unshare", "--ipc", Program("exact_known")});
    EXPECT_EQ(outcome.status, 7) << "the program's own status: " << outcome.err;
    const Trace trace = Read(trace_);
    EXPECT_TRUE(trace.finished);
    EXPECT_THAT(LoadsOf(trace, 0x10000), IsEmpty());
    std::string notes;
    for (const EpochProfile& epoch : trace.epochs) notes += epoch.sources[0].note;
    EXPECT_THAT(notes, HasSubstr("runs where the tracer's shared memory is not to be had"));
  }
}

TEST_F(Exact, ExecutedProgramsAndScriptsAreFollowed) {
  const std::string script = folder_.File("script");
  WriteFile(script,
            "#!/bin/sh -e\ntest \"$1\" = 'a b'\n" + Program("exact_known") + " || exit $?\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Outcome outcome = Record({}, {"/usr/bin/env", script, "a b"});
  EXPECT_EQ(outcome.status, 7) << outcome.err;
  const Trace trace = Read(trace_);
  ExpectKnown(trace, 1);
  std::set<std::string> names;
  for (const EpochProfile& epoch : trace.epochs)
    for (const Target& target : epoch.targets) names.insert(target.name);
  EXPECT_TRUE(names.contains("exact_known")) << ::testing::PrintToString(names);
}

TEST_F(Exact, AProgramThatDiesOfASignalLosesNothing) {
  const Outcome outcome = Record({"--epoch", "100s"}, {Program("exact_many"), "crash"});
  EXPECT_EQ(outcome.status, 128 + SIGSEGV) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(4000));
}

TEST_F(Exact, NamesAKilledProcessWhoseLossIsUnknown) {
  const Outcome outcome = Record({"--epoch", "100s"}, {Program("exact_many"), "killed"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(2000));
  std::string notes;
  for (const EpochProfile& epoch : trace.epochs) {
    if (!epoch.sources[0].lost) notes += epoch.sources[0].note;
  }
  EXPECT_THAT(notes, HasSubstr("(" + Program("exact_many") + " killed) ended its stream early"));
}

// The cache has one set, whose lock some of the killed processes hold. If the test fails, the limit
// of CPU time ends those that wait for it.
TEST_F(Exact, AKilledProcessHoldsNobodyUp) {
  const Outcome outcome = RunProgram(
      {TmprofPath(), "record", "-q", "--source", "exact", "--epoch-instructions", "200000",
       "--exact-llc", "1KiB", "-o", trace_, "--", Program("exact_memory"), "kills"},
      [] {
        const rlimit limit{.rlim_cur = 60, .rlim_max = 60};
        setrlimit(RLIMIT_CPU, &limit);
      });
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  std::vector<std::uint64_t> loads;
  for (const AccessCounts& sum : SumOfArea(trace, 0x20000)) loads.push_back(sum.loads);
  EXPECT_THAT(loads, ::testing::Contains(200u * 4096)) << "the parent's";
}

TEST_F(Exact, ProcessesThatOutliveTheCommandAreCountedToTheirEnd) {
  const Outcome outcome = Record({"--epoch", "100s"}, {Program("exact_many"), "orphan"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  EXPECT_THAT(LoadsOf(trace, 0x10000), ElementsAre(1000, 2000 + 3000));
  for (const EpochProfile& epoch : trace.epochs) EXPECT_EQ(epoch.sources[0].lost, 0u);
}

TEST_F(Exact, AnInterruptEndsARecordingWhoseCommandHasLeftProcessesBehind) {
  const std::string fifo = folder_.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Outcome outcome = Record({}, {Program("exact_many"), "survivor", fifo});
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_TRUE(Read(trace_).finished);
  // Ends the survivor; there is one, as opening the FIFO waits for its reader.
  EXPECT_EQ(RunProgram({"timeout", "600", "sh", "-c", "echo >" + fifo}).status, 0);
}

TEST_F(Exact, ACrashingProgramsTraceIsFinishedAndItsSignalPassedOn) {
  const Outcome outcome = Record({"--epoch", "20ms"}, {"sh", "-c", "kill -SEGV $$"});
  EXPECT_EQ(outcome.status, 128 + SIGSEGV) << outcome.err;
  EXPECT_TRUE(Read(trace_).finished);
}

TEST_F(Exact, TheTraceIsReadAsTruthByReportEvalAndScore) {
  ASSERT_EQ(Record({}, {Program("exact_known")}).status, 7);
  const Outcome report = Tmprof({"report", trace_, "--view", "hot", "--by", "truth"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("0x10007000"));
  const Outcome eval = Tmprof({"eval", trace_, "--judge", "truth", "--rank", "truth", "--policy",
                               "oracle", "--ratio", "1/8", "--format", "json"});
  ASSERT_EQ(eval.status, 0) << eval.err;
  const Json results = Json::parse(eval.out)["results"];
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0]["capacity_pages"], 1);
  // 1000 * 36 loads, 10 * 36 stores and 6 * 8 of read-modify-writes.
  EXPECT_EQ(results[0]["weight_total"], 36408.0);
  const Outcome by_default =
      Tmprof({"eval", trace_, "--policy", "oracle", "--ratio", "1/8", "--format", "json"});
  EXPECT_EQ(Json::parse(by_default.out)["results"], results) << by_default.err;
  const Outcome score = Tmprof({"score", trace_, "--truth", trace_, "--format", "json"});
  ASSERT_EQ(score.status, 0) << score.err;
  // Nobody but the truth has seen anything.
  EXPECT_EQ(Json::parse(score.out)["results"][2]["recall"], 0.0) << score.out;
  EXPECT_TRUE(Json::parse(score.out)["results"][2]["spearman_rho"].is_null()) << score.out;
}

TEST_F(Exact, MissesAreRefusedEverywhereUnlessACacheWasModelled) {
  const std::vector<std::vector<std::string>> commands = {
      {"report", trace_, "--view", "hot", "--by", "misses"},
      {"eval", trace_, "--judge", "misses"},
      {"eval", trace_, "--rank", "misses"},
      {"score", trace_, "--truth", trace_, "--by", "misses"}};
  ASSERT_EQ(Record({}, {Program("exact_known")}).status, 7);
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 2) << command[0] << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr("--exact-llc"));
  }
  ASSERT_EQ(Record({"--exact-llc", "1MiB"}, {Program("exact_known")}).status, 7);
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = Tmprof(command);
    EXPECT_EQ(outcome.status, 0) << command[0] << outcome.err;
  }
}

// The plugin writes such a file without a recorder, like the virtual machine's plugin.
TEST_F(Exact, AStreamInAFileBecomesATraceOrIsPutBesideARecording) {
  const std::string stream = folder_.File("stream");
  const Outcome run = RunProgram({"qemu-x86_64", "-plugin",
                                  std::string(TMPROF_BINARY_DIR) +
                                      "/tmprof_exact.so,stream=" + stream + ",epoch_ns=1000000000",
                                  Program("exact_known")});
  ASSERT_EQ(run.status, 7) << run.err;
  const Outcome convert = Tmprof({"convert", "--to", "trace", stream, "-o", trace_});
  ASSERT_EQ(convert.status, 0) << convert.err;
  EXPECT_THAT(convert.err, IsEmpty());
  const Trace trace = Read(trace_);
  EXPECT_TRUE(trace.finished);
  ExpectKnown(trace);

  // Beside itself, each access stands twice.
  const std::string merged = folder_.File("merged.data");
  const Outcome beside =
      Tmprof({"convert", "--to", "trace", stream, "--beside", trace_, "-o", merged});
  ASSERT_EQ(beside.status, 0) << beside.err;
  EXPECT_THAT(beside.err, IsEmpty());
  EXPECT_THAT(LoadsOf(Read(merged), 0x10000), ElementsAre(2 * 1003));

  // Cut in its last record, the end of the stream.
  const std::string bytes = ReadFile(stream);
  WriteFile(stream, bytes.substr(0, bytes.size() - 8));
  const Outcome cut = Tmprof({"convert", "--to", "trace", stream, "-o", trace_});
  EXPECT_EQ(cut.status, 0);
  EXPECT_THAT(cut.err, HasSubstr("was cut"));
  ExpectKnown(Read(trace_));
}

TEST_F(Exact, EachProcessAndExecutedProgramHasAStreamFileOfItsOwn) {
  // A comma, which QEMU's options double.
  const std::string stream = folder_.File("a,,stream");
  const Outcome run = RunProgram({"qemu-x86_64", "-plugin",
                                  std::string(TMPROF_BINARY_DIR) +
                                      "/tmprof_exact.so,stream=" + stream + ",epoch_ns=1000000000",
                                  Program("exact_many"), "execs"});
  ASSERT_EQ(run.status, 0) << run.err;
  std::vector<std::string> streams;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    streams.push_back(file.path().string());
  std::vector<std::uint64_t> loads;
  for (const std::string& file : streams) {
    const Outcome convert = Tmprof({"convert", "--to", "trace", file, "-o", trace_});
    ASSERT_EQ(convert.status, 0) << convert.err;
    EXPECT_THAT(convert.err, IsEmpty()) << file;
    EXPECT_THAT(file, HasSubstr("a,stream"));
    for (const std::uint64_t count : LoadsOf(Read(trace_), 0x10000)) loads.push_back(count);
  }
  std::ranges::sort(loads);
  EXPECT_THAT(loads, ElementsAre(1000, 2000, 3000, 3000));
}

TEST_F(Exact, LoaderVariablesAreTheProgramsAndNotQemus) {
  // /proc/PID/environ is QEMU's, as it was started.
  const std::string kLook =
      "test \"$LD_LIBRARY_PATH\" = /nowhere || exit 1; "
      "tr '\\0' '\\n' </proc/$$/environ | grep -q ^LD_ && exit 2; ";
  const std::string script = folder_.File("script");
  WriteFile(script, kLook + "exit 5\n");
  const Outcome outcome = RunProgram({TmprofPath(), "record", "-q", "--source", "exact", "-o",
                                      trace_, "--", "sh", "-c", kLook + "exec sh " + script},
                                     [] { setenv("LD_LIBRARY_PATH", "/nowhere", 1); });
  EXPECT_EQ(outcome.status, 5) << outcome.err;
}

TEST_F(Exact, AKilledRecorderLeavesWholeEpochsAndTheProgramAlone) {
  // The program waits to be told to end, and says that it does. A limit ends a failed test only.
  const std::string stop = folder_.File("stop");
  const std::string done = folder_.File("done");
  for (const std::string& fifo : {stop, done}) ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string script = TmprofPath() + " record -q --source exact --epoch 50ms -o " + trace_ +
                             " -- sh -c 'read line <" + stop + "; echo ran >" + done +
                             "' & recorder=$!\n" +
                             // More than the header of a trace: some epochs.
                             "until [ $(stat -c %s " + trace_ +
                             " 2>/dev/null || echo 0) -gt 3000 ]; do sleep 0.1; done\n" +
                             "kill -KILL $recorder; wait $recorder\n" + "echo stop >" + stop +
                             "\n[ \"$(cat " + done + ")\" = ran ]";
  const Outcome outcome = RunProgram({"timeout", "600", "bash", "-c", script});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Trace trace = Read(trace_);
  EXPECT_FALSE(trace.finished);
  EXPECT_FALSE(trace.epochs.empty());
}

TEST_F(Exact, OtherSourcesAndRunningProgramsAreRefused) {
  const Outcome both = Tmprof({"record", "--source", "exact,clock", "--", "true"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("no other source with it"));
  const Outcome running = Tmprof({"record", "--source", "exact", "-p", "1"});
  EXPECT_EQ(running.status, 2);
  EXPECT_THAT(running.err, HasSubstr("tmprof record --source exact PROGRAM"));
  const Outcome alone = Tmprof({"record", "--exact-llc", "1MiB", "--", "true"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("it is for --source exact"));
  for (const auto& [size, reason] :
       {std::pair("3MiB", "its size is no power of two"), std::pair("512B", "it is too small"),
        std::pair("1TiB", "it is too large")}) {
    const Outcome odd = Record({"--exact-llc", size}, {"true"});
    EXPECT_EQ(odd.status, 2) << size;
    EXPECT_THAT(odd.err, HasSubstr(reason)) << size;
  }
  for (const auto& [option, value] :
       {std::pair("--exact-l2", "1MiB"), std::pair("--exact-prefetch", "16"),
        std::pair("--exact-stalls", "100ns")}) {
    const Outcome without_llc = Record({option, value}, {"true"});
    EXPECT_EQ(without_llc.status, 2) << option;
    EXPECT_THAT(without_llc.err, HasSubstr("--exact-llc SIZE"));
    EXPECT_EQ(Tmprof({"record", option, value, "--", "true"}).status, 2) << option;
  }
  for (const auto& [option, value] :
       {std::pair("--exact-l2", "3MiB"), std::pair("--exact-l2", "128MiB"),
        std::pair("--exact-prefetch", "65"), std::pair("--exact-stalls", "2s")})
    EXPECT_EQ(Record({"--exact-llc", "1MiB", option, value}, {"true"}).status, 2) << option;
  EXPECT_THAT(Record({"--exact-llc", "1MiB", "--exact-stalls", "0ns"}, {"true"}).err,
              HasSubstr("memory without a latency stalls nobody"));
}

TEST_F(Exact, ProgramsThatCannotBeExecutedHaveAShellsStatusAndLeaveNoTrace) {
  EXPECT_EQ(Record({}, {folder_.File("missing")}).status, 127);
  WriteFile(folder_.File("text"), "no program\n");
  EXPECT_EQ(Record({}, {folder_.File("text")}).status, 126);
  EXPECT_FALSE(std::filesystem::exists(trace_));
}

TEST(ExactWithoutQemu, DoctorAndRecordSayWhatToInstall) {
  TemporaryFolder folder;
  const auto hide = [] { setenv("PATH", "/nonexistent", 1); };
  const Outcome record = RunProgram(
      {TmprofPath(), "record", "--source", "exact", "-o", folder.File("x"), "--", "/bin/true"},
      hide);
  EXPECT_EQ(record.status, 1);
  EXPECT_THAT(record.err, HasSubstr("apt-get install qemu-user"));
  const Outcome doctor = RunProgram({TmprofPath(), "doctor", "--format", "json"}, hide);
  const Json probes = Json::parse(doctor.out);
  for (const Json& probe : probes["sources"]) {
    if (probe["name"] != "exact") continue;
    EXPECT_EQ(probe["usable"], false);
    EXPECT_THAT(probe["fix"].get<std::string>(), HasSubstr("apt-get install qemu-user"));
  }
}

}  // namespace exact_cli_test
}  // namespace tmprof::test
