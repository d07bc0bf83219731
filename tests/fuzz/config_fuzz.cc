// SPDX-License-Identifier: Apache-2.0
// No text may crash the reader of tmprofd's configuration. What it takes, protobuf's own parser
// takes to the same message, and a configuration says the same when it is printed and read again.
// What it refuses has its faults in the order of the text.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apps/tmprofd/config_file.h"
#include "base/check.h"
#include "proto/text_reader.h"

namespace tmprof {
namespace {

namespace pb = google::protobuf;

const pb::Message& EmptyConfig() {
  static const pb::Message* const config = [] {
    const auto* type =
        pb::DescriptorPool::generated_pool()->FindMessageTypeByName("tmprof.wire.Config");
    TMPROF_CHECK(type != nullptr);
    return pb::MessageFactory::generated_factory()->GetPrototype(type);
  }();
  return *config;
}

void CheckText(const std::string& text) {
  const std::unique_ptr<pb::Message> ours(EmptyConfig().New());
  const TextReading reading = ReadText(text, *ours);
  TMPROF_CHECK(std::ranges::is_sorted(reading.faults));
  const Result<Config> config = ParseConfig(text, "text");
  if (!reading.faults.empty()) {
    TMPROF_CHECK(!config.has_value());
    return;
  }
  const std::unique_ptr<pb::Message> theirs(EmptyConfig().New());
  TMPROF_CHECK(pb::TextFormat::ParseFromString(text, theirs.get()));
  TMPROF_CHECK(ours->SerializeAsString() == theirs->SerializeAsString());

  if (!config) return;
  const std::string printed = PrintConfig(*config);
  const Result<Config> again = ParseConfig(printed, "printed");
  TMPROF_CHECK(again.has_value());
  TMPROF_CHECK(PrintConfig(*again) == printed);
}

}  // namespace
}  // namespace tmprof

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tmprof::CheckText(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
