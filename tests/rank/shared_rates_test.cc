// SPDX-License-Identifier: Apache-2.0
// Pages that several processes map are estimated once, by what is known of all of them.

#include "rank/shared_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "rank/rank_model.h"
#include "rank/shared_spans.h"
#include "rank/total_ranker.h"
#include "tests/rank/profiles.h"
#include "tests/rank/shared_memory.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace shared_rates_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kPages = 4096;
constexpr Ranker::Options kRemembering{.model = RankModel::kRate,
                                       .memory = Ranker::Memory::kHalfLife,
                                       .half_life = std::chrono::seconds(6)};

// A process that maps the file at an address of its own.
struct Process {
  std::uint32_t id = 0;
  double activity = 1;      // relative rate of its accesses, beside other processes
  double cpu_seconds = 1;   // in an epoch
  bool is_observed = true;  // its accessed bits are read
  int exits_at = 99;        // the first epoch that does not list it
  std::uint64_t address() const { return 10'000 * (id + 1); }
};

simulation::Rates Scaled(simulation::Rates rates, double factor) {
  for (double& rate : rates) rate *= factor;
  return rates;
}

// `visited` is the part of the blocks that each epoch visits of each process.
std::vector<EpochProfile> Record(const simulation::Rates& heat,
                                 const std::vector<Process>& processes, int epochs,
                                 double visited) {
  std::vector<EpochProfile> recorded;
  for (int e = 0; e < epochs; ++e) {
    EpochProfile epoch = Epoch(static_cast<std::uint64_t>(e), {});
    for (const Process& process : processes) {
      if (e >= process.exits_at) continue;
      Target target = Maps(process.id, {Shared(process.address(), kPages)});
      target.cpu_time = nanoseconds(static_cast<std::int64_t>(1e9 * process.cpu_seconds));
      epoch.targets.push_back(target);
      if (!process.is_observed) continue;
      const simulation::Observation seen = simulation::Observe(
          Scaled(heat, process.activity), {.visited = visited, .stop_at_half = false},
          static_cast<std::uint32_t>(100 * e) + process.id);
      const EpochProfile alone = simulation::ToEpoch(seen, e);
      for (std::size_t i = 0; i < alone.pages.size(); ++i) {
        PageRecord record = RecordAt(alone.pages, i);
        record.key = Key(process.id, process.address() + record.key.vpn.value());
        Append(epoch.pages, record);
      }
    }
    recorded.push_back(std::move(epoch));
  }
  return recorded;
}

// Estimates of all pages, by page of the file, and of each process.
struct Told {
  std::vector<double> of_page = std::vector<double>(kPages);
  std::map<std::uint32_t, double> of_process;
  double all = 0;
};

Told Tell(const std::vector<EpochProfile>& epochs) {
  TotalRanker ranker(RankModel::kRate);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  const Scores scores = ranker.Score(RankSource::kCombined);
  Told told;
  for (std::size_t row = 0; row < scores.size(); ++row) {
    const PageKey key = ranker.table().key[row];
    told.of_page[key.vpn.value() % 10'000] += scores[row];
    told.of_process[key.target.value()] += scores[row];
    told.all += scores[row];
  }
  return told;
}

double RecallOf(const simulation::Rates& heat, const Told& told) {
  simulation::Observation all{.evidence = std::vector<RateEvidence>(kPages),
                              .references = std::vector<double>(kPages)};
  for (RateEvidence& page : all.evidence) page.seconds_at_risk = 1;
  return simulation::Judge(heat, all, told.of_page).recall_sixteenth;
}

double Sum(const simulation::Rates& rates) {
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

// Two processes with the same evidence are worth as much as one with twice the evidence and CPU
// time.
TEST(SharedPages, AreEstimatedFromTwoLikeProcessesAsFromOneThatDidAllOfIt) {
  const auto visits = [](std::uint32_t target, std::uint64_t address, std::uint32_t times) {
    std::vector<PageRecord> records;
    for (std::uint64_t page = 0; page < 8; ++page) {
      PageRecord record = Visited(address + page, 2 * times, milliseconds(1 << page) * times);
      record.key.target = TargetId(target);
      records.push_back(record);
    }
    return records;
  };
  const auto add = [](EpochProfile& epoch, const std::vector<PageRecord>& records,
                      std::uint32_t target, std::uint64_t address, int cpu_seconds) {
    for (const PageRecord& record : records) Append(epoch.pages, record);
    Target process = Maps(target, {Shared(address, 8)});
    process.cpu_time = std::chrono::seconds(cpu_seconds);
    epoch.targets.push_back(process);
  };
  EpochProfile two = Epoch(0, {});
  add(two, visits(0, 100, 1), 0, 100, 1);
  add(two, visits(1, 200, 1), 1, 200, 1);
  EpochProfile one = Epoch(0, {});
  add(one, visits(0, 100, 2), 0, 100, 2);
  TotalRanker of_two(RankModel::kRate);
  of_two.Absorb(two);
  TotalRanker of_one(RankModel::kRate);
  of_one.Absorb(one);
  const Estimates joined = of_two.Estimate(RankSource::kCombined);
  const Estimates plain = of_one.Estimate(RankSource::kCombined);
  // 2 x 8 x 2 accesses and the 2 that are assumed are one process's or the other's.
  const double of_share = std::sqrt(1.0 / (2 * 8 * 2 + 2));
  for (std::size_t page = 0; page < 8; ++page) {
    EXPECT_DOUBLE_EQ(joined.score[page], joined.score[8 + page]);
    EXPECT_NEAR(joined.score[page] + joined.score[8 + page], plain.score[page],
                plain.score[page] / 20)
        << "times are stored to 2 %";
    EXPECT_NEAR(joined.relative_sd[page], std::hypot(plain.relative_sd[page], of_share), 0.02);
    EXPECT_NEAR(joined.relative_sd_of_page[page], plain.relative_sd[page], 0.02);
  }
}

TEST(SharedPages, AreEstimatedAsAnyPagesWithASingleMapper) {
  const simulation::Rates heat = simulation::Zipf(kPages, 1e6);
  std::vector<EpochProfile> epochs = Record(heat, {{.id = 0}}, 2, 1);
  const Told shared = Tell(epochs);
  for (EpochProfile& epoch : epochs) {
    for (Target& target : epoch.targets) target.mappings[0].kind = MappingKind::kAnonymous;
  }
  EXPECT_EQ(shared.of_page, Tell(epochs).of_page);
}

// Returns the epochs with the mappings of all processes at one address.
std::vector<EpochProfile> AtOneAddress(std::vector<EpochProfile> epochs) {
  for (EpochProfile& epoch : epochs) {
    for (Target& target : epoch.targets) target.mappings = {Shared(0, kPages)};
    for (Vpn& vpn : epoch.pages.vpn) vpn = Vpn(vpn.value() % 10'000);
  }
  return epochs;
}

// Returns the epochs with private memory instead of the file. Pages that `is_joined` holds for are
// those of a fork.
template <typename IsJoined>
std::vector<EpochProfile> AfterFork(std::vector<EpochProfile> epochs, IsJoined is_joined) {
  for (EpochProfile& epoch : epochs) {
    for (Target& target : epoch.targets) target.mappings[0].kind = MappingKind::kAnonymous;
    std::map<Vpn, std::uint32_t> first_of;
    std::vector<std::uint32_t> same_as;
    for (std::uint32_t i = 0; i < epoch.pages.size(); ++i) {
      const Vpn page = epoch.pages.vpn[i];
      same_as.push_back(is_joined(epoch.index, page) ? first_of.try_emplace(page, i).first->second
                                                     : i);
    }
    epoch.pages.same_as = same_as;
  }
  return epochs;
}

TEST(SharedPages, AreEstimatedAlikeAfterAForkAndInAFile) {
  const simulation::Rates heat = simulation::Zipf(kPages, 1e5);
  const std::vector<EpochProfile> file =
      AtOneAddress(Record(heat, {{.id = 0}, {.id = 1, .activity = 0.4}}, 3, 1));
  const std::vector<EpochProfile> forked = AfterFork(file, [](std::uint64_t, Vpn) { return true; });
  EXPECT_EQ(Tell(forked).of_process, Tell(file).of_process);
  EXPECT_EQ(Tell(forked).of_page, Tell(file).of_page);
  Ranker of_file(Ranker::DefaultOptions(RankModel::kRate));
  Ranker of_fork(Ranker::DefaultOptions(RankModel::kRate));
  for (std::size_t e = 0; e < file.size(); ++e) {
    of_file.Absorb(file[e]);
    of_fork.Absorb(forked[e]);
    ASSERT_EQ(of_fork.Score(RankSource::kCombined), of_file.Score(RankSource::kCombined)) << e;
  }
}

// Pages are copied one after the other, and the looks at both do not always meet.
TEST(SharedPages, KeepTheirAccessesAsWritesCopyThem) {
  const simulation::Rates heat = simulation::Zipf(kPages, 1e5);
  const std::vector<EpochProfile> epochs =
      AfterFork(AtOneAddress(Record(heat, {{.id = 0}, {.id = 1}, {.id = 2}}, 8, 0.7)),
                [](std::uint64_t epoch, Vpn page) { return page.value() % 7 > epoch; });
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  for (const EpochProfile& epoch : epochs) {
    ranker.Absorb(epoch);
    double truth = 0;
    for (const PageKey key : ranker.table().key) truth += heat[key.vpn.value()];
    // One look at a page says little of the fastest: 0.78 of all accesses are told after one epoch.
    const double most_off = epoch.index == 0 ? truth / 3 : truth / 5;
    ASSERT_NEAR(Sum(ranker.Score(RankSource::kCombined)), truth, most_off) << epoch.index;
  }
}

// Pages have so much more recall by eight mappers than by one.
double GainOfMappers(const simulation::Rates& heat, int epochs, double visited,
                     Told (*tell)(const std::vector<EpochProfile>&)) {
  std::vector<Process> processes;
  for (std::uint32_t id = 0; id < 8; ++id) processes.push_back({.id = id});
  const double alone = RecallOf(heat, tell(Record(heat, {{.id = 0}}, epochs, visited)));
  return RecallOf(heat, tell(Record(heat, processes, epochs, visited))) - alone;
}

// Each of eight processes is looked at once.
TEST(SharedPages, AreRankedBetterByAllMappersThanByOne) {
  EXPECT_GT(GainOfMappers(simulation::Zipf(kPages, 5e5), 1, 1, Tell), 0.1);
}

// A hot set's rates are all known well.
TEST(SharedPages, HaveTheAccessesOfProcessesOfUnequalActivity) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  const std::vector<Process> processes = {{.id = 0, .activity = 1},
                                          {.id = 1, .activity = 0.1},
                                          {.id = 2, .activity = 4, .cpu_seconds = 0.5}};
  const Told told = Tell(Record(heat, processes, 4, 1));
  double truth = 0;
  for (const Process& process : processes) {
    truth += process.activity * process.cpu_seconds;
  }
  for (const Process& process : processes) {
    const double part = process.activity * process.cpu_seconds / truth;
    EXPECT_NEAR(told.of_process.at(process.id) / told.all, part, part / 20) << process.id;
  }
  EXPECT_NEAR(told.all, 4 * truth * Sum(heat), 0.05 * 4 * truth * Sum(heat));
}

// A mapper with a hundredth of the accesses is evidence about pages that it was watched on for
// long. By time at risk alone these would look cold.
TEST(SharedPages, AreNotTakenForColdWhereAnIdleProcessWasWatchedLonger) {
  const simulation::Rates heat = simulation::Zipf(kPages, 5e5);
  const std::vector<Process> busy = {{.id = 0}, {.id = 1}};
  std::vector<Process> with_idle = busy;
  with_idle.push_back({.id = 2, .activity = 0.01});
  const double recall = RecallOf(heat, Tell(Record(heat, busy, 2, 1)));
  EXPECT_GT(RecallOf(heat, Tell(Record(heat, with_idle, 2, 1))), recall - 0.05);
}

TEST(SharedPages, KeepTheAccessesOfAProcessThatExited) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  const std::vector<Process> processes = {{.id = 0}, {.id = 1, .exits_at = 2}};
  const Told told = Tell(Record(heat, processes, 4, 1));
  EXPECT_NEAR(told.of_process.at(1) / told.of_process.at(0), 0.5, 0.02);
  EXPECT_NEAR(told.of_process.at(0), 4 * Sum(heat), 0.05 * 4 * Sum(heat));
}

// It has as many accesses as the average of the others, by its CPU time.
TEST(SharedPages, CountAProcessThatWasNeverObservedAsTheAverage) {
  const simulation::Rates heat = simulation::Zipf(kPages, 2e4);
  const std::vector<Process> observed = {{.id = 0}, {.id = 1}};
  std::vector<Process> all = observed;
  all.push_back({.id = 2, .cpu_seconds = 3, .is_observed = false});
  const std::vector<EpochProfile> epochs = Record(heat, all, 2, 1);
  const Told told = Tell(epochs);
  const Told of_observed = Tell(Record(heat, observed, 2, 1));
  EXPECT_NEAR(told.all / of_observed.all, 5.0 / 2, 0.05);
  TotalRanker with_all(RankModel::kRate);
  TotalRanker without(RankModel::kRate);
  for (const EpochProfile& epoch : epochs) with_all.Absorb(epoch);
  for (const EpochProfile& epoch : Record(heat, observed, 2, 1)) without.Absorb(epoch);
  EXPECT_GT(with_all.Estimate(RankSource::kCombined).relative_sd[0],
            without.Estimate(RankSource::kCombined).relative_sd[0] + 0.1);
}

// The second process has no record of the file, but one of another page in the same page table: it
// was looked at, and shows none of the file.
TEST(SharedPages, HaveNoAccessesOfAProcessThatWasSeenElsewhereOnly) {
  const simulation::Rates heat = simulation::Zipf(kPages, 2e4);
  const auto tell = [&](std::uint64_t inode) {
    std::vector<EpochProfile> epochs = Record(heat, {{.id = 0}}, 2, 1);
    for (EpochProfile& epoch : epochs) {
      Target other = Maps(1, {Shared(20'000, 400, inode)});
      other.cpu_time = std::chrono::seconds(1);
      epoch.targets.push_back(other);
      PageRecord elsewhere = Visited(20'450, 1, milliseconds(1));
      elsewhere.key.target = TargetId(1);
      Append(epoch.pages, elsewhere);
    }
    return Tell(epochs);
  };
  const double of_file = tell(/*inode=*/8).of_process.at(0);
  const Told told = tell(/*inode=*/7);
  EXPECT_NEAR(told.of_process.at(0), of_file, of_file / 1000);
}

// Each of four processes was looked at in another quarter of the file.
TEST(SharedPages, HaveTheAccessesOfProcessesThatWereNotLookedAtThere) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  EpochProfile epoch = Record(heat, {{.id = 0}, {.id = 1}, {.id = 2}, {.id = 3}}, 1, 1)[0];
  PageColumns quarters;
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    const PageRecord record = RecordAt(epoch.pages, i);
    // Page tables begin at multiples of 512 addresses: those that straddle two quarters go.
    const std::uint64_t page = record.key.vpn.value() % 10'000;
    const std::uint64_t within = page % (kPages / 4);
    if (page / (kPages / 4) != record.key.target.value()) continue;
    if (within < 512) continue;
    Append(quarters, record);
  }
  epoch.pages = quarters;
  TotalRanker ranker(RankModel::kRate);
  ranker.Absorb(epoch);
  const Estimates told = ranker.Estimate(RankSource::kCombined);
  TotalRanker of_one(RankModel::kRate);
  for (Target& target : epoch.targets) target.mappings[0].kind = MappingKind::kAnonymous;
  of_one.Absorb(epoch);
  const Estimates alone = of_one.Estimate(RankSource::kCombined);
  const double sum = std::accumulate(told.score.begin(), told.score.end(), 0.0);
  const double sum_alone = std::accumulate(alone.score.begin(), alone.score.end(), 0.0);
  EXPECT_NEAR(sum / sum_alone, 4, 0.4);
  // Each of four unknown activities has a variance of 1. The page's process has a quarter of the
  // CPU time and all of the time watched: (1/4 - 1)^2 + 3 (1/4)^2.
  const double of_activities = 0.75;
  EXPECT_NEAR(told.relative_sd[0], std::hypot(alone.relative_sd[0], std::sqrt(of_activities)),
              0.001);
}

// Each of four processes was watched on half of the pages until a few accesses were found. On one
// page a single process was watched. The others' accesses to that page follow from the activities.
TEST(SharedPages, TellTheErrorThatActivitiesLeave) {
  constexpr std::uint32_t kShared = 200;
  const std::vector<double> activity = {0.4, 1, 0.6, 2};
  EvidenceTable table;
  SharedPages shared;
  for (std::uint32_t id = 0; id < activity.size(); ++id) {
    shared.Add({Maps(id, {Shared(1000, kShared + 1)})});
    for (std::uint32_t page = 0; page <= kShared; ++page) Push(table, Key(id, 1000 + page), 1, {});
  }
  const PageMappers mappers(table.key, table.span_pages, shared);
  for (std::uint32_t alone = 0; alone < activity.size(); ++alone) {
    double squared_errors = 0;
    double told = 0;
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
      std::mt19937_64 random(seed);
      SharedRates::SeenByPiece seen{.seen = {}, .first = {0}};
      for (std::uint32_t page = 0; page <= kShared; ++page) {
        for (std::uint32_t id = 0; id < activity.size(); ++id) {
          const bool is_watched = page == kShared ? id == alone : random() % 2 == 0;
          const double seconds = is_watched ? 0.3 : 0;
          std::poisson_distribution<int> accesses(activity[id] * 0.3);
          seen.seen.push_back({.mapper = id,
                               .found = is_watched ? static_cast<double>(accesses(random)) : 0,
                               .page_seconds = seconds});
        }
        seen.first.push_back(static_cast<std::uint32_t>(seen.seen.size()));
      }
      const SharedRates rates(mappers, seen, [](TargetId) { return 1.0; }, {});
      // The sum of all activities is known.
      const double error = std::log(rates.Activity(alone) / activity[alone]);
      squared_errors += error * error;
      told += rates.Variance(kShared);
    }
    EXPECT_NEAR(std::sqrt(told / squared_errors), 1, 0.1) << alone;
  }
}

// Processes that map random windows of a file, with some records and samples.
struct Windows {
  EvidenceTable table;
  SharedPages shared;
  TargetTimes times;
};

Windows RandomWindows(std::uint32_t seed, bool samples) {
  std::mt19937_64 random(seed);
  Windows made;
  EpochProfile epoch = Epoch(0, {});
  for (std::uint32_t id = 0; id < 6; ++id) {
    std::vector<Mapping> mappings;
    std::uint64_t address = 100'000 * (id + 1);
    for (int window = 0; window < 3; ++window) {
      const std::uint64_t pages = 300 + random() % 2000;
      mappings.push_back(Shared(address, pages, 7, random() % 2000));
      for (std::uint64_t page = 0; page < pages; ++page) {
        const bool is_visited = (address + page) / 512 % 3 == id % 3;
        if (random() % 4 != 0) continue;
        Evidence evidence;
        if (is_visited) {
          evidence.looks = 1;
          evidence.first_accesses = static_cast<double>(random() % 2);
          evidence.page_seconds_at_risk = 1;
        }
        if (samples) evidence.load_samples = static_cast<double>(3 * (random() % 3));
        if (is_visited || samples) Push(made.table, Key(id, address + page), 1, evidence);
      }
      address += pages + random() % 1000;
    }
    epoch.targets.push_back(Maps(id, mappings));
    epoch.targets.back().cpu_time = std::chrono::seconds(1 + random() % 3);
  }
  made.shared.Add(epoch.targets);
  made.times.Add(epoch);
  return made;
}

// Returns the evidence of mappings without records, one entry for each page.
SharedRates::SeenByPiece PageByPage(const PageMappers& mappers, const Windows& windows,
                                    bool goes_by_bits) {
  const EvidenceTable& table = windows.table;
  SharedRates::SeenByPiece seen{.seen = {}, .first = {0}, .unseen = {}, .watched = {}};
  for (const PageMappers::Piece& piece : mappers.pieces()) {
    for (std::uint32_t m = 0; m < mappers.mappers().size(); ++m) {
      const TargetId target = mappers.mappers()[m].target;
      for (const SharedPages::Part& part : windows.shared.PartsOf(target)) {
        if (piece.name.vpn < part.name.vpn) continue;
        const Vpn address = part.range.start + (piece.name.vpn - part.name.vpn);
        if (address >= part.range.end) continue;
        bool is_looked_at = false;
        const Evidence* own = nullptr;
        for (std::size_t row = 0; row < table.size(); ++row) {
          if (table.key[row].target != target) continue;
          is_looked_at |= table.key[row].vpn.value() / 512 == address.value() / 512 &&
                          table.evidence[row].looks > 0;
          if (table.key[row].vpn == address) own = &table.evidence[row];
        }
        if (is_looked_at && own == nullptr) continue;
        SharedRates::Seen each{.mapper = m};
        if (!goes_by_bits) each.page_seconds = windows.times.Of(target).watched_seconds;
        if (own != nullptr) each.found = goes_by_bits ? own->first_accesses : own->samples();
        if (own != nullptr && goes_by_bits) each.page_seconds = own->page_seconds_at_risk;
        seen.seen.push_back(each);
      }
    }
    seen.first.push_back(seen.seen.size());
  }
  return seen;
}

TEST(SharedPages, AreToldByEdgesOfMappingsAsPageByPage) {
  for (const bool samples : {false, true}) {
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      const Windows windows = RandomWindows(seed, samples);
      const PageMappers mappers(windows.table.key, windows.table.span_pages, windows.shared);
      const auto cpu_seconds = [&](TargetId target) {
        return windows.times.Of(target).cpu_seconds;
      };
      const SharedRates by_edges(
          mappers,
          SeenOf(mappers, windows.table, RankSource::kCombined, windows.shared, windows.times),
          cpu_seconds, {});
      const SharedRates by_page(mappers, PageByPage(mappers, windows, !samples), cpu_seconds, {});
      for (std::size_t m = 0; m < mappers.mappers().size(); ++m) {
        EXPECT_NEAR(by_edges.Activity(m), by_page.Activity(m), 1e-6);
        EXPECT_NEAR(by_edges.ActivityVariance(m), by_page.ActivityVariance(m), 1e-6);
      }
      for (std::size_t piece = 0; piece < mappers.pieces().size(); ++piece) {
        ASSERT_NEAR(by_edges.PartOfClock(piece), by_page.PartOfClock(piece), 1e-9) << piece;
        ASSERT_NEAR(by_edges.Variance(piece), by_page.Variance(piece), 1e-6) << piece;
      }
    }
  }
}

// One process has records of all pages, and 200 have one each.
TEST(SharedPages, AreKeptByRecordsInsteadOfByMappings) {
  EvidenceTable table;
  SharedPages shared;
  for (std::uint32_t id = 0; id <= 200; ++id) {
    shared.Add({Maps(id, {Shared(51'200, kPages)})});
    for (std::uint64_t page = 0; page < (id == 0 ? kPages : 1); ++page) {
      Push(table, Key(id, 51'200 + page), 1, {.looks = 1});
    }
  }
  const PageMappers mappers(table.key, table.span_pages, shared);
  const SharedRates::SeenByPiece seen =
      SeenOf(mappers, table, RankSource::kCombined, shared, TargetTimes());
  EXPECT_EQ(seen.seen.size(), table.size());
  EXPECT_EQ(seen.unseen.size(), 2 * 200u);
}

// Tells scores of the last epoch by page of the file, from a ranker that follows the program.
Told TellLatest(const std::vector<EpochProfile>& epochs) {
  Ranker ranker(kRemembering);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  const Scores scores = ranker.Score(RankSource::kCombined);
  Told told;
  for (std::size_t row = 0; row < scores.size(); ++row) {
    const PageKey key = ranker.table().key[row];
    told.of_page[key.vpn.value() % 10'000] += scores[row];
    told.of_process[key.target.value()] += scores[row];
    told.all += scores[row];
  }
  const Ranker::PageScores by_page = ranker.ScoreByPage(RankSource::kCombined);
  for (std::size_t page = 0; page < by_page.key.size(); ++page) {
    EXPECT_NEAR(by_page.score[page], told.of_page[by_page.key[page].vpn.value() % 10'000],
                1e-6 * by_page.score[page]);
  }
  return told;
}

TEST(SharedPages, AreRankedBetterByAllMappersAsEpochsComeIn) {
  EXPECT_GT(GainOfMappers(simulation::Zipf(kPages, 2e5), 2, 0.5, TellLatest), 0.1);
}

TEST(SharedPages, HaveTheAccessesOfTheLastEpochByWhoRan) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  const Told told = TellLatest(
      Record(heat, {{.id = 0}, {.id = 1, .activity = 0.2}, {.id = 2, .exits_at = 3}}, 4, 1));
  EXPECT_NEAR(told.of_process.at(1) / told.of_process.at(0), 0.2, 0.02);
  EXPECT_EQ(told.of_process.at(2), 0) << "it has exited";
  EXPECT_NEAR(told.all, 1.2 * Sum(heat), 0.06 * 1.2 * Sum(heat));
}

// The first process alone was looked at. When it has exited, the others still access the file.
TEST(SharedPages, HaveTheAccessesOfLiveProcessesWithoutRecords) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  for (const EpochProfile& epoch : Record(heat,
                                          {{.id = 0, .exits_at = 2},
                                           {.id = 1, .is_observed = false},
                                           {.id = 2, .is_observed = false}},
                                          3, 1)) {
    ranker.Absorb(epoch);
  }
  Scores scores;
  std::vector<RowlessScore> rowless;
  ranker.Score(RankSource::kCombined, scores, &rowless);
  double sum = 0;
  for (const RowlessScore& page : rowless) {
    EXPECT_EQ(page.key.target, TargetId(1));
    EXPECT_EQ(page.key.vpn.value() / 10'000, 2u);
    sum += page.score;
  }
  EXPECT_NEAR(sum, 2 * Sum(heat), 0.15 * 2 * Sum(heat));
}

// A process that rests has a row, and one that runs has none.
TEST(SharedPages, AreOfAProcessThatRestsBeforeOneThatExited) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  std::vector<EpochProfile> epochs =
      Record(heat, {{.id = 0, .exits_at = 2}, {.id = 1}, {.id = 2, .is_observed = false}}, 3, 1);
  epochs[2].targets[0].cpu_time = nanoseconds(0);
  epochs[2].pages = {};
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  std::vector<RowlessScore> rowless;
  Scores scores;
  ranker.Score(RankSource::kCombined, scores, &rowless);
  EXPECT_TRUE(rowless.empty());
  const Told told = TellLatest(epochs);
  EXPECT_EQ(told.of_process.at(0), 0);
  EXPECT_GT(told.of_process.at(1), 0.5 * Sum(heat));
}

// A second process maps the file in the third epoch only, and is not looked at before the fourth.
TEST(SharedPages, KeepTheEvidenceOfTheTimeWithOneMapper) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  std::vector<EpochProfile> epochs = Record(heat, {{.id = 0}}, 3, 1);
  Target other = Maps(1, {Shared(20'000, kPages)});
  other.cpu_time = nanoseconds(0);
  epochs[2].targets.push_back(other);
  epochs[2].pages = {};
  const std::vector<EpochProfile> before(epochs.begin(), epochs.begin() + 2);
  const double recall = RecallOf(heat, TellLatest(before));
  EXPECT_GT(recall, 0.8);
  EXPECT_GT(RecallOf(heat, TellLatest(epochs)), recall - 0.05);
}

// The file's pages stay equally hot for one process, whichever others map them.
TEST(SharedPages, StayAsTheyWereWhereAnIdleProcessJoins) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  const std::vector<EpochProfile> both =
      Record(heat, {{.id = 0}, {.id = 1, .activity = 0.001}}, 4, 1);
  std::vector<EpochProfile> epochs = Record(heat, {{.id = 0}}, 3, 1);
  epochs.push_back(both[3]);
  const double before = TellLatest({epochs.begin(), epochs.begin() + 3}).of_process.at(0);
  EXPECT_NEAR(TellLatest(epochs).of_process.at(0), before, before / 20);
}

// The processes have the same samples, until one rests for five half-lives.
TEST(SharedPages, KeepTheirRateOfSamplesWhileAMapperRests) {
  Ranker ranker(kRemembering);
  const auto absorb = [&](std::uint64_t index, bool rests) {
    EpochProfile epoch = Epoch(index, {});
    for (std::uint32_t id = 0; id < 2; ++id) {
      Target target = Maps(id, {Shared(100, 16)});
      target.cpu_time = std::chrono::seconds(id == 0 && rests ? 0 : 1);
      epoch.targets.push_back(target);
      for (std::uint64_t page = 0; page < 16 && target.cpu_time->count() > 0; ++page) {
        PageRecord record{.key = Key(id, 100 + page)};
        record.load_samples = page < 4 ? 40 : 4;
        Append(epoch.pages, record);
      }
    }
    ranker.Absorb(epoch);
  };
  std::uint64_t index = 0;
  while (index < 10) absorb(index++, /*rests=*/false);
  const double before = ranker.Score(RankSource::kSamples)[16];
  EXPECT_NEAR(before, 40, 2);
  while (index < 40) absorb(index++, /*rests=*/true);
  EXPECT_NEAR(ranker.Score(RankSource::kSamples)[16], before, before / 20);
}

// Two processes map a file, and a third one half of it, which uses so much CPU time after ten
// epochs. Each uses its pages alike.
TEST(SharedPages, KeepTheirRateOfSamplesWhoeverMapsOtherPages) {
  for (const double later : {0.0, 0.1, 1.0}) {
    Ranker ranker(kRemembering);
    for (std::uint64_t index = 0; index < 40; ++index) {
      EpochProfile epoch = Epoch(index, {});
      for (std::uint32_t id = 0; id < 3; ++id) {
        const double used = id == 2 && index >= 10 ? later : 1;
        const std::uint64_t pages = id < 2 ? 16 : 8;
        Target target = Maps(id, {Shared(100, pages)});
        target.cpu_time = nanoseconds(static_cast<std::int64_t>(1e9 * used));
        epoch.targets.push_back(target);
        for (std::uint64_t page = 0; page < pages && used > 0; ++page) {
          PageRecord record{.key = Key(id, 100 + page)};
          record.load_samples = static_cast<std::uint32_t>(40 * used);
          Append(epoch.pages, record);
        }
      }
      ranker.Absorb(epoch);
    }
    const Scores scores = ranker.Score(RankSource::kSamples);
    for (std::size_t row = 0; row < scores.size(); ++row) {
      const PageKey key = ranker.table().key[row];
      const double used = key.target == TargetId(2) ? later : 1;
      EXPECT_NEAR(scores[row], 40 * used, 3)
          << "row " << row << ", where the third uses " << later << " s an epoch";
    }
  }
}

// A second process unmaps the file while the hot set moves, and maps it again. Both map another
// file throughout.
TEST(SharedPages, HaveTheEvidenceOfTheTimeInBetweenWhenAMapperReturns) {
  const simulation::Rates before = simulation::Hotset(kPages, 2e4);
  simulation::Rates after = before;
  std::ranges::rotate(after, after.begin() + kPages / 2);
  const auto recall = [&](bool returns) {
    std::vector<EpochProfile> epochs = Record(before, {{.id = 0}, {.id = 1}}, 2, 1);
    for (EpochProfile& epoch : Record(after, {{.id = 0}}, 4, 1)) epochs.push_back(epoch);
    epochs.push_back(Record(after, {{.id = 0}, {.id = 1}}, 1, 1)[0]);
    epochs[6].pages = {};
    Ranker ranker(kRemembering);
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      EpochProfile& epoch = epochs[e];
      epoch.index = e;
      epoch.start = MonotonicTime(std::chrono::seconds(e));
      epoch.end = MonotonicTime(std::chrono::seconds(e + 1));
      if (epoch.targets.size() == 1) epoch.targets.push_back(Maps(1, {}));
      Target& second = epoch.targets[1];
      second.cpu_time = std::chrono::seconds(1);
      if (e >= 2 && (e < 6 || !returns)) second.mappings.clear();
      for (Target& target : epoch.targets) target.mappings.push_back(Shared(90'000, 1, 8));
      PageRecord other = Visited(90'000, 1, milliseconds(1));
      other.key.target = TargetId(1);
      Append(epoch.pages, other);
      ranker.Absorb(epoch);
    }
    const Scores scores = ranker.Score(RankSource::kCombined);
    Told told;
    for (std::size_t row = 0; row < scores.size(); ++row) {
      const PageKey key = ranker.table().key[row];
      if (key.vpn < Vpn(90'000)) told.of_page[key.vpn.value() % 10'000] += scores[row];
    }
    return RecallOf(after, told);
  };
  EXPECT_GT(recall(/*returns=*/true), recall(/*returns=*/false) - 0.05);
}

// While it counted, it did not follow pages. The hot set moved meanwhile.
TEST(SharedPages, HaveAllEvidenceWhenARankerIsConfiguredBack) {
  const simulation::Rates before = simulation::Hotset(kPages, 2e4);
  simulation::Rates after = before;
  std::ranges::rotate(after, after.begin() + kPages / 2);
  std::vector<EpochProfile> epochs = Record(before, {{.id = 0}, {.id = 1}}, 8, 1);
  const std::vector<EpochProfile> later = Record(after, {{.id = 0}, {.id = 1}}, 8, 1);
  for (std::size_t e = 2; e < 7; ++e) epochs[e].pages = later[e].pages;
  epochs[7].pages = {};
  const Ranker::Options rates = kRemembering;
  Ranker::Options changed = rates;
  const auto recall = [&] {
    Ranker ranker(rates);
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      if (e == 2) ranker.Configure(changed);
      if (e == 7) ranker.Configure(rates);
      ranker.Absorb(epochs[e]);
    }
    const Scores scores = ranker.Score(RankSource::kCombined);
    Told told;
    for (std::size_t row = 0; row < scores.size(); ++row) {
      told.of_page[ranker.table().key[row].vpn.value() % 10'000] += scores[row];
    }
    return RecallOf(after, told);
  };
  const double followed = recall();
  EXPECT_GT(followed, 0.8);
  changed.model = RankModel::kSum;
  EXPECT_GT(recall(), followed - 0.05);
}

// Pages that were hot are suspected to have become cold, until the ranker is not to suspect it.
TEST(SharedPages, AreNotSuspectedWhenARankerIsConfiguredNotToFollowChanges) {
  const simulation::Rates before = simulation::Hotset(kPages, 2e4);
  simulation::Rates after = before;
  std::ranges::rotate(after, after.begin() + kPages / 2);
  std::vector<EpochProfile> epochs = Record(before, {{.id = 0}, {.id = 1}}, 12, 1);
  epochs[10].pages = Record(after, {{.id = 0}, {.id = 1}}, 11, 1)[10].pages;
  epochs[11].pages = {};
  const auto score_of_cooled = [&](bool stops_following) {
    Ranker::Options options = kRemembering;
    Ranker ranker(options);
    for (std::size_t e = 0; e < epochs.size(); ++e) {
      options.follow_changes = !(stops_following && e == 11);
      ranker.Configure(options);
      ranker.Absorb(epochs[e]);
    }
    const Scores scores = ranker.Score(RankSource::kCombined);
    double sum = 0;
    for (std::size_t page = 0; page < kPages; ++page) {
      if (before[page] > after[page]) sum += scores[page];
    }
    return sum;
  };
  EXPECT_GT(score_of_cooled(/*stops_following=*/true),
            1.5 * score_of_cooled(/*stops_following=*/false));
}

// Older traces have no time at risk. Process 1 was looked at more often, and never found.
TEST(SharedPages, AreToldByLooksWithoutACpuClock) {
  EpochProfile both = Epoch(0, {});
  EpochProfile alone = Epoch(0, {});
  for (std::uint32_t id = 0; id < 2; ++id) {
    both.targets.push_back(Maps(id, {Shared(1000, 64)}));
    if (id == 0) alone.targets = both.targets;
    for (std::uint64_t page = 0; page < 64; ++page) {
      PageRecord record{.key = Key(id, 1000 + page)};
      record.looks = id == 1 ? 30 : 10;
      record.references = id == 1 ? 0 : page < 16 ? 8 : 2;
      Append(both.pages, record);
      if (id == 0) Append(alone.pages, record);
    }
  }
  const auto check = [](const Scores& joined, const Scores& single) {
    for (const std::size_t page : {0, 40}) {
      EXPECT_LT(joined[64 + page], joined[page] / 50);
      EXPECT_NEAR(joined[page], single[page], single[page] / 10);
    }
  };
  TotalRanker total(RankModel::kRate);
  total.Absorb(both);
  TotalRanker total_alone(RankModel::kRate);
  total_alone.Absorb(alone);
  check(total.Score(RankSource::kCombined), total_alone.Score(RankSource::kCombined));
  Ranker latest(Ranker::DefaultOptions(RankModel::kRate));
  latest.Absorb(both);
  Ranker latest_alone(Ranker::DefaultOptions(RankModel::kRate));
  latest_alone.Absorb(alone);
  check(latest.Score(RankSource::kCombined), latest_alone.Score(RankSource::kCombined));
}

TEST(SharedPages, HaveAClockWithoutProcessesThatExited) {
  const std::vector<EpochProfile> epochs =
      Record(simulation::Hotset(kPages, 2e4), {{.id = 0}, {.id = 1, .exits_at = 1}}, 2, 1);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  TargetTimes times;
  times.Add(epochs[1]);
  ranker.ByPage({}, times);
  EXPECT_NEAR(times.Of(SharedPages::kFirstFile).cpu_seconds, 1, 0.05);
}

// The file's clock keeps its unit, though a mapper that counts for nothing changes the average.
TEST(SharedPages, StayAsTheyWereWhereAnIdleProcessJoinsTwo) {
  const simulation::Rates heat = simulation::Hotset(kPages, 2e4);
  const std::vector<EpochProfile> all =
      Record(heat, {{.id = 0}, {.id = 1}, {.id = 2, .activity = 0.001}}, 4, 1);
  std::vector<EpochProfile> epochs = Record(heat, {{.id = 0}, {.id = 1}}, 4, 1);
  const double without = TellLatest(epochs).of_process.at(0);
  epochs[3] = all[3];
  EXPECT_NEAR(TellLatest(epochs).of_process.at(0), without, without / 20);
}

// One of them has a huge page, and one was never looked at.
TEST(SharedPages, AreToldByBothRankersAlikeAfterOneEpoch) {
  const simulation::Rates heat = simulation::Zipf(kPages, 2e4);
  EpochProfile epoch = Record(
      heat, {{.id = 0}, {.id = 1, .activity = 0.3}, {.id = 2, .is_observed = false}}, 1, 1)[0];
  epoch.targets.push_back(Maps(3, {Shared(40'960, kPages)}));
  epoch.targets.back().cpu_time = std::chrono::seconds(1);
  PageRecord huge = Visited(40'960, 1, milliseconds(1));
  huge.key.target = TargetId(3);
  huge.span = PageCount(512);
  Append(epoch.pages, huge);
  TotalRanker total(RankModel::kRate);
  total.Absorb(epoch);
  Ranker latest(Ranker::DefaultOptions(RankModel::kRate));
  latest.Absorb(epoch);
  const Estimates of_total = total.Estimate(RankSource::kCombined);
  const Estimates of_latest = latest.Estimate(RankSource::kCombined);
  ASSERT_EQ(of_total.score.size(), of_latest.score.size());
  for (std::size_t row = 0; row < of_total.score.size(); ++row) {
    ASSERT_NEAR(of_latest.score[row], of_total.score[row], of_total.score[row] / 50) << row;
    ASSERT_NEAR(of_latest.relative_sd[row], of_total.relative_sd[row], 0.02) << row;
  }
}

// Two processes were found to access the page once in the same time.
TEST(SharedPages, TellTheErrorOfAProcesssShare) {
  EvidenceTable table;
  SharedPages shared;
  SharedRates::SeenByPiece seen{.seen = {}, .first = {0, 2}};
  for (std::uint32_t id = 0; id < 2; ++id) {
    shared.Add({Maps(id, {Shared(100, 1)})});
    Push(table, Key(id, 100), 1, {});
    seen.seen.push_back({.mapper = id, .found = 1, .page_seconds = 1});
  }
  const PageMappers mappers(table.key, table.span_pages, shared);
  const SharedRates rates(mappers, seen, [](TargetId) { return 1.0; }, {});
  EXPECT_EQ(rates.Variance(0), 0) << "both were watched";
  // The share is 1 / (1 + x) with x the ratio of the activities. The logarithm of x has the
  // information 2 / 4 from two accesses that are one process's or the other's, and 1 / 2 from the
  // assumption about both. If x is 1, the share's relative change is half that of x.
  int rows = 0;
  ForEachShare(
      mappers, rates, 0, [](std::uint32_t) { return 1.0; }, [](std::uint32_t) { return true; },
      [&](std::uint32_t, double share, double variance) {
        EXPECT_DOUBLE_EQ(share, 0.5);
        EXPECT_DOUBLE_EQ(variance, 1 / (2.0 / 4 + 1.0 / 2) / 4);
        ++rows;
      });
  EXPECT_EQ(rows, 2);
}

// A sample falls on few pages of the busy process, and on next to none of the other's.
TEST(SharedPages, TellAnIdleProcessByTheSamplesItDoesNotHave) {
  EpochProfile epoch = Epoch(0, {});
  const auto add = [&](std::uint32_t id, std::uint64_t address, std::uint64_t step) {
    Target target = Maps(id, {Shared(address, kPages)});
    target.cpu_time = std::chrono::seconds(1);
    epoch.targets.push_back(target);
    for (std::uint64_t page = step / 2; page < kPages; page += step) {
      PageRecord record{.key = Key(id, address + page)};
      record.load_samples = 1;
      Append(epoch.pages, record);
    }
  };
  add(0, 10'000, 10);
  add(1, 20'000, 1000);
  TotalRanker ranker(RankModel::kRate);
  ranker.Absorb(epoch);
  SharedPages shared;
  shared.Add(epoch.targets);
  const EvidenceTable& table = ranker.table();
  const PageMappers mappers(table.key, table.span_pages, shared);
  TargetTimes times;
  times.Add(epoch);
  for (const RankSource source : {RankSource::kSamples, RankSource::kCombined}) {
    const SharedRates rates(mappers, SeenOf(mappers, table, source, shared, times),
                            [](TargetId) { return 1.0; }, {});
    EXPECT_NEAR(rates.Activity(1) / rates.Activity(0), 0.01, 0.005);
  }
}

// Samples alone give rates, too. Process 1 has a third of the samples of process 0.
TEST(SharedPages, AreRankedBySamplesOfAllMappers) {
  EpochProfile epoch = Epoch(0, {});
  for (std::uint32_t id = 0; id < 2; ++id) {
    Target target = Maps(id, {Shared(100, 16)});
    target.cpu_time = std::chrono::seconds(1);
    epoch.targets.push_back(target);
    for (std::uint64_t page = 0; page < 16; ++page) {
      PageRecord record{.key = Key(id, 100 + page)};
      record.load_samples = static_cast<std::uint32_t>((id == 0 ? 3 : 1) * (page < 4 ? 40 : 4));
      Append(epoch.pages, record);
    }
  }
  TotalRanker ranker(RankModel::kRate);
  ranker.Absorb(epoch);
  const Scores scores = ranker.Score(RankSource::kSamples);
  EXPECT_NEAR(scores[0], 3 * scores[16], scores[0] / 50);
  EXPECT_NEAR(scores[0] + scores[16], 160, 8);
}

}  // namespace shared_rates_test
}  // namespace tmprof
