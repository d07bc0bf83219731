// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "profiler/source_kind.h"
#include "profiler/sources/exact/truth_frames.h"

namespace tmprof::exact {

Result<TruthFile> TruthFile::Open(const std::filesystem::path& path, PagesOf pages) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Fail(Refused("open truth stream", path.string(), errno));
  TruthFile file(std::move(fd), path);
  while (!file.decoder_.origin()) {
    const Result<bool> more = file.ReadMore();
    if (!more) {
      if (!file.decoder_.origin()) return Fail(more.error());
      file.error_ = more.error();  // the epochs before it stand
    } else if (!*more) {
      return Fail(BadInput("read truth stream", path.string(), "it ends within its header"));
    }
  }
  if (pages == PagesOf::kPhysicalMemory && !file.origin().of_virtual_machine)
    return Fail(BadInput("read truth stream", path.string(),
                         "it knows no physical memory: its program ran in no virtual machine"));
  file.pages_ = pages;
  file.assembler_ = std::make_unique<TruthAssembler>(
      file.origin().of_virtual_machine ? kTiersimSource : kExactSource);
  return file;
}

TruthFile::TruthFile(UniqueFd fd, std::filesystem::path path)
    : fd_(std::move(fd)), path_(std::move(path)), decoder_(path_.string()) {}

Result<bool> TruthFile::ReadMore() {
  std::array<char, 65536> bytes{};
  ssize_t got = -1;
  do {
    got = read(fd_.get(), bytes.data(), bytes.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Fail(Refused("read truth stream", path_.string(), errno));
  if (got == 0) return false;
  if (auto fed = decoder_.Feed(std::span(bytes.data(), static_cast<std::size_t>(got))); !fed)
    return Fail(fed.error());
  return true;
}

Result<bool> TruthFile::Next(EpochProfile& epoch) {
  while (true) {
    if (auto next = decoder_.Next()) {
      const bool by_frame = pages_ == PagesOf::kPhysicalMemory;
      assembler_->Add(origin(), 0, by_frame ? ByFrame(*std::move(next)) : *std::move(next));
      epoch = assembler_->Build({});
      return true;
    }
    if (error_) return Fail(*error_);
    const Result<bool> more = ReadMore();
    if (!more) {
      error_ = more.error();  // after the epochs that came whole before it
      continue;
    }
    if (!*more) return false;
  }
}

StreamEnd TruthFile::End() const {
  return {.damage = std::nullopt,
          .finished = decoder_.finished(),
          .byte_offset = decoder_.finished() ? std::nullopt : std::optional(decoder_.offset()),
          .outcome = std::nullopt};
}

}  // namespace tmprof::exact
