// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/ledger_keeper.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tmprof {
namespace {

// Some 128 bytes each.
constexpr std::size_t kMostMovesWatched = 1'000'000;

// Whether a page without a record was not accessed: hardware samples all memory, where it is on.
Payback::Elsewhere WhatNoRecordMeans(const EpochProfile& epoch) {
  const bool all_watched = std::ranges::any_of(epoch.sources, [](const SourceStatus& source) {
    return source.role == SourceRole::kSamples && source.state == SourceState::kActive &&
           source.name != "clock";
  });
  return all_watched ? Payback::Elsewhere::kUnseen : Payback::Elsewhere::kUnknown;
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
  std::error_code error;
  std::filesystem::path old = *config_.file;
  old += ".old";
  std::filesystem::rename(*config_.file, old, error);
  if (error && error.value() != ENOENT) {
    return Fail(Refused("set the ledger before aside", config_.file->string(), error.value()));
  }
  auto writer = LedgerWriter::Create(*config_.file, info_);
  if (!writer) return Fail(writer.error());
  writer_ = *std::move(writer);
  tell_all_ = true;
  return {};
}

// A new file is told of targets that are gone, too: moves of theirs may yet be settled.
void LedgerKeeper::TellTargets(const EpochProfile& epoch, std::vector<LedgerTarget>& news) {
  for (const Target& target : epoch.targets) {
    LedgerTarget now{target.id, target.pid, target.start_time_ticks, target.name, target.command};
    const auto [known, is_new] = told_.try_emplace(target.id, now);
    if (!is_new && known->second == now) continue;
    known->second = now;
    if (!tell_all_) news.push_back(std::move(now));
  }
  if (!std::exchange(tell_all_, false)) return;
  for (const auto& [id, target] : told_) news.push_back(target);
}

void LedgerKeeper::Observe(const EpochProfile& epoch, const EvidenceTable& table,
                           const Scores& scores) {
  std::vector<SeenSpan> seen;
  std::size_t row = 0;
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    const PageRecord record = RecordAt(epoch.pages, i);
    while (row < table.size() && table.key[row] < record.key) ++row;
    const bool scored = row < table.size() && table.key[row] == record.key;
    seen.push_back({.key = record.key,
                    .span = record.span,
                    .seen = static_cast<double>(record.references) + record.load_samples +
                            record.store_samples,
                    .score = scored ? scores[row] : 0});
  }
  payback_.Observe(epoch.index, seen, WhatNoRecordMeans(epoch));
}

Status LedgerKeeper::Note(const EpochProfile& epoch, const NotMoved& not_moved,
                          std::uint64_t replaced, std::vector<MoveOutcome> outcomes,
                          const EvidenceTable& table, const Scores& scores) {
  if (!writer_) return {};
  LedgerEpoch entry{.index = epoch.index, .start = epoch.start, .end = epoch.end};
  TellTargets(epoch, entry.targets);
  TakeIn(outcomes, epoch.index);
  Observe(epoch, table, scores);
  for (const Target& target : epoch.targets) {
    if (target.exited) payback_.Forget(target.id);
  }
  entry.not_moved = not_moved;
  entry.replaced = replaced;
  entry.moves = std::move(outcomes);
  entry.settled = payback_.TakeSettled();
  next_index_ = epoch.index + 1;
  last_end_ = epoch.end;
  Status written = writer_->Write(entry);
  if (written && config_.most_bytes && writer_->bytes_written() >= *config_.most_bytes) {
    written = writer_->Finish();
    if (written) written = Open();
  }
  if (!written) writer_.reset();
  return written;
}

void LedgerKeeper::TakeIn(std::vector<MoveOutcome>& outcomes, std::uint64_t epoch) {
  std::erase_if(outcomes, [this](const MoveOutcome& outcome) {
    return !told_.contains(outcome.move.key.target);
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
