// SPDX-License-Identifier: Apache-2.0
// The trace file, tmprof.data: one header, one frame per epoch, one end frame. docs/trace-format.md
// has the layout and the compatibility promise.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/trace_info.h"
#include "proto/extension_codec.h"

namespace tmprof {

// Holds one epoch at a time. Not thread-safe.
class TraceWriter {
 public:
  // Creates `path` or empties it, and writes the header. A regular file gets mode 0600; an existing
  // one keeps those bits of 0600 that it has. It is locked (flock) against a second writer.
  // Symbolic links are followed, and devices and pipes are accepted. "-" is refused.
  static Result<TraceWriter> Create(const std::filesystem::path& path, const TraceInfo& info);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  // Does not call Finish(): a destroyed writer leaves a trace that ends early and says so.
  ~TraceWriter();

  // The kernel has the frame when this returns: killing the process afterwards loses nothing of it.
  // If a write fails, the file stays as it was before the call (truncated back), and the writer
  // refuses all further calls with that error. Indexes ascend from call to call; an epoch that
  // breaks the rules of base/epoch_profile.h is a broken invariant.
  Status Write(const EpochProfile& epoch);
  // Marks the trace as complete and syncs it to the disk. Nothing may be written afterwards.
  Status Finish(const std::optional<RecordingOutcome>& outcome = std::nullopt);

  std::uint64_t bytes_written() const;

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Memory is bounded by the largest epoch. Not thread-safe.
class TraceReader final : public EpochStream {
 public:
  // Fails on a wrong magic number, a newer version, or a damaged header. Takes anything that can be
  // read from start to end, including a pipe. `codec` reads the extensions of epochs, and has to
  // outlive the reader; null: they stay UndecodedExtension.
  static Result<TraceReader> Open(const std::filesystem::path& path,
                                  const ExtensionCodec* codec = nullptr);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader() override;

  const TraceInfo& info() const;
  const std::filesystem::path& path() const;

  // Errors name the file and the byte offset of the frame that is cut or damaged. Every returned
  // epoch keeps the rules of base/epoch_profile.h. Reuses the capacity of `epoch`.
  Result<bool> Next(EpochProfile& epoch) override;

  // Tells if the recorder finished the trace; false: it was killed, and every epoch that it had
  // completed is there. Precondition: Next() returned false.
  bool finished() const;
  StreamEnd End() const override;

 private:
  struct State;
  explicit TraceReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
