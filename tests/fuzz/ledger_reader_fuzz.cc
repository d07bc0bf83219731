// SPDX-License-Identifier: Apache-2.0
// No bytes may crash the ledger reader, make it spend memory that the file does not justify, or get
// a move past it that the writer would not have written.

#include "proto/ledger_file.h"
#include "tests/fuzz/framed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tmprof::MemoryFile input;
  static tmprof::MemoryFile copy;
  input.Fill(data, size);
  auto reader = tmprof::LedgerReader::Open(input.path());
  if (!reader) return 0;
  const auto epochs = tmprof::ReadAll<tmprof::LedgerEpoch>(*reader);
  auto writer = tmprof::LedgerWriter::Create(copy.path(), reader->info());
  TMPROF_CHECK(writer.has_value());
  for (const tmprof::LedgerEpoch& epoch : epochs) {
    TMPROF_CHECK(writer->Write(epoch).has_value());  // checks the rules of an epoch
  }
  TMPROF_CHECK(writer->Finish().has_value());
  auto again = tmprof::LedgerReader::Open(copy.path());
  TMPROF_CHECK(again.has_value() && again->info() == reader->info());
  TMPROF_CHECK(tmprof::ReadAll<tmprof::LedgerEpoch>(*again) == epochs);
  TMPROF_CHECK(again->finished());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  return tmprof::MutateInside(tmprof::kLedgerFormat, data, size, max_size, seed);
}
