// SPDX-License-Identifier: Apache-2.0
// A complaint: a source's note of something that does not work, and may work again.

#pragma once

#include <string>
#include <utility>

namespace tmprof {

// Stands in the note of every epoch in which it did not work, even for a moment.
class Complaint {
 public:
  void Raise(std::string text) {
    text_ = std::move(text);
    standing_ = true;
  }
  void Settle() { standing_ = false; }
  bool standing() const { return standing_; }

  // The complaint of the epoch that ends now; empty: there was none.
  std::string TakeEpoch() {
    std::string text = text_;
    if (!standing_) text_.clear();
    return text;
  }

 private:
  std::string text_;
  bool standing_ = false;
};

}  // namespace tmprof
