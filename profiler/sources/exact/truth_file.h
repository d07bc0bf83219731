// SPDX-License-Identifier: Apache-2.0
// A truth stream that was kept in a file, as epochs.

#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "profiler/sources/exact/truth_assembler.h"
#include "profiler/sources/exact/truth_decoder.h"

namespace tmprof::exact {

enum class PagesOf {
  kProcesses,       // virtual pages
  kPhysicalMemory,  // frames, of all processes together; of a virtual machine's stream alone
};

class TruthFile final : public EpochStream {
 public:
  // Fails on a file that is no truth stream, or has no such pages.
  static Result<TruthFile> Open(const std::filesystem::path& path, PagesOf pages);

  const TruthOrigin& origin() const { return *decoder_.origin(); }

  // A stream that was cut ends with its last whole epoch.
  Result<bool> Next(EpochProfile& epoch) override;
  StreamEnd End() const override;

 private:
  TruthFile(UniqueFd fd, std::filesystem::path path);
  Result<bool> ReadMore();  // false at the end of the file

  UniqueFd fd_;
  std::filesystem::path path_;
  PagesOf pages_ = PagesOf::kProcesses;
  TruthDecoder decoder_;
  std::unique_ptr<TruthAssembler> assembler_;
  std::optional<Error> error_;
};

}  // namespace tmprof::exact
