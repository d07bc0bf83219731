// SPDX-License-Identifier: Apache-2.0

#include "proto/message_memory.h"

#include <google/protobuf/io/coded_stream.h>

namespace tmprof {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

constexpr std::uint64_t kSubMessageMemory = 256;  // the message and the objects made from it
constexpr std::uint64_t kTextMemory = 64;         // in addition to its bytes
constexpr std::uint64_t kNumberMemory = 16;       // a repeated or unknown field

// Wire types of the protobuf encoding.
enum : std::uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

std::uint64_t MemoryOf(CodedInputStream& in, const Descriptor& type);

std::uint64_t MemoryOfLength(CodedInputStream& in, const FieldDescriptor* field) {
  std::uint32_t bytes = 0;
  if (!in.ReadVarint32(&bytes)) return 0;
  if (field != nullptr && field->message_type() != nullptr) {
    const CodedInputStream::Limit outside = in.PushLimit(static_cast<int>(bytes));
    const std::uint64_t inside = MemoryOf(in, *field->message_type());
    in.Skip(in.BytesUntilLimit());
    in.PopLimit(outside);
    return kSubMessageMemory + inside;
  }
  in.Skip(static_cast<int>(bytes));
  const bool packed = field != nullptr && field->is_packable();
  return packed ? kNumberMemory * bytes : kTextMemory + bytes;
}

std::uint64_t MemoryOf(CodedInputStream& in, const Descriptor& type) {
  std::uint64_t memory = 0;
  while (const std::uint32_t tag = in.ReadTag()) {
    const FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
    std::uint64_t ignored = 0;
    switch (tag & 7) {
      case kVarint:
        in.ReadVarint64(&ignored);
        break;
      case kFixed64:
        in.Skip(8);
        break;
      case kFixed32:
        in.Skip(4);
        break;
      case kLength:
        memory += MemoryOfLength(in, field);
        continue;
      default:  // a group, which only a later version may have: its fields count as unknown
        break;
    }
    if (field == nullptr || field->is_repeated()) memory += kNumberMemory;
  }
  return memory;
}

}  // namespace

std::uint64_t MessageMemory(std::string_view message, const Descriptor& type) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  return MemoryOf(in, type);
}

}  // namespace tmprof
