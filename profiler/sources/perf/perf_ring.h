// SPDX-License-Identifier: Apache-2.0
// One CPU's ring of perf records, read by its only consumer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

// Calls `visit(std::span<const std::byte> record)` for each complete record between tail and head,
// then gives the space back. A record that wraps is put together in `scratch`. Returns the bytes
// dropped because a header made no sense: its size is shorter than a header or runs past the head,
// so nothing after it can be found.
template <typename Visit>
std::uint64_t DrainRing(const RingMemory& ring, std::vector<std::byte>& scratch, Visit&& visit) {
  const std::uint64_t head = __atomic_load_n(&ring.control->data_head, __ATOMIC_ACQUIRE);
  std::uint64_t tail = ring.control->data_tail;
  std::uint64_t dropped = 0;
  if (head - tail > ring.data.size()) {
    dropped = head - tail;
    tail = head;
  }
  const auto copy_out = [&](std::uint64_t position, std::span<std::byte> into) {
    const auto offset = static_cast<std::size_t>(position % ring.data.size());
    const std::size_t first = std::min(into.size(), ring.data.size() - offset);
    std::memcpy(into.data(), ring.data.data() + offset, first);
    std::memcpy(into.data() + first, ring.data.data(), into.size() - first);
  };
  while (tail != head) {
    perf_event_header header{};
    const std::uint64_t available = head - tail;
    if (available >= sizeof header) {
      copy_out(tail, std::as_writable_bytes(std::span(&header, 1)));
    }
    if (header.size < sizeof header || header.size > available) {
      dropped += available;
      tail = head;
      break;
    }
    const auto offset = static_cast<std::size_t>(tail % ring.data.size());
    std::span<const std::byte> record;
    if (offset + header.size <= ring.data.size()) {
      record = ring.data.subspan(offset, header.size);
    } else {
      scratch.resize(header.size);
      copy_out(tail, scratch);
      record = scratch;
    }
    visit(record);
    tail += header.size;
  }
  __atomic_store_n(&ring.control->data_tail, tail, __ATOMIC_RELEASE);
  return dropped;
}

// Owns a ring that belongs to no sampling event: an event that counts nothing, bound to the CPU,
// whose ring the threads' events are redirected into, so that it outlives each of them.
class PerfRing {
 public:
  static Result<PerfRing> Create(PerfApi& api, CpuId cpu, std::size_t data_bytes);
  PerfRing(PerfRing&& other) noexcept
      : api_(other.api_), fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, {})) {}
  PerfRing& operator=(PerfRing&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(fd_, other.fd_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PerfRing();

  int fd() const { return fd_.get(); }
  const RingMemory& memory() const { return memory_; }

 private:
  PerfRing(PerfApi& api, UniqueFd fd, const RingMemory& memory)
      : api_(&api), fd_(std::move(fd)), memory_(memory) {}

  PerfApi* api_;
  UniqueFd fd_;
  RingMemory memory_;
};

}  // namespace tmprof
