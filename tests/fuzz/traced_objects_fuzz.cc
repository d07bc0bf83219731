// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the reader of a trace's objects, make it spend memory that the file does not
// justify, or get objects past it that the writer would not have written.

#include "objects/format/allocations_codec.h"
#include "proto/trace_file.h"
#include "tests/fuzz/framed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tmprof::MemoryFile input;
  static tmprof::MemoryFile copy;
  const tmprof::ExtensionCodec* codec = &tmprof::AllocationsCodec();
  input.Fill(data, size);
  std::vector<tmprof::EpochProfile> epochs;
  if (auto reader = tmprof::TraceReader::Open(input.path(), codec)) {
    epochs = tmprof::ReadAll<tmprof::EpochProfile>(*reader);
  }
  tmprof::Result<tmprof::TraceWriter> writer = tmprof::TraceWriter::Create(copy.path(), {});
  TMPROF_CHECK(writer.has_value());
  for (const tmprof::EpochProfile& epoch : epochs) {
    TMPROF_CHECK(writer->Write(epoch).has_value());  // checks the rules of a profile
  }
  TMPROF_CHECK(writer->Finish().has_value());
  auto again = tmprof::TraceReader::Open(copy.path(), codec);
  TMPROF_CHECK(again.has_value());
  TMPROF_CHECK(tmprof::ReadAll<tmprof::EpochProfile>(*again) == epochs);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  return tmprof::MutateInside(tmprof::kTraceFormat, data, size, max_size, seed);
}
