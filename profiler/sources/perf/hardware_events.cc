// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/hardware_events.h"

#include <fmt/format.h>
#include <perfmon/pfmlib_perf_event.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/host/first_line.h"
#include "base/parse_integer.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kSampleType =
    PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;

// Reads a number like strtoull(3) with base 0, but without octal.
std::optional<std::uint64_t> ParseWord(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  return ParseInteger<std::uint64_t>(text.substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10);
}

// "config:19" says that the field is bit 19 of perf_event_attr.config.
std::optional<std::uint64_t> FieldMask(std::string_view format) {
  constexpr std::string_view kPrefix = "config:";
  if (!format.starts_with(kPrefix)) return std::nullopt;
  const auto bit = ParseInteger<std::uint32_t>(format.substr(kPrefix.size()));
  if (!bit || *bit >= 64) return std::nullopt;
  return std::uint64_t{1} << *bit;
}

constexpr const char* kVirtualPmu = "vibs_op";

// "config=0x1" into its field of the attributes. False: it is none of the fields.
bool SetField(perf_event_attr& attr, std::string_view term) {
  const std::string_view field = term.substr(0, term.find('='));
  if (field.size() == term.size()) return false;
  const auto value = ParseWord(term.substr(field.size() + 1));
  if (!value) return false;
  if (field == "config") {
    attr.config = *value;
  } else if (field == "config1") {
    attr.config1 = *value;
  } else if (field == "config2") {
    attr.config2 = *value;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<perf_event_attr> ReadPmuEvent(const std::filesystem::path& devices, const std::string& pmu,
                                     const std::string& name) {
  const auto type = FirstLine(devices / pmu / "type").and_then([](const std::string& text) {
    return ParseInteger<std::uint32_t>(text);
  });
  const std::filesystem::path file = devices / pmu / "events" / name;
  const auto terms = FirstLine(file);
  if (!type || !terms) return Fail(Refused("find performance event", file.string(), ENOENT));
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = *type;
  for (std::string_view rest = *terms; !rest.empty();) {
    const std::string_view term = rest.substr(0, rest.find(','));
    if (!SetField(attr, term)) {
      return Fail(
          BadInput("read performance event", file.string(),
                   fmt::format("'{}' is not config, config1 or config2 with a number", term)));
    }
    rest.remove_prefix(std::min(term.size() + 1, rest.size()));
  }
  return attr;
}

Result<SampleRate> ParseSampleRate(std::string_view text) {
  for (const SampleRate rate : {SampleRate::k1x, SampleRate::k4x, SampleRate::k8x}) {
    if (text == fmt::format("{}x", static_cast<int>(rate))) return rate;
  }
  return Fail(BadInput("read sample rate", std::string(text), "must be 1x, 4x or 8x"));
}

Result<perf_event_attr> EncodeWithPfm(const std::string& name) {
  static const int initialized = pfm_initialize();
  perf_event_attr attr{};
  attr.size = sizeof attr;
  pfm_perf_encode_arg_t argument{};
  argument.attr = &attr;
  argument.size = sizeof argument;
  const int code =
      initialized != PFM_SUCCESS
          ? initialized
          : pfm_get_os_event_encoding(name.c_str(), PFM_PLM3, PFM_OS_PERF_EVENT_EXT, &argument);
  if (code != PFM_SUCCESS) {
    return Fail({.attempt = "encode performance event",
                 .object = name,
                 .reason = fmt::format("libpfm4: {}", pfm_strerror(code)),
                 .advice = "this CPU model has no such event, or libpfm4 does not know the model"});
  }
  return attr;
}

Result<HardwareSetup> FindIbs(const std::filesystem::path& devices, SampleRate rate) {
  const std::filesystem::path pmu = devices / "ibs_op";
  const auto type = FirstLine(pmu / "type").and_then([](const std::string& text) {
    return ParseInteger<std::uint32_t>(text);
  });
  if (!type) {
    return Fail(Refused("find AMD IBS", pmu.string(), ENOENT,
                        "needs an AMD CPU with IBS and a kernel that sees it (rarely so in a "
                        "virtual machine)"));
  }
  // Without it IBS counts cycles instead of micro-operations, and the period would mean another
  // rate.
  const auto count_ops = FirstLine(pmu / "format/cnt_ctl").and_then(FieldMask);
  if (!count_ops) {
    return Fail({.attempt = "make IBS count micro-operations",
                 .object = (pmu / "format/cnt_ctl").string(),
                 .reason = "absent or not one bit of config",
                 .advice = "needs family 10h or later"});
  }
  // IBS counts operations in either case, and tags each Nth. With L3MissOnly the hardware discards
  // a tagged operation that did not miss the L3, without an interrupt, and goes on from a random
  // count of 1 to 127 (Linux, commit of "perf/amd/ibs: Add support for L3 miss filtering"). One
  // operation in N is tagged, which makes it one miss in N that is sampled. The period that suits
  // misses is therefore right, although operations are counted. The random count makes it 64
  // operations shorter on average, 0.4 % at 1x and 3 % at 8x.
  const auto misses_only = FirstLine(pmu / "format/l3missonly").and_then(FieldMask);
  const std::uint64_t period = misses_only ? MissPeriod(rate) : OperationPeriod(rate);
  TMPROF_CHECK(period % 16 == 0);  // AMD APM vol. 2, 13.3: IbsOpMaxCnt has no low 4 bits
  TaskEvents::Event event{.event = {.name = "ibs_op"}};
  event.event.attr.type = *type;
  event.event.attr.config = *count_ops | misses_only.value_or(0);
  event.event.attr.sample_period = period;
  event.event.attr.sample_type = kSampleType;
  // A sampled operation that missed stands for `period` operations, and so for as many misses.
  return HardwareSetup{.kind = kIbsSource,
                       .events = {event},
                       .only_misses = misses_only.has_value(),
                       .accesses_per_sample = period};
}

Result<HardwareSetup> FindPebs(const std::filesystem::path& devices, const EventEncoder& encode,
                               SampleRate rate) {
  const std::filesystem::path precise = devices / "cpu/caps/max_precise";
  const auto level = FirstLine(precise).and_then(
      [](const std::string& text) { return ParseInteger<std::uint32_t>(text); });
  if (!level || *level == 0) {
    return Fail(Refused("find Intel PEBS", precise.string(), ENOENT,
                        "needs an Intel CPU with PEBS and a kernel that sees it (rarely so in a "
                        "virtual machine)"));
  }
  // The names changed with the microarchitectures; the first one that the host knows is taken.
  constexpr const char* kLoadLatency = "MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=3";
  constexpr std::array kLoadMisses = {"MEM_LOAD_RETIRED:L3_MISS", "MEM_LOAD_UOPS_RETIRED:L3_MISS"};
  constexpr std::array kLoads = {kLoadLatency, "MEM_TRANS_RETIRED:LATENCY_ABOVE_THRESHOLD:ldlat=3"};
  constexpr std::array kStores = {"MEM_INST_RETIRED:ALL_STORES", "MEM_UOPS_RETIRED:ALL_STORES",
                                  "MEM_TRANS_RETIRED:PRECISE_STORE"};
  HardwareSetup setup{.kind = kPebsSource, .events = {}};
  const auto add = [&](const auto& names, std::uint64_t period) -> Status {
    std::optional<Error> refusal;
    for (const char* name : names) {
      auto attr = encode(name);
      if (!attr) {
        refusal = attr.error();
        continue;
      }
      TaskEvents::Event event{.event = {.name = name, .attr = *attr}};
      event.event.attr.sample_period = period;
      event.event.attr.sample_type = kSampleType;
      event.event.attr.precise_ip = 2;  // "requested to have 0 skid", perf_event_open(2)
      setup.events.push_back(std::move(event));
      return {};
    }
    return Fail(*refusal);
  };
  // Events of L3 misses are older than Haswell, but only from Haswell on do their records have the
  // address of the data (Intel SDM vol. 3B, "Precise Events That Supports Data Linear Address
  // Profiling"). libpfm4 knows the load latency event by this name from Haswell on.
  if (encode(kLoadLatency) && add(kLoadMisses, PrimeMissPeriod(rate))) {
    // No stores beside them: of a store the kernel reports only a hit or miss of the L1
    // (arch/x86/events/intel/ds.c, precise_datala_hsw()), which no access to memory is known by.
    setup.only_misses = true;
    setup.accesses_per_sample = PrimeMissPeriod(rate);
    return setup;
  }
  // How many loads a sample stands for is not known: the hardware picks, at random, loads whose
  // latency it takes, and counts those alone (Intel SDM vol. 3B, "Load Latency Performance
  // Monitoring Facility").
  if (Status added = add(kLoads, OperationPeriod(rate)); !added)
    return std::unexpected(added.error());
  if (Status added = add(kStores, OperationPeriod(rate)); !added)
    return std::unexpected(added.error());
  return setup;
}

Result<HardwareSetup> FindVirtual(const std::filesystem::path& devices, SampleRate rate) {
  auto attr = ReadPmuEvent(devices, kVirtualPmu, "llc-misses");
  const bool only_misses = attr.has_value();
  if (!attr && attr.error().system_error == ENOENT)
    attr = ReadPmuEvent(devices, kVirtualPmu, "mem-samples");
  if (!attr) {
    Error error = std::move(attr.error());
    if (error.system_error == ENOENT)
      error.advice = "the virtual PMU is of the machine that 'testbed/vm --tiersim' boots";
    return Fail(std::move(error));
  }
  const std::uint64_t period = only_misses ? MissPeriod(rate) : OperationPeriod(rate);
  TaskEvents::Event event{.event = {.name = kVirtualPmu, .attr = *attr}};
  event.event.attr.sample_period = period;
  event.event.attr.sample_type = kSampleType;
  // It has a ring of its own before perf's.
  event.event.attr.read_format = PERF_FORMAT_LOST;
  return HardwareSetup{.kind = kVirtualPmuSource,
                       .events = {event},
                       .only_misses = only_misses,
                       .accesses_per_sample = period};
}

std::string SampledShare(const HardwareSetup& setup) {
  const std::uint64_t period = setup.events.front().event.attr.sample_period;
  return setup.only_misses ? fmt::format("1 of {} accesses to memory", period)
                           : fmt::format("1 of {} operations, if memory served it", period);
}

Result<HardwareSetup> FindSamplingHardware(const std::filesystem::path& devices,
                                           const EventEncoder& encode, SampleRate rate) {
  if (auto ibs = FindIbs(devices, rate)) return ibs;
  if (auto emulated = FindVirtual(devices, rate)) return emulated;
  return FindPebs(devices, encode, rate);
}

EventEncoder WithVirtualPmu(const std::filesystem::path& devices, EventEncoder otherwise) {
  return [devices, otherwise = std::move(otherwise)](const std::string& name) {
    constexpr std::string_view kGeneric = "perf::";
    if (name.starts_with(kGeneric)) {
      std::string event = name.substr(kGeneric.size());
      std::ranges::transform(event, event.begin(), [](unsigned char c) { return std::tolower(c); });
      if (auto attr = ReadPmuEvent(devices, kVirtualPmu, event)) return attr;
    }
    return otherwise(name);
  };
}

}  // namespace tmprof
