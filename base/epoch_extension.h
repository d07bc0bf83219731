// SPDX-License-Identifier: Apache-2.0
// The part of an epoch that belongs to an optional component. All others carry it along, and know
// nothing of its contents.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tmprof {

struct EpochProfile;

class EpochExtension {
 public:
  virtual ~EpochExtension() = default;

  virtual std::unique_ptr<EpochExtension> Copy() const = 0;
  virtual bool Equals(const EpochExtension& other) const = 0;
  // Returns the bytes that a trace stores. `epoch` has this extension.
  virtual std::string Encode(const EpochProfile& epoch) const = 0;
  // Estimates the memory that a reader needs to decode these bytes, without decoding them.
  virtual std::uint64_t MemoryToDecode(std::string_view encoded) const = 0;
};

// Holds an extension or none. Copies and compares it by its contents.
class ExtensionSlot {
 public:
  ExtensionSlot() = default;
  explicit ExtensionSlot(std::unique_ptr<EpochExtension> held) : held_(std::move(held)) {}
  ExtensionSlot(const ExtensionSlot& other) : held_(CopyOf(other)) {}
  ExtensionSlot(ExtensionSlot&&) noexcept = default;
  ExtensionSlot& operator=(const ExtensionSlot& other) {
    if (this != &other) held_ = CopyOf(other);
    return *this;
  }
  ExtensionSlot& operator=(ExtensionSlot&&) noexcept = default;
  ~ExtensionSlot() = default;

  explicit operator bool() const { return held_ != nullptr; }
  const EpochExtension* operator->() const { return held_.get(); }
  void reset() { held_.reset(); }
  // nullptr: there is no extension, or it is of another kind.
  template <typename Kind>
  const Kind* As() const {
    return dynamic_cast<const Kind*>(held_.get());
  }
  template <typename Kind>
  Kind* As() {
    return dynamic_cast<Kind*>(held_.get());
  }

  friend bool operator==(const ExtensionSlot& a, const ExtensionSlot& b) {
    if (!a || !b) return !a && !b;
    return a->Equals(*b.held_);
  }

 private:
  static std::unique_ptr<EpochExtension> CopyOf(const ExtensionSlot& slot) {
    return slot ? slot->Copy() : nullptr;
  }

  std::unique_ptr<EpochExtension> held_;
};

}  // namespace tmprof
