// SPDX-License-Identifier: Apache-2.0
// The ledger: every move of a placement daemon, spans that were not moved with the reasons, and the
// moves' payback. It has one header, one frame per epoch and one end frame. docs/trace-format.md
// has the layout and the compatibility promise.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "proto/ledger_records.h"

namespace tmprof {

// Holds one epoch at a time, and the numbers of the targets. Not thread-safe.
class LedgerWriter {
 public:
  // Creates `path` or empties it, and writes the header. Mode, lock, links, devices and "-" are
  // treated as by TraceWriter.
  static Result<LedgerWriter> Create(const std::filesystem::path& path, const LedgerInfo& info);
  LedgerWriter(LedgerWriter&&) noexcept;
  LedgerWriter& operator=(LedgerWriter&&) noexcept;
  // Does not call Finish(): a destroyed writer leaves a ledger that ends early and says so.
  ~LedgerWriter();

  // The kernel has the frame when this returns: killing the process afterwards loses nothing of it.
  // If a write fails (full disk), the file stays as it was before the call, and the writer refuses
  // all further calls with that error. The ledger ends there, and moving need not. Indexes ascend;
  // an epoch that breaks the rules of LedgerEpoch is a broken invariant.
  Status Write(const LedgerEpoch& epoch);
  // Marks the ledger as complete and syncs it to the disk. Nothing may be written afterwards.
  Status Finish();

  std::uint64_t bytes_written() const;

 private:
  struct State;
  explicit LedgerWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Memory is bounded by the largest epoch and the numbers of the targets. Not thread-safe.
class LedgerReader {
 public:
  // Fails on a wrong magic number, a newer version, or a damaged header. Takes anything that can be
  // read from start to end, including a pipe.
  static Result<LedgerReader> Open(const std::filesystem::path& path);
  LedgerReader(LedgerReader&&) noexcept;
  LedgerReader& operator=(LedgerReader&&) noexcept;
  ~LedgerReader();

  const LedgerInfo& info() const;
  const std::filesystem::path& path() const;

  // Overwrites `epoch` with the next one; returns false at the end. Errors name the file and the
  // byte offset of the frame that is cut or damaged, and stay. Earlier epochs remain valid.
  Result<bool> Next(LedgerEpoch& epoch);

  // Tells if the daemon finished the ledger; false: it was killed, or still writes. Precondition:
  // Next() returned false.
  bool finished() const;
  StreamEnd End() const;

 private:
  struct State;
  explicit LedgerReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
