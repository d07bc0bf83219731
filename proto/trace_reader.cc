// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "proto/epoch_codec.h"
#include "proto/frame.h"
#include "proto/trace.pb.h"
#include "proto/trace_file.h"

namespace tmprof {

struct TraceReader::State {
  explicit State(FrameReader reader) : frames(std::move(reader)) {}

  FrameReader frames;
  TraceInfo info;
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  std::optional<std::uint64_t> last_index;
  bool at_end = false;
  bool finished = false;
  std::optional<Error> error;
  MappingMemory mappings;
  wire::Epoch message;

  Status ReadHeader();
  Result<bool> Next(EpochProfile& epoch);
  Status ReadEpoch(const Frame& frame, EpochProfile& epoch);
  Status ReadEnd(const Frame& frame);

  std::unexpected<Error> Damaged(const Frame& frame, std::string_view what) const {
    return Fail(frames.FrameError(frame.offset, what));
  }
  // `what` names the message.
  Status Parse(const Frame& frame, const char* what, google::protobuf::MessageLite& parsed) const {
    if (parsed.ParseFromArray(frame.message.data(), static_cast<int>(frame.message.size()))) {
      return {};
    }
    return Damaged(frame, fmt::format("the {} is not a protobuf message", what));
  }
};

Status TraceReader::State::ReadHeader() {
  if (Status status = frames.ReadPreamble(); !status) return status;
  const Result<std::optional<Frame>> next = frames.Next();
  if (!next) return Fail(next.error());
  const std::optional<Frame>& frame = *next;
  if (!frame) return Fail(frames.FrameError(kPreambleBytes, "the file is cut before its header"));
  if (frame->kind != FrameKind::kHeader) {
    return Damaged(*frame, "it is not the header, which comes first");
  }
  wire::TraceHeader header;
  if (Status status = Parse(*frame, "header", header); !status) return status;
  if (header.start_ns() < 0) return Damaged(*frame, "the trace starts before the machine did");
  info = DecodeInfo(header);
  return {};
}

Status TraceReader::State::ReadEpoch(const Frame& frame, EpochProfile& epoch) {
  if (Status status = Parse(frame, "epoch", message); !status) return status;
  if (Verdict verdict = DecodeEpoch(message, frame.message.size(), mappings, epoch); !verdict) {
    return Damaged(frame, verdict.error());
  }
  if (last_index && epoch.index <= *last_index) {
    return Damaged(frame, fmt::format("epoch {} is not in ascending order", epoch.index));
  }
  last_index = epoch.index;
  ++epochs;
  records += epoch.pages.size();
  return {};
}

Status TraceReader::State::ReadEnd(const Frame& frame) {
  wire::TraceEnd end;
  if (Status status = Parse(frame, "end", end); !status) return status;
  if (end.epochs() != epochs || end.records() != records) {
    return Damaged(frame, fmt::format("the trace was finished with {} epochs and {} page records, "
                                      "but {} and {} are here",
                                      end.epochs(), end.records(), epochs, records));
  }
  const Result<std::optional<Frame>> next = frames.Next();
  if (!next) return Fail(next.error());
  const std::optional<Frame>& after = *next;
  if (after) return Damaged(*after, "it follows the end of the trace");
  return {};
}

Result<bool> TraceReader::State::Next(EpochProfile& epoch) {
  while (true) {
    const Result<std::optional<Frame>> next = frames.Next();
    if (!next) return Fail(next.error());
    const std::optional<Frame>& frame = *next;
    if (!frame) return false;
    switch (frame->kind) {
      case FrameKind::kEpoch: {
        if (Status status = ReadEpoch(*frame, epoch); !status) return Fail(status.error());
        return true;
      }
      case FrameKind::kEnd: {
        if (Status status = ReadEnd(*frame); !status) return Fail(status.error());
        finished = true;
        return false;
      }
      case FrameKind::kHeader:
        return Damaged(*frame, "it is a second header");
    }
    // A kind of a later version that an older reader may skip (README.md).
  }
}

TraceReader::TraceReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::Open(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    return Fail(Refused("open trace file", path.string(), error,
                        error == ENOENT ? "make one with 'tmprof record'" : ""));
  }
  auto state = std::make_unique<State>(FrameReader(std::move(fd), path));
  if (Status status = state->ReadHeader(); !status) return Fail(status.error());
  return TraceReader(std::move(state));
}

const TraceInfo& TraceReader::info() const { return state_->info; }
const std::filesystem::path& TraceReader::path() const { return state_->frames.path(); }
bool TraceReader::finished() const { return state_->finished; }

StreamEnd TraceReader::End() const {
  StreamEnd end;
  end.finished = state_->finished;
  if (!state_->finished) end.byte_offset = state_->frames.offset();
  return end;
}

Result<bool> TraceReader::Next(EpochProfile& epoch) {
  State& s = *state_;
  if (s.error) return Fail(*s.error);
  if (s.at_end) return false;
  const Result<bool> more = s.Next(epoch);
  if (!more) s.error = more.error();
  if (more && !*more) s.at_end = true;
  return more;
}

}  // namespace tmprof
