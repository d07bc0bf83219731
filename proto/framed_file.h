// SPDX-License-Identifier: Apache-2.0
// The common part of traces and ledgers: a file of frames that begins with a header, has a frame
// for each epoch and ends with an end frame (docs/trace-format.md). The codecs know the meaning of
// the messages. Internal to proto/ and its tests.

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
  // Creates `path` or empties it, and writes the header. A regular file gets mode 0600; an existing
  // one keeps those bits of 0600 that it has. It is locked (flock) against a second writer.
  // Symbolic links are followed, and devices and pipes are accepted. "-" is refused.
  static Result<FramedFileWriter> Create(const FileFormat& format,
                                         const std::filesystem::path& path,
                                         const google::protobuf::Message& header);

  // Returns the error of the call that failed; all later calls fail with it, too.
  Status status() const { return error_ ? Status(Fail(*error_)) : Status(); }

  // The kernel has the frame when this returns: killing the process afterwards loses nothing of it.
  // If a write fails, the file stays as it was before the call (truncated back), and the writer
  // refuses all further calls with that error. Precondition: `index` ascends. The file is then at
  // least `least_file_bytes` long. A reader needs `more_memory` besides that of the message itself.
  Status AppendEpoch(std::uint64_t index, const google::protobuf::Message& epoch,
                     std::uint64_t least_file_bytes = 0, std::uint64_t more_memory = 0);
  // Marks the file as complete and syncs it to the disk. Nothing may be written afterwards.
  Status Finish(const google::protobuf::Message& end);

  std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  FramedFileWriter(const FileFormat& format, std::filesystem::path path);

  Status Open();
  // Writes all of `bytes`, or none if the file can be truncated back.
  Status Append(const std::string& attempt, std::string_view bytes);
  Status AppendFrame(const std::string& attempt, FrameKind kind,
                     const google::protobuf::Message& contents, std::uint64_t least_file_bytes = 0,
                     std::uint64_t more_memory = 0);
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
  // A fault of a frame becomes an error that names the file and the frame's offset.
  using Read = std::function<Verdict(const Frame&)>;

  // Fails on a wrong magic number, a newer version, or a damaged header. Takes anything that can be
  // read from start to end, including a pipe.
  static Result<FramedFileReader> Open(const FileFormat& format, const std::filesystem::path& path,
                                       const Read& read_header);

  // Hands the next epoch to `read_epoch`, and the end to `read_end`. Skips frames of unknown kinds.
  // Returns false at the end. After an error every further call returns that error.
  Result<bool> Next(const Read& read_epoch, const Read& read_end);

  const std::filesystem::path& path() const { return frames_.path(); }
  // Tells if there was an end frame. Precondition: Next() returned false.
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

// Memory that a message and the objects made from it may take.
std::uint64_t MostMemory(const Frame& frame);
// Refuses a message that takes more memory than its frame may. `what` names it: "epoch".
Verdict CheckMemory(const Frame& frame, std::string_view what, std::uint64_t memory);

// `what` names the message: "epoch". Refuses a message that would take more memory than its frame
// may.
Verdict Parse(const Frame& frame, std::string_view what, google::protobuf::Message& parsed);

}  // namespace tmprof
