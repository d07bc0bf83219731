// SPDX-License-Identifier: Apache-2.0
// Truth streams written down by hand.

#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "profiler/sources/exact/plugin/format/truth_stream.h"

namespace tmprof::exact {

struct StreamBytes {
  std::string bytes;

  template <typename T>
  StreamBytes& Add(const T& part, std::string_view text = {}) {
    bytes.append(reinterpret_cast<const char*>(&part), sizeof part);
    bytes.append(text);
    bytes.resize((bytes.size() + 7) / 8 * 8, '\0');
    return *this;
  }
  template <typename T>
  StreamBytes& Record(std::uint32_t type, T part, std::string_view text = {}) {
    part.record.type = type;
    part.record.bytes = tmprof_truth_padded(static_cast<std::uint32_t>(sizeof part + text.size()));
    return Add(part, text);
  }

  StreamBytes& Header(const std::string& llc_model = "", std::uint32_t version = 1,
                      const std::string& stall_model = "") {
    tmprof_truth_header header{};
    std::memcpy(header.magic, TMPROF_TRUTH_MAGIC, sizeof header.magic);
    header.version = version;
    header.header_bytes = sizeof header;
    header.page_bytes = 4096;
    header.maker = TMPROF_TRUTH_MAKER_EXACT;
    header.clock = TMPROF_TRUTH_CLOCK_HOST;
    llc_model.copy(header.llc_model, sizeof header.llc_model - 1);
    if (!stall_model.empty()) {
      stall_model.copy(header.stall_model, sizeof header.stall_model - 1);
      stall_model.copy(header.prefetcher_model, sizeof header.prefetcher_model - 1);
      stall_model.copy(header.l2_model, sizeof header.l2_model - 1);
    }
    return Add(header);
  }
  StreamBytes& Target(std::uint32_t number, std::uint32_t pid, const std::string& command,
                      std::uint32_t flags = 0) {
    tmprof_truth_target target{};
    target.target = number;
    target.flags = flags | TMPROF_TRUTH_TARGET_KNOWS_PID | TMPROF_TRUTH_TARGET_KNOWS_START;
    target.pid = pid;
    target.start_time_ticks = 77;
    target.command_bytes = static_cast<std::uint32_t>(command.size());
    command.copy(target.name, sizeof target.name - 1);
    return Record(TMPROF_TRUTH_TARGET, target, command);
  }
  StreamBytes& Pages(const std::vector<tmprof_truth_page>& entries) {
    tmprof_truth_pages pages{};
    pages.count = static_cast<std::uint32_t>(entries.size());
    pages.entry_bytes = sizeof(tmprof_truth_page);
    std::string text;
    for (const auto& entry : entries)
      text.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    return Record(TMPROF_TRUTH_PAGES, pages, text);
  }
  StreamBytes& End(std::uint64_t index, std::uint64_t start, std::uint64_t end, std::uint64_t loads,
                   std::uint64_t stores, std::uint64_t lost = 0, std::uint64_t llc_misses = 0) {
    tmprof_truth_epoch_end record{};
    record.index = index;
    record.start_ns = start;
    record.end_ns = end;
    record.loads = loads;
    record.stores = stores;
    record.lost_accesses = lost;
    record.llc_misses = llc_misses;
    return Record(TMPROF_TRUTH_EPOCH_END, record);
  }
  StreamBytes& Finish(std::uint64_t epochs) {
    tmprof_truth_finish finish{};
    finish.epochs = epochs;
    return Record(TMPROF_TRUTH_FINISH, finish);
  }
};

inline tmprof_truth_page PageEntry(std::uint64_t vpn, std::uint64_t loads, std::uint64_t stores,
                                   std::uint64_t llc_misses = 0, std::uint32_t target = 0) {
  tmprof_truth_page page{};
  page.vpn = vpn;
  page.target = target;
  page.loads = loads;
  page.stores = stores;
  page.llc_misses = llc_misses;
  return page;
}

}  // namespace tmprof::exact
