// SPDX-License-Identifier: Apache-2.0
// What traces and ledgers share: a file of frames that begins with a header, has a frame for each
// epoch and closes with an end (docs/trace-format.md). The codecs know what the messages mean.
// Internal to proto/ and its tests.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <google/protobuf/message.h>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "proto/frame.h"

namespace tmprof {

// Holds one message at a time. Not thread-safe.
class FramedFileWriter {
 public:
  // Creates `path` or empties it, and writes the header. A regular file gets mode 0600, or what an
  // existing one has of it, and is locked (flock) against a second writer; symbolic links are
  // followed. Devices and pipes do too. "-" is refused.
  static Result<FramedFileWriter> Create(const FileFormat& format,
                                         const std::filesystem::path& path,
                                         const google::protobuf::Message& header);

  // The error of the call that failed: all calls after it do the same. No error, no failure.
  Status status() const { return error_ ? Status(Fail(*error_)) : Status(); }

  // The frame is handed to the kernel before this returns: killing the process afterwards loses
  // nothing of it. A failed write leaves the file as it was before the call (truncated back), and
  // the writer refuses all further calls with the same error. Precondition: `index` ascends.
  // The file is then `least_file_bytes` long at least.
  Status AppendEpoch(std::uint64_t index, const google::protobuf::Message& epoch,
                     std::uint64_t least_file_bytes = 0);
  // Marks the file as complete and brings it to the disk. Nothing may be written afterwards.
  Status Finish(const google::protobuf::Message& end);

  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  FramedFileWriter(const FileFormat& format, std::filesystem::path path);

  Status Open();
  // All of `bytes`, or none where the file can be cut back.
  Status Append(const std::string& attempt, std::string_view bytes);
  Status AppendFrame(const std::string& attempt, FrameKind kind,
                     const google::protobuf::Message& contents, std::uint64_t least_file_bytes = 0);
  Error WriteError(const std::string& attempt, int system_error) const;

  const FileFormat* format_;
  std::filesystem::path path_;
  UniqueFd fd_;
  bool regular_ = false;
  std::uint64_t bytes_written_ = 0;
  std::optional<std::uint64_t> last_index_;
  bool finished_ = false;
  std::optional<Error> error_;
  FrameEncoder encoder_;
  std::string message_;
};

// Not thread-safe.
class FramedFileReader {
 public:
  // What is wrong with a frame becomes an error that names the file and the frame's offset.
  using Read = std::function<Verdict(const Frame&)>;

  // Fails on a wrong magic number, a version of the future, or a damaged header. Takes anything
  // that can be read from start to end, a pipe too.
  static Result<FramedFileReader> Open(const FileFormat& format, const std::filesystem::path& path,
                                       const Read& read_header);

  // Hands the next epoch to `read_epoch`, and the end to `read_end`; skips frames of a kind that it
  // does not know. False at the end. After an error every further call returns the same error.
  Result<bool> Next(const Read& read_epoch, const Read& read_end);

  const std::filesystem::path& path() const { return frames_.path(); }
  // After Next() returned false: whether there was an end.
  bool finished() const { return finished_; }
  StreamEnd End() const;

 private:
  explicit FramedFileReader(FrameReader frames) : frames_(std::move(frames)) {}

  Result<bool> ReadOn(const Read& read_epoch, const Read& read_end);
  Status ReadEnd(const Frame& frame, const Read& read_end);
  std::unexpected<Error> Damaged(const Frame& frame, std::string_view what) const;

  FrameReader frames_;
  bool at_end_ = false;
  bool finished_ = false;
  std::optional<Error> error_;
};

// `what` names the message: "epoch". Refuses one that would take more memory than its frame may.
Verdict Parse(const Frame& frame, std::string_view what, google::protobuf::Message& parsed);

}  // namespace tmprof
