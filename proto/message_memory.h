// SPDX-License-Identifier: Apache-2.0
// Estimates from its bytes how much memory a message takes once it is decoded. Internal to proto/.

#pragma once

#include <cstdint>
#include <string_view>

#include <google/protobuf/descriptor.h>

namespace tmprof {

// An empty sub-message has two bytes in a file and some hundred in memory, and zstd compresses a
// million of them to next to nothing. A frame may therefore take this much memory, and more for
// each byte of its payload. The writer keeps to it by padding.
inline constexpr std::uint64_t kFreeMessageMemory = std::uint64_t{128} << 20;
inline constexpr std::uint64_t kMemoryPerPayloadByte = 256;

// Estimates the memory of the message and of the objects made from it, without decoding it. Bytes
// that are no message count up to the first fault.
std::uint64_t MessageMemory(std::string_view message, const google::protobuf::Descriptor& type);

}  // namespace tmprof
