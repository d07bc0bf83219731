// SPDX-License-Identifier: Apache-2.0
// The trace file, tmprof.data: one header, one frame per epoch, one end frame. proto/README.md has
// the layout and the compatibility promise.

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

namespace tmprof {

// Streams: holds one epoch at a time. Not thread-safe.
class TraceWriter {
 public:
  // Creates (mode 0600) or truncates `path` and writes the header. "-" is refused.
  static Result<TraceWriter> Create(const std::filesystem::path& path, const TraceInfo& info);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();  // does not Finish(): a destroyed writer leaves a trace that ends early, and says
                   // so

  // The frame is handed to the kernel before this returns: killing the process afterwards loses
  // nothing of it. A failed write leaves the file as it was before the call (truncated back), and
  // the writer refuses all further calls with the same error.
  Status Write(const EpochProfile& epoch);
  // Marks the trace as complete.
  Status Finish();

  std::uint64_t bytes_written() const;

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Streams: memory is bounded by the largest epoch. Not thread-safe.
class TraceReader final : public EpochStream {
 public:
  // Fails on a wrong magic number, a version of the future, or a damaged header.
  static Result<TraceReader> Open(const std::filesystem::path& path);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader() override;

  const TraceInfo& info() const;
  const std::filesystem::path& path() const;

  // Errors name the file and the byte offset of the frame that is cut or damaged.
  Result<bool> Next(EpochProfile& epoch) override;

  // After Next() returned false: whether the recorder finished the trace, or was killed (every
  // epoch it had completed is there).
  bool finished() const;

 private:
  struct State;
  explicit TraceReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tmprof
