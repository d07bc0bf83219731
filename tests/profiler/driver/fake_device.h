// SPDX-License-Identifier: Apache-2.0
// The driver as driver/uapi/tmprof.h describes it, over page tables made of a map.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "driver/core/params_check.h"
#include "profiler/sources/driver/device.h"

namespace tmprof::driver {

/** One page-table leaf of the fake process; the key is its first page. */
struct FakeLeaf {
  std::uint64_t span = 1;
  std::uint64_t frame = 0;
  bool accessed = false;
  bool clearable = true;
  bool races = false;  // its table changes under the next walk, which leaves it out
};

struct FakeMapping {
  std::uint64_t start, end;
};

/* State that outlives the device, so that a test can look at it and script it. */
struct FakeDriver {
  tmprof_info info{};
  std::map<std::uint64_t, FakeLeaf> leaves;
  std::vector<FakeMapping> mappings;
  std::uint32_t address_space = 1;
  std::uint32_t running = 0;
  int info_error = 0;
  int add_error = 0;
  std::uint32_t target_flags = 0;  // of each target
  std::deque<int> scan_errors;     // errors of the next SCAN_RANGE calls; then none
  int scan_error = 0;              // error of each of them

  std::map<std::uint32_t, std::pair<int, std::uint64_t>> targets;  // id → pid, start time
  std::uint32_t adds = 0;
  std::vector<std::uint32_t> removed;  // IDs of targets

  // The sampler's side: what the next EPOCH_END makes readable, and the totals.
  tmprof_params params{};
  int params_error = 0;
  int control_error = 0;
  int epoch_error = 0;
  std::vector<std::uint32_t> commands;  // commands of CONTROL
  std::vector<tmprof_page_record> counted;
  std::vector<tmprof_page_record> ended;
  tmprof_epoch epoch{};  // the header of the next one
  tmprof_stats stats{};
  // Records for READ_REGIONS, given a few at a time, and its count of lost ones.
  std::deque<tmprof_region_record> regions;
  std::uint64_t regions_overwritten = 0;
  int regions_error = 0;
  std::vector<tmprof_scan_range> scans;  // in the order of the requests
  bool open = false;

  FakeDriver() {
    info.features = TMPROF_FEATURE_ABIT | TMPROF_FEATURE_FLUSH | TMPROF_FEATURE_KEEPS_YOUNG;
    info.max_targets = 4;
    info.features |= TMPROF_FEATURE_SAMPLER | TMPROF_FEATURE_GATE | TMPROF_FEATURE_REGIONS;
    info.features |= TMPROF_FEATURE_FRAMES;
    info.max_scan_pages = 16384;
    info.page_record_bytes = sizeof(tmprof_page_record);
    tmprof_params_defaults(&params);
    stats.gate_count[TMPROF_SAMPLER] = stats.gate_max[TMPROF_SAMPLER] = TMPROF_UNKNOWN;
  }
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeDriver& driver) : driver_(driver) { driver_.open = true; }
  ~FakeDevice() override { driver_.open = false; }

  int Call(unsigned long command, tmprof_head& argument) override {
    if (argument.version != TMPROF_ABI_VERSION) return EPROTO;
    if (argument.size != _IOC_SIZE(command) || argument.reserved != 0) return EINVAL;
    switch (command) {
      case TMPROF_IOC_INFO:
        return Info(reinterpret_cast<tmprof_info&>(argument));
      case TMPROF_IOC_ADD_TARGET:
        return Add(reinterpret_cast<tmprof_target_request&>(argument));
      case TMPROF_IOC_REMOVE_TARGET:
        return Remove(reinterpret_cast<tmprof_target_request&>(argument).target_id);
      case TMPROF_IOC_GET_PARAMS:
        return Give(driver_.params, argument);
      case TMPROF_IOC_SET_PARAMS:
        return SetParams(reinterpret_cast<tmprof_params&>(argument));
      case TMPROF_IOC_CONTROL:
        driver_.commands.push_back(reinterpret_cast<tmprof_control&>(argument).command);
        return driver_.control_error;
      case TMPROF_IOC_EPOCH_END:
        if (driver_.epoch_error != 0) return driver_.epoch_error;
        driver_.ended = std::exchange(driver_.counted, {});
        return Give(driver_.epoch, argument);
      case TMPROF_IOC_STATS:
        return Give(driver_.stats, argument);
      case TMPROF_IOC_READ_REGIONS:
        return ReadRegions(reinterpret_cast<tmprof_read_regions&>(argument));
      case TMPROF_IOC_SCAN_RANGE:
        return Scan(reinterpret_cast<tmprof_scan_range&>(argument));
      default:
        return ENOTTY;
    }
  }

  std::expected<std::size_t, int> Read(std::span<tmprof_page_record> records) override {
    const std::size_t count = std::min(records.size(), driver_.ended.size());
    std::copy_n(driver_.ended.begin(), count, records.begin());
    driver_.ended.erase(driver_.ended.begin(),
                        driver_.ended.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

 private:
  template <typename Answer>
  static int Give(const Answer& answer, tmprof_head& head) {
    const tmprof_head asked = head;
    auto& argument = reinterpret_cast<Answer&>(head);
    argument = answer;
    argument.head = asked;
    return 0;
  }

  int Info(tmprof_info& info) const {
    return driver_.info_error != 0 ? driver_.info_error : Give(driver_.info, info.head);
  }

  int SetParams(const tmprof_params& params) {
    if (driver_.params_error != 0) return driver_.params_error;
    if (const int error = tmprof_params_check(&params).error; error != 0) return -error;
    driver_.params = params;
    return 0;
  }

  int ReadRegions(tmprof_read_regions& request) {
    if (driver_.regions_error != 0) return driver_.regions_error;
    auto* records = reinterpret_cast<tmprof_region_record*>(request.regions);
    request.overwritten = driver_.regions_overwritten;
    for (request.count = 0; request.count < request.capacity && !driver_.regions.empty();
         ++request.count) {
      records[request.count] = driver_.regions.front();
      driver_.regions.pop_front();
    }
    return 0;
  }

  // The fake forgets the target's counts in the running epoch, like the driver.
  int Remove(std::uint32_t id) {
    driver_.removed.push_back(id);
    (void)std::erase_if(driver_.counted,
                        [id](const tmprof_page_record& record) { return record.target_id == id; });
    return driver_.targets.erase(id) != 0 ? 0 : ENOENT;
  }

  int Add(tmprof_target_request& request) {
    if (driver_.add_error != 0) return driver_.add_error;
    const std::pair<int, std::uint64_t> process(request.pid, request.start_time_ticks);
    for (const auto& [id, other] : driver_.targets)
      if (other == process) return EEXIST;
    request.target_flags = driver_.target_flags;
    request.target_id = ++driver_.adds;
    driver_.targets[request.target_id] = process;
    return 0;
  }

  int Scan(tmprof_scan_range& request) {
    if (driver_.scan_error != 0) return driver_.scan_error;
    driver_.scans.push_back(request);
    if (request.pages == 0 || request.pages > driver_.info.max_scan_pages) return EINVAL;
    if (!driver_.targets.contains(request.target_id)) return ENOENT;
    if (!driver_.scan_errors.empty()) {
      const int error = driver_.scan_errors.front();
      driver_.scan_errors.pop_front();
      if (error != 0) return error;
    }
    request.address_space = driver_.address_space;
    request.running_threads = driver_.running;
    request.start_ns = 1'000;
    request.end_ns = 3'000;
    request.leaf_count = request.races = request.cleared_bits = 0;
    request.mapped_end_vpn = 0;
    request.present_pages = 0;
    request.next_vpn = TMPROF_NO_VPN;
    const std::uint64_t end = request.start_vpn + request.pages;
    for (const FakeMapping& mapping : driver_.mappings) {
      if (mapping.start <= request.start_vpn && request.start_vpn < mapping.end)
        request.mapped_end_vpn = mapping.end;
    }
    for (const auto& [vpn, leaf] : driver_.leaves) {
      if (vpn + leaf.span <= end) continue;
      request.next_vpn = std::max(leaf.span > 1 ? vpn : vpn / 512 * 512, end);
      break;
    }
    auto* present = reinterpret_cast<std::uint64_t*>(request.present);
    auto* accessed = reinterpret_cast<std::uint64_t*>(request.accessed);
    auto* frames = reinterpret_cast<std::uint64_t*>(request.frames);
    auto* leaves = reinterpret_cast<tmprof_scan_leaf*>(request.leaves);
    std::fill_n(present, (request.pages + 63) / 64, 0);
    std::fill_n(accessed, (request.pages + 63) / 64, 0);
    if (frames) std::fill_n(frames, request.pages, TMPROF_UNKNOWN);
    for (auto& [vpn, leaf] : driver_.leaves) {
      if (vpn + leaf.span <= request.start_vpn || vpn >= end) continue;
      if (std::exchange(leaf.races, false)) {
        ++request.races;
        continue;
      }
      const bool clears =
          (request.head.flags & TMPROF_SCAN_CLEAR) && leaf.accessed && leaf.clearable;
      for (std::uint64_t page = std::max<std::uint64_t>(vpn, request.start_vpn);
           page < std::min<std::uint64_t>(vpn + leaf.span, end); ++page) {
        const std::uint64_t i = page - request.start_vpn;
        present[i / 64] |= std::uint64_t{1} << i % 64;
        ++request.present_pages;
        accessed[i / 64] |= std::uint64_t{leaf.accessed} << i % 64;
        if (frames) frames[i] = leaf.frame + (page - vpn);
      }
      if (leaf.span > 1) {
        if (request.leaf_count == request.leaf_capacity) return ENOSPC;
        leaves[request.leaf_count++] = {
            .vpn = vpn,
            .span_pages = static_cast<std::uint32_t>(leaf.span),
            .leaf_flags = static_cast<std::uint16_t>((leaf.accessed ? TMPROF_LEAF_ACCESSED : 0) |
                                                     (clears ? TMPROF_LEAF_CLEARED : 0))};
      }
      if (clears) {
        leaf.accessed = false;
        ++request.cleared_bits;
      }
    }
    return 0;
  }

  FakeDriver& driver_;
};

}  // namespace tmprof::driver
