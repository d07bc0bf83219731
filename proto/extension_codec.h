// SPDX-License-Identifier: Apache-2.0
// Reads the extension of an epoch, whose bytes only its component understands.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/epoch_extension.h"
#include "base/epoch_profile.h"
#include "proto/frame.h"

namespace tmprof {

class ExtensionCodec {
 public:
  virtual ~ExtensionCodec() = default;

  // Estimates the memory of the extension, without decoding it.
  virtual std::uint64_t MemoryToDecode(std::string_view bytes) const = 0;
  // Sets the extension of `epoch`, whose times and targets are there. Refuses bytes that do not go
  // with them.
  virtual Verdict Decode(std::string_view bytes, EpochProfile& epoch) const = 0;
};

// An extension as it is in the trace, for programs without its component. A writer stores it again.
class UndecodedExtension final : public EpochExtension {
 public:
  // Decoding the bytes takes at most `most_memory`.
  UndecodedExtension(std::string bytes, std::uint64_t most_memory)
      : bytes_(std::move(bytes)), most_memory_(most_memory) {}

  std::unique_ptr<EpochExtension> Copy() const override {
    return std::make_unique<UndecodedExtension>(*this);
  }
  bool Equals(const EpochExtension& other) const override {
    const auto* same = dynamic_cast<const UndecodedExtension*>(&other);
    return same != nullptr && same->bytes_ == bytes_;
  }
  std::string Encode(const EpochProfile& /*epoch*/) const override { return bytes_; }
  std::uint64_t MemoryToDecode(std::string_view /*encoded*/) const override { return most_memory_; }

 private:
  std::string bytes_;
  std::uint64_t most_memory_;
};

}  // namespace tmprof
