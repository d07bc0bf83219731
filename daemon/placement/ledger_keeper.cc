// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/ledger_keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/merge_runs.h"
#include "base/unique_fd.h"
#include "daemon/placement/ranked_rows.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

fs::path Aside(const fs::path& file, std::uint32_t number) {
  fs::path aside = file;
  aside += fmt::format(".{}", number);
  return aside;
}

// A ledger that lies there becomes FILE.1, that one FILE.2, and so on to the first that is missing
// or to the last that is kept, which is lost. One that is being written stays, and is the error
// EWOULDBLOCK.
Status SetAside(const fs::path& file, std::uint32_t kept) {
  const auto refused = [](const fs::path& what, int error, std::string advice = {}) {
    return Fail(Refused("set the ledger before aside", what.string(), error, std::move(advice)));
  };
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  const UniqueFd before(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!before) return refused(file, errno);
  // File systems without locks are no reason not to keep a ledger.
  if (::flock(before.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return refused(file, EWOULDBLOCK, "another tmprofd writes it; name another file (ledger.file)");
  }
  // Another daemon that begins at the same time may have set it aside meanwhile.
  struct stat named{};
  struct stat locked{};
  if (::stat(file.c_str(), &named) != 0 || ::fstat(before.get(), &locked) != 0 ||
      named.st_dev != locked.st_dev || named.st_ino != locked.st_ino) {
    return refused(file, EWOULDBLOCK, "another tmprofd begins it; name another file (ledger.file)");
  }
  std::uint32_t last = 1;
  while (last < kept && fs::exists(fs::symlink_status(Aside(file, last), error))) ++last;
  for (; last > 1; --last) {
    fs::rename(Aside(file, last - 1), Aside(file, last), error);
    if (error) return refused(Aside(file, last - 1), error.value());
  }
  fs::rename(file, Aside(file, 1), error);
  if (error) return refused(file, error.value());
  return {};
}

// Pages as one of their mappers has them.
struct MappedSpan {
  PageKey key;
  PageCount pages;
  double seen = 0;
  double score = 0;

  MappedSpan Of(PageKey first, PageCount some) const {
    const double share = static_cast<double>(some.value()) / static_cast<double>(pages.value());
    return {first, some, seen * share, score * share};
  }
};

// False: the record may be there only to say which pages are the same, or that one was accessed at
// some time.
bool TellsOfAccesses(const PageRecord& record) {
  return (record.looks | record.fast_looks | record.load_samples | record.store_samples) != 0 ||
         record.accesses;
}

}  // namespace

LedgerKeeper::LedgerKeeper(LedgerConfig config, LedgerInfo info)
    : config_(std::move(config)), info_(std::move(info)), payback_(kMostMovesWatched) {}

Result<LedgerKeeper> LedgerKeeper::Begin(const LedgerConfig& config, LedgerInfo info) {
  LedgerKeeper keeper(config, std::move(info));
  if (!config.file) return keeper;
  if (auto status = keeper.Open(); !status) return Fail(status.error());
  return keeper;
}

Status LedgerKeeper::Open() {
  if (auto status = SetAside(*config_.file, config_.kept); !status) return status;
  auto writer = LedgerWriter::Create(*config_.file, info_);
  if (!writer) return Fail(writer.error());
  writer_ = *std::move(writer);
  tell_all_ = true;
  return {};
}

// A new file is told of targets that have just gone, too: moves of theirs are yet to be settled.
void LedgerKeeper::TellTargets(const EpochProfile& epoch, std::span<const TargetId> observed,
                               std::vector<LedgerTarget>& news) {
  for (const Target& target : epoch.targets) {
    LedgerTarget now{target.id, target.pid, target.start_time_ticks, target.name, target.command};
    const bool is_observed = !target.exited && std::ranges::binary_search(observed, target.id);
    auto known = listed_.find(target.id);
    const bool is_new = known == listed_.end();
    if (is_new) {
      if (!is_observed) continue;  // no page of it moves
      known = listed_.emplace(target.id, Listed{.target = now}).first;
    }
    if (is_observed) known->second.last_observed = epoch.index;
    if (!is_new && known->second.target == now) continue;
    known->second.target = now;
    if (!tell_all_) news.push_back(std::move(now));
  }
  if (!std::exchange(tell_all_, false)) return;
  for (const auto& [id, listed] : listed_) news.push_back(listed.target);
}

// The last moves of targets that have ended, or that are not observed any more, are over by the
// next epoch's end. Pages that others share are watched on, and the ledger names them by the target
// that they were moved through.
void LedgerKeeper::ForgetTargets(std::uint64_t epoch, const PageOwners& owners) {
  for (const TargetId file : std::exchange(files_, owners.Files())) {
    if (!std::ranges::binary_search(files_, file)) payback_.Forget(file);
  }
  std::erase_if(listed_, [&](const auto& known) {
    if (known.second.last_observed == epoch) return false;
    payback_.Forget(known.first);
    return known.second.last_observed + 1 < epoch && !payback_.Watches(known.first);
  });
}

Payback::Elsewhere WhatNoRecordMeans(const EpochProfile& epoch) {
  const bool all_watched = std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
    return source.samples_of == SampleSubject::kMemory && source.state == SourceState::kActive;
  });
  return all_watched ? Payback::Elsewhere::kUnseen : Payback::Elsewhere::kUnknown;
}

std::vector<SeenSpan> SeenSpansOf(const EpochProfile& epoch, const EvidenceTable& table,
                                  const Scores& scores, const PageOwners& owners) {
  std::vector<SeenSpan> seen;
  std::vector<MappedSpan> of_mappers;
  std::size_t row = 0;
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    const PageRecord record = RecordAt(epoch.pages, i);
    if (!TellsOfAccesses(record)) continue;
    while (row < table.size() && table.key[row] < record.key) ++row;
    // A region may be told apart into several rows.
    const PageKey end{record.key.target, record.key.vpn + record.span};
    MappedSpan span{.key = record.key,
                    .pages = record.span,
                    .seen = static_cast<double>(record.references) + record.load_samples +
                            record.store_samples};
    for (; row < table.size() && table.key[row] < end; ++row) span.score += scores[row];
    if (owners.MapsShared(record.key.target)) {
      owners.ForEachName({record.key, record.span}, [&](PageKey name, PageKey, PageCount pages) {
        of_mappers.push_back(span.Of(name, pages));
      });
    } else {
      seen.push_back({span.key, span.pages, span.seen, span.score});
    }
  }
  MergeRuns(of_mappers, {}, &MappedSpan::key);
  ForEachStretch(std::span<const MappedSpan>(of_mappers),
                 [&seen](PageKey first, PageCount pages, std::span<const MappedSpan> open) {
                   SeenSpan& sum = seen.emplace_back(first, pages);
                   for (const MappedSpan& span : open) {
                     const MappedSpan share = span.Of(first, pages);
                     sum.seen += share.seen;
                     sum.score += share.score;
                   }
                 });
  MergeRuns(seen, {}, &SeenSpan::key);
  return seen;
}

void LedgerKeeper::Observe(const EpochProfile& epoch, const EvidenceTable& table,
                           const Scores& scores, const PageOwners& owners) {
  payback_.Observe(epoch.index, SeenSpansOf(epoch, table, scores, owners), WhatNoRecordMeans(epoch),
                   owners);
}

Status LedgerKeeper::Note(const EpochProfile& epoch, std::span<const TargetId> observed,
                          const NotMoved& not_moved, std::uint64_t replaced,
                          std::vector<MoveOutcome> outcomes, RankSource rank,
                          const EvidenceTable& table, const Scores& scores,
                          const PageOwners& owners) {
  if (!writer_) return {};
  LedgerEpoch entry{.index = epoch.index, .start = epoch.start, .end = epoch.end};
  TellTargets(epoch, observed, entry.targets);
  TakeIn(outcomes, epoch.index);
  Observe(epoch, table, scores, owners);
  ForgetTargets(epoch.index, owners);
  entry.not_moved = not_moved;
  entry.replaced = replaced;
  entry.ranked_by = Name(rank);
  entry.moves = std::move(outcomes);
  entry.settled = payback_.TakeSettled();
  next_index_ = epoch.index + 1;
  last_end_ = epoch.end;
  Status written = writer_->Write(entry);
  if (written && config_.most_bytes && writer_->bytes_written() >= *config_.most_bytes) {
    written = writer_->Finish();
    writer_.reset();  // and with it its lock
    if (written) written = Open();
  }
  if (!written) writer_.reset();
  return written;
}

void LedgerKeeper::TakeIn(std::vector<MoveOutcome>& outcomes, std::uint64_t epoch) {
  std::erase_if(outcomes, [this](const MoveOutcome& outcome) {
    return !listed_.contains(outcome.move.key.target);
  });
  for (const MoveOutcome& outcome : outcomes) payback_.Note(outcome, epoch);
}

Status LedgerKeeper::End(std::vector<MoveOutcome> outcomes, std::uint64_t dropped) {
  if (!writer_) return {};
  LedgerEpoch last{.index = next_index_, .start = last_end_, .end = last_end_, .replaced = dropped};
  TakeIn(outcomes, last.index);
  last.moves = std::move(outcomes);
  payback_.End();
  last.settled = payback_.TakeSettled();
  const bool empty = last.settled.empty() && last.moves.empty() && last.replaced == 0;
  Status written = empty ? Status{} : writer_->Write(last);
  if (written) written = writer_->Finish();
  writer_.reset();
  return written;
}

}  // namespace tmprof
