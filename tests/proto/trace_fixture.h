// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of traces and ledgers: a folder, small profiles, and a hand-rolled protobuf
// writer, so that the field numbers on disk are checked against a second source.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/trace_info.h"
#include "proto/trace_file.h"

namespace tmprof {

// A fresh folder, removed with everything in it.
class TraceTest : public testing::Test {
 protected:
  TraceTest();
  ~TraceTest() override;

  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path path() const { return folder_ / "t.tmprof.data"; }

 private:
  std::filesystem::path folder_;
};

// Lets files grow to a limit, then fail with EFBIG: a full disk that any user can have.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes);
  ~FileSizeLimit();
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int);
};

TraceInfo SmallInfo();
// Three epochs that use every field, with unknowns and zeros side by side: mappings that stay,
// change and return, a target that comes and one that goes.
std::vector<EpochProfile> SmallEpochs();

std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, std::string_view bytes);

void WriteTrace(const std::filesystem::path& path, const TraceInfo& info,
                const std::vector<EpochProfile>& epochs);
// The bytes of a finished trace made through a file at `path`.
std::string TraceBytes(const std::filesystem::path& path, const std::vector<EpochProfile>& epochs);

struct ReadBack {
  TraceInfo info;
  std::vector<EpochProfile> epochs;
  bool finished = false;
  StreamEnd end;
  std::string error;  // empty: none
};
ReadBack ReadTrace(const std::filesystem::path& path, const ExtensionCodec* codec = nullptr);

// Protobuf wire format by hand (protobuf.dev, "Encoding").
std::string Varint(std::uint64_t value);
std::string Number(int field, std::uint64_t value);
std::string Bytes(int field, std::string_view contents);  // also sub-messages
std::string Packed(int field, std::initializer_list<std::uint64_t> values);

// Preamble and header of an otherwise empty trace, and frames to follow them.
std::string EmptyTrace();
std::string FrameOf(std::uint32_t kind, std::string_view message);

}  // namespace tmprof
