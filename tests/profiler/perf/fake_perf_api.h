// SPDX-License-Identifier: Apache-2.0
// A kernel that answers as the test says, with rings in ordinary memory.

#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "profiler/sources/perf/perf_api.h"

namespace tmprof {

class FakePerfApi final : public PerfApi {
 public:
  struct Opened {
    perf_event_attr attr;
    std::optional<Tid> thread;
    std::optional<CpuId> cpu;
    int fd = 0;
  };

  // Asked before each Open; an errno refuses it.
  std::function<std::optional<int>(const perf_event_attr&, std::optional<Tid>)> refuse;
  // Asked by Threads(); runs before the answer is given.
  std::function<void()> on_threads;
  // Asked by Open() after it has succeeded.
  std::function<void(const Opened&)> on_open;
  std::vector<CpuId> cpus = {CpuId(0)};
  std::map<Pid, std::vector<Tid>> threads;
  std::map<Pid, ProcessOrigin> origins;
  std::uint64_t now_ticks = 0;
  std::map<int, std::deque<std::expected<CounterReading, int>>> readings;  // key: fd; used up
  std::map<int, std::uint64_t> lost_samples;                               // key: fd
  std::optional<int> paranoid = 2;
  std::uint64_t open_file_limit = 1024;
  std::vector<std::uint8_t> code;  // code of every process at code_start
  std::uint64_t code_start = 0;
  int memory_reads = 0;

  std::vector<Opened> opened;
  std::set<int> enabled;
  std::map<int, int> redirected;
  int next_fd = 1'000'000;  // far above any real descriptor: closing one fails without effect

  // The events a thread has, rings' own ones left out.
  std::vector<Opened> EventsOf(Tid thread) const {
    std::vector<Opened> found;
    for (const Opened& event : opened) {
      if (event.thread == thread && event.attr.config != PERF_COUNT_SW_DUMMY)
        found.push_back(event);
    }
    return found;
  }

  // Appends to the ring of the `index`-th CPU, wrapping as the kernel does.
  void Write(std::size_t index, std::span<const std::byte> record) {
    Ring& ring = *rings_[index];
    for (const std::byte byte : record) {
      ring.data[ring.control.data_head % ring.data.size()] = byte;
      ++ring.control.data_head;
    }
  }

  std::expected<UniqueFd, int> Open(const perf_event_attr& attr, std::optional<Tid> thread,
                                    std::optional<CpuId> cpu) override {
    if (refuse) {
      if (const auto error = refuse(attr, thread)) return std::unexpected(*error);
    }
    const Opened event{attr, thread, cpu, next_fd++};
    opened.push_back(event);
    if (!attr.disabled) enabled.insert(event.fd);
    if (on_open) on_open(event);
    return UniqueFd(event.fd);
  }
  std::expected<void, int> Enable(int fd) override {
    enabled.insert(fd);
    return {};
  }
  std::expected<void, int> Disable(int fd) override {
    enabled.erase(fd);
    return {};
  }
  std::expected<void, int> RedirectOutput(int fd, int ring_fd) override {
    redirected[fd] = ring_fd;
    return {};
  }
  std::expected<RingMemory, int> Map(int, std::size_t data_bytes) override {
    rings_.push_back(std::make_unique<Ring>());
    rings_.back()->data.resize(data_bytes);
    return RingMemory{&rings_.back()->control, rings_.back()->data};
  }
  void Unmap(const RingMemory&) override {}
  std::expected<CounterReading, int> Read(int fd) override {
    auto& queue = readings[fd];
    if (queue.empty()) return std::unexpected(ENODATA);
    const auto reading = queue.front();
    queue.pop_front();
    return reading;
  }
  std::expected<std::uint64_t, int> ReadLost(int fd) override {
    const auto found = lost_samples.find(fd);
    if (found == lost_samples.end()) return std::unexpected(ENODATA);
    return found->second;
  }
  std::vector<CpuId> OnlineCpus() override { return cpus; }
  std::vector<Tid> Threads(Pid process) override {
    if (on_threads) on_threads();
    const auto found = threads.find(process);
    return found == threads.end() ? std::vector<Tid>() : found->second;
  }
  std::optional<ProcessOrigin> Origin(Pid process) override {
    const auto found = origins.find(process);
    if (found == origins.end()) return std::nullopt;
    return found->second;
  }
  std::uint64_t NowTicks() override { return now_ticks; }
  std::size_t ReadMemory(Pid, std::uint64_t address, std::span<std::uint8_t> into) override {
    ++memory_reads;
    if (address < code_start || address >= code_start + code.size()) return 0;
    const std::size_t offset = address - code_start;
    const std::size_t bytes = std::min(into.size(), code.size() - offset);
    std::memcpy(into.data(), code.data() + offset, bytes);
    return bytes;
  }
  std::optional<int> ParanoidLevel() override { return paranoid; }
  std::uint64_t OpenFileLimit() override { return open_file_limit; }

 private:
  struct Ring {
    perf_event_mmap_page control{};
    std::vector<std::byte> data;
  };
  std::vector<std::unique_ptr<Ring>> rings_;
};

// Records as perf_event_open(2) lays them out.
class RecordBytes {
 public:
  RecordBytes(std::uint32_t type, std::uint16_t misc = 0) : type_(type), misc_(misc) {}
  RecordBytes& Word(std::uint64_t word) {
    words_.push_back(word);
    return *this;
  }
  RecordBytes& Pair(std::uint32_t first, std::uint32_t second) {
    return Word(std::uint64_t{second} << 32 | first);
  }
  std::vector<std::byte> Build() const {
    std::vector<std::byte> bytes(sizeof(perf_event_header) + words_.size() * sizeof(std::uint64_t));
    const perf_event_header header{type_, misc_, static_cast<std::uint16_t>(bytes.size())};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::ranges::copy(std::as_bytes(std::span(words_)), bytes.begin() + sizeof header);
    return bytes;
  }

 private:
  std::uint32_t type_;
  std::uint16_t misc_;
  std::vector<std::uint64_t> words_;
};

inline std::vector<std::byte> ForkRecord(std::uint32_t process, std::uint32_t parent,
                                         std::uint32_t thread, std::uint32_t parent_thread) {
  return RecordBytes(PERF_RECORD_FORK)
      .Pair(process, parent)
      .Pair(thread, parent_thread)
      .Word(0)                      // time
      .Pair(parent, parent_thread)  // sample_id: pid, tid
      .Word(0)                      // sample_id: time
      .Build();
}

}  // namespace tmprof
