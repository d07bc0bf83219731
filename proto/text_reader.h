// SPDX-License-Identifier: Apache-2.0
// Reads protobuf's text format as people write it: on after a fault, so that all of them are
// reported at once, each with its place. protobuf's own parser stops at the first. It still reads
// each value.

#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tmprof {

// Both count from 1; a column is a byte, a tab goes on to the next multiple of 8.
struct TextPlace {
  int line = 1;
  int column = 1;
  friend auto operator<=>(const TextPlace&, const TextPlace&) = default;
};

struct TextFault {
  TextPlace place;
  std::string field;  // "tiers.tier.node"; may be empty
  std::string what;   // the fault, and the values that are allowed
  friend auto operator<=>(const TextFault&, const TextFault&) = default;
};

// The text that was read into a message, with the place of each value, for those who judge its
// meaning.
class TextReading {
 public:
  std::vector<TextFault> faults;

  // A fault of a field that `message` has; of its value `index` where it is repeated.
  void Refuse(const google::protobuf::Message& message, const std::string& field, std::string what,
              int index = 0);

 private:
  friend class TextReader;
  struct Given {
    std::string path;
    std::vector<TextPlace> places;  // a repeated field has one for each value that was accepted
  };

  std::map<std::pair<const google::protobuf::Message*, std::string>, Given> given_;
};

// Fills `message`, which must be empty and stay where it is, with all that is right. A value is
// wrong that is not of its field's type or not in its `range` (proto/config.proto), and text with
// control characters; so is a second value of a field that has one.
TextReading ReadText(std::string_view text, google::protobuf::Message& message);

// Sets a field that takes one value, or adds the value to a field that is repeated. `text` is the
// value as a file has it. Returns false and leaves `message` without the value if the field does
// not take it.
bool StoreValue(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                const std::string& text);
// "a whole number from 100 to 3600000"
std::string Wanted(const google::protobuf::FieldDescriptor& field);
// "there is no such field; mover has hysteresis, attempts", for the fields of `group`, whose path
// is empty for a whole configuration.
std::string NoSuchField(const google::protobuf::Descriptor& group, const std::string& path);

}  // namespace tmprof
