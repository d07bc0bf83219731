// SPDX-License-Identifier: Apache-2.0

#include "proto/ledger_file.h"

#include <fmt/format.h>

#include <expected>
#include <optional>
#include <utility>

#include "proto/framed_file.h"
#include "proto/ledger.pb.h"
#include "proto/ledger_codec.h"

namespace tmprof {
namespace {

// The end frame has these totals, so that a ledger that lost a whole frame is noticed.
struct Totals {
  std::uint64_t epochs = 0;
  std::uint64_t moves = 0;
  std::uint64_t settled = 0;

  void Add(const LedgerEpoch& epoch) {
    ++epochs;
    moves += epoch.moves.size();
    settled += epoch.settled.size();
  }
  friend bool operator==(const Totals&, const Totals&) = default;
};

}  // namespace

struct LedgerWriter::State {
  FramedFileWriter file;
  Totals totals;
  KnownTargets targets;
  wire::LedgerEpoch message;
};

LedgerWriter::LedgerWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerWriter::LedgerWriter(LedgerWriter&&) noexcept = default;
LedgerWriter& LedgerWriter::operator=(LedgerWriter&&) noexcept = default;
LedgerWriter::~LedgerWriter() = default;

Result<LedgerWriter> LedgerWriter::Create(const std::filesystem::path& path,
                                          const LedgerInfo& info) {
  wire::LedgerHeader header;
  EncodeLedgerInfo(info, header);
  Result<FramedFileWriter> file = FramedFileWriter::Create(kLedgerFormat, path, header);
  if (!file) return Fail(std::move(file.error()));
  return LedgerWriter(std::make_unique<State>(State{.file = std::move(*file)}));
}

Status LedgerWriter::Write(const LedgerEpoch& epoch) {
  State& s = *state_;
  if (Status status = s.file.status(); !status) return status;
  EncodeLedgerEpoch(epoch, s.targets, s.message);
  if (Status status = s.file.AppendEpoch(epoch.index, s.message); !status) return status;
  s.totals.Add(epoch);
  return {};
}

Status LedgerWriter::Finish() {
  wire::LedgerEnd end;
  end.set_epochs(state_->totals.epochs);
  end.set_moves(state_->totals.moves);
  end.set_settled(state_->totals.settled);
  return state_->file.Finish(end);
}

std::uint64_t LedgerWriter::bytes_written() const { return state_->file.bytes_written(); }

struct LedgerReader::State {
  FramedFileReader file;
  LedgerInfo info;
  Totals totals;
  std::optional<std::uint64_t> last_index;
  KnownTargets targets;
  wire::LedgerEpoch message;

  Verdict ReadEpoch(const Frame& frame, LedgerEpoch& epoch);
  Verdict ReadEnd(const Frame& frame) const;
};

Verdict LedgerReader::State::ReadEpoch(const Frame& frame, LedgerEpoch& epoch) {
  if (Verdict verdict = Parse(frame, "epoch", message); !verdict) return verdict;
  if (Verdict verdict = DecodeLedgerEpoch(message, targets, epoch); !verdict) return verdict;
  if (last_index && epoch.index <= *last_index) {
    return std::unexpected(fmt::format("epoch {} is not in ascending order", epoch.index));
  }
  last_index = epoch.index;
  totals.Add(epoch);
  return {};
}

Verdict LedgerReader::State::ReadEnd(const Frame& frame) const {
  wire::LedgerEnd end;
  if (Verdict verdict = Parse(frame, "end", end); !verdict) return verdict;
  if (totals == Totals{.epochs = end.epochs(), .moves = end.moves(), .settled = end.settled()}) {
    return {};
  }
  return std::unexpected(fmt::format(
      "the ledger was finished with {} epochs, {} moves and {} settled ones, but {}, "
      "{} and {} are here",
      end.epochs(), end.moves(), end.settled(), totals.epochs, totals.moves, totals.settled));
}

LedgerReader::LedgerReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LedgerReader::LedgerReader(LedgerReader&&) noexcept = default;
LedgerReader& LedgerReader::operator=(LedgerReader&&) noexcept = default;
LedgerReader::~LedgerReader() = default;

Result<LedgerReader> LedgerReader::Open(const std::filesystem::path& path) {
  std::optional<LedgerInfo> info;
  const auto read_header = [&info](const Frame& frame) -> Verdict {
    wire::LedgerHeader header;
    if (Verdict verdict = Parse(frame, "header", header); !verdict) return verdict;
    auto decoded = DecodeLedgerInfo(header);
    if (!decoded) return std::unexpected(std::move(decoded.error()));
    info = std::move(*decoded);
    return {};
  };
  Result<FramedFileReader> file = FramedFileReader::Open(kLedgerFormat, path, read_header);
  if (!file) return Fail(std::move(file.error()));
  return LedgerReader(
      std::make_unique<State>(State{.file = std::move(*file), .info = std::move(*info)}));
}

const LedgerInfo& LedgerReader::info() const { return state_->info; }
const std::filesystem::path& LedgerReader::path() const { return state_->file.path(); }
bool LedgerReader::finished() const { return state_->file.finished(); }
StreamEnd LedgerReader::End() const { return state_->file.End(); }

Result<bool> LedgerReader::Next(LedgerEpoch& epoch) {
  State& s = *state_;
  return s.file.Next([&](const Frame& frame) { return s.ReadEpoch(frame, epoch); },
                     [&](const Frame& frame) { return s.ReadEnd(frame); });
}

}  // namespace tmprof
