// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "proto/epoch_codec.h"
#include "proto/framed_file.h"
#include "proto/message_memory.h"
#include "proto/record_budget.h"
#include "proto/trace.pb.h"
#include "proto/trace_file.h"

namespace tmprof {

struct TraceReader::State {
  FramedFileReader file;
  TraceInfo info;
  const ExtensionCodec* codec = nullptr;
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  std::optional<std::uint64_t> last_index;
  std::optional<RecordingOutcome> outcome;
  MappingMemory mappings;
  RecordBudget budget;
  wire::Epoch message;

  Verdict ReadEpoch(const Frame& frame, EpochProfile& epoch);
  Verdict ReadEnd(const Frame& frame);
};

Verdict TraceReader::State::ReadEpoch(const Frame& frame, EpochProfile& epoch) {
  if (Verdict verdict = Parse(frame, "epoch", message); !verdict) return verdict;
  if (codec != nullptr) {
    const std::uint64_t memory = codec->MemoryToDecode(message.extension());
    if (Verdict verdict = CheckMemory(frame, "epoch", memory); !verdict) return verdict;
  }
  if (Verdict verdict = DecodeEpoch(message, frame.message.size(), codec, mappings, epoch);
      !verdict) {
    return verdict;
  }
  if (codec == nullptr && message.has_extension()) {
    // The writer left room for it in what the frame may take.
    const std::uint64_t of_rest = MessageMemory(frame.message, *wire::Epoch::descriptor());
    epoch.extension = ExtensionSlot(
        std::make_unique<UndecodedExtension>(message.extension(), MostMemory(frame) - of_rest));
  }
  if (last_index && epoch.index <= *last_index) {
    return std::unexpected(fmt::format("epoch {} is not in ascending order", epoch.index));
  }
  const std::uint64_t file_bytes = frame.offset + kFrameHeaderBytes + frame.payload_bytes;
  if (const auto least = budget.LeastFileBytes(epoch.pages, file_bytes); least > file_bytes) {
    return std::unexpected(
        fmt::format("the trace tells of more pages than its {} bytes may: {}, and {} for each byte",
                    file_bytes, RecordBudget::kFree, RecordBudget::kPerByte));
  }
  last_index = epoch.index;
  ++epochs;
  records += epoch.pages.size();
  return {};
}

namespace {

Verdict DecodeFiltered(const wire::Outcome& message, std::optional<FilteredChildren>& filtered) {
  const bool has_pages = message.has_filtered_pages();
  const bool has_share = message.has_filtered_cpu_share();
  if (message.has_filtered_processes() != has_pages || has_pages != has_share) {
    return std::unexpected(
        std::string("a part of what the process filter left out is missing from the outcome"));
  }
  if (!has_pages) return {};
  const double share = message.filtered_cpu_share();
  if (!std::isfinite(share) || share < 0) {
    return std::unexpected(
        fmt::format("the process filter left out children with {} of a CPU", share));
  }
  filtered = {.processes = message.filtered_processes(),
              .resident = PageCount(message.filtered_pages()),
              .cpu_share = share};
  return {};
}

Verdict DecodeOutcome(const wire::Outcome& message, std::optional<RecordingOutcome>& outcome) {
  const auto pages = [](bool is_there, std::uint64_t number) {
    return is_there ? std::optional(PageCount(number)) : std::nullopt;
  };
  outcome = {
      .saw_enough = message.saw_enough(),
      .text = message.text(),
      .looked_at = pages(message.has_looked_at_pages(), message.looked_at_pages()),
      .accessed = pages(message.has_accessed_pages(), message.accessed_pages()),
      .resident = pages(message.has_resident_pages(), message.resident_pages()),
      .unobservable = {.refused = pages(message.has_refused_pages(), message.refused_pages()),
                       .device = pages(message.has_device_pages(), message.device_pages()),
                       .locked = pages(message.has_locked_pages(), message.locked_pages()),
                       .hugetlb = pages(message.has_hugetlb_pages(), message.hugetlb_pages())}};
  return DecodeFiltered(message, outcome->filtered);
}

}  // namespace

Verdict TraceReader::State::ReadEnd(const Frame& frame) {
  wire::TraceEnd end;
  if (Verdict verdict = Parse(frame, "end", end); !verdict) return verdict;
  if (end.epochs() != epochs || end.records() != records) {
    return std::unexpected(
        fmt::format("the trace was finished with {} epochs and {} page records, but {} and {} are "
                    "here",
                    end.epochs(), end.records(), epochs, records));
  }
  if (end.has_outcome()) return DecodeOutcome(end.outcome(), outcome);
  return {};
}

TraceReader::TraceReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::Open(const std::filesystem::path& path,
                                      const ExtensionCodec* codec) {
  TraceInfo info;
  const auto read_header = [&info](const Frame& frame) -> Verdict {
    wire::TraceHeader header;
    if (Verdict verdict = Parse(frame, "header", header); !verdict) return verdict;
    std::expected<TraceInfo, std::string> decoded = DecodeInfo(header);
    if (!decoded) return std::unexpected(std::move(decoded.error()));
    info = *std::move(decoded);
    return {};
  };
  Result<FramedFileReader> file = FramedFileReader::Open(kTraceFormat, path, read_header);
  if (!file) return Fail(std::move(file.error()));
  return TraceReader(std::make_unique<State>(
      State{.file = std::move(*file), .info = std::move(info), .codec = codec}));
}

const TraceInfo& TraceReader::info() const { return state_->info; }
const std::filesystem::path& TraceReader::path() const { return state_->file.path(); }
bool TraceReader::finished() const { return state_->file.finished(); }
StreamEnd TraceReader::End() const {
  StreamEnd end = state_->file.End();
  if (end.finished == true) end.outcome = state_->outcome;
  return end;
}

Result<bool> TraceReader::Next(EpochProfile& epoch) {
  State& s = *state_;
  return s.file.Next([&](const Frame& frame) { return s.ReadEpoch(frame, epoch); },
                     [&](const Frame& frame) { return s.ReadEnd(frame); });
}

}  // namespace tmprof
