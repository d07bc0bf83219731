// SPDX-License-Identifier: Apache-2.0
// How much memory a message takes once it is decoded, told from its bytes. Internal to proto/.

#pragma once

#include <cstdint>
#include <string_view>

#include <google/protobuf/descriptor.h>

namespace tmprof {

// An empty sub-message has two bytes in a file and some hundred in memory, and what zstd makes of a
// million of them is next to nothing. A frame may therefore take so much memory, and so much more
// for each byte of its payload. The writer keeps to it by padding.
inline constexpr std::uint64_t kFreeMessageMemory = std::uint64_t{128} << 20;
inline constexpr std::uint64_t kMemoryPerPayloadByte = 256;

// Estimates the memory of the message and of what is made of it, without decoding it. Bytes that
// are no message count up to where they cease to be one.
std::uint64_t MessageMemory(std::string_view message, const google::protobuf::Descriptor& type);

}  // namespace tmprof
