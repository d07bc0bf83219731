// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "proto/epoch_codec.h"
#include "proto/framed_file.h"
#include "proto/record_budget.h"
#include "proto/trace.pb.h"
#include "proto/trace_file.h"

namespace tmprof {

struct TraceWriter::State {
  FramedFileWriter file;
  std::uint64_t epochs = 0;
  std::uint64_t records = 0;
  MappingMemory mappings;
  RecordBudget budget;
  wire::Epoch message;
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::Create(const std::filesystem::path& path, const TraceInfo& info) {
  wire::TraceHeader header;
  EncodeInfo(info, header);
  Result<FramedFileWriter> file = FramedFileWriter::Create(kTraceFormat, path, header);
  if (!file) return Fail(std::move(file.error()));
  return TraceWriter(std::make_unique<State>(State{.file = std::move(*file)}));
}

Status TraceWriter::Write(const EpochProfile& epoch) {
  State& s = *state_;
  if (Status status = s.file.status(); !status) return status;
  EncodeEpoch(epoch, s.mappings, s.message);
  const std::uint64_t least = s.budget.LeastFileBytes(epoch.pages, s.file.bytes_written());
  const std::uint64_t of_extension =
      epoch.extension ? epoch.extension->MemoryToDecode(s.message.extension()) : 0;
  if (Status status = s.file.AppendEpoch(epoch.index, s.message, least, of_extension); !status)
    return status;
  ++s.epochs;
  s.records += epoch.pages.size();
  return {};
}

namespace {

void EncodeOutcome(const RecordingOutcome& outcome, wire::Outcome& message) {
  message.set_saw_enough(outcome.saw_enough);
  message.set_text(outcome.text);
  if (outcome.looked_at) message.set_looked_at_pages(outcome.looked_at->value());
  if (outcome.accessed) message.set_accessed_pages(outcome.accessed->value());
  if (outcome.resident) message.set_resident_pages(outcome.resident->value());
  const UnobservableMemory& unobservable = outcome.unobservable;
  if (unobservable.refused) message.set_refused_pages(unobservable.refused->value());
  if (unobservable.device) message.set_device_pages(unobservable.device->value());
  if (unobservable.locked) message.set_locked_pages(unobservable.locked->value());
  if (unobservable.hugetlb) message.set_hugetlb_pages(unobservable.hugetlb->value());
  if (const auto& filtered = outcome.filtered) {
    message.set_filtered_processes(filtered->processes);
    message.set_filtered_pages(filtered->resident.value());
    message.set_filtered_cpu_share(filtered->cpu_share);
  }
}

}  // namespace

Status TraceWriter::Finish(const std::optional<RecordingOutcome>& outcome) {
  wire::TraceEnd end;
  if (outcome) {
    EncodeOutcome(*outcome, *end.mutable_outcome());
  }
  end.set_epochs(state_->epochs);
  end.set_records(state_->records);
  return state_->file.Finish(end);
}

std::uint64_t TraceWriter::bytes_written() const { return state_->file.bytes_written(); }

}  // namespace tmprof
