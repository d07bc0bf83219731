// SPDX-License-Identifier: Apache-2.0

#include "base/host/joint_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/shared_pages.h"

namespace tmprof {
namespace {

// A mapping of a file: its place there.
struct Placed {
  VpnRange range;
  PageCount resident;
};

// The mappings that processes have of one shared file.
struct FileMemory {
  std::map<TargetId, std::vector<Placed>> mapped;  // places may overlap
  std::uint64_t proportional_bytes = 0;
};

PageCount SizeOfUnion(std::vector<VpnRange> ranges) {
  std::ranges::sort(ranges, {}, [](const VpnRange& range) { return range.start; });
  PageCount size;
  Vpn end;
  for (const VpnRange& range : ranges) {
    const Vpn start = std::max(range.start, end);
    if (start < range.end) size += range.end - start;
    end = std::max(end, range.end);
  }
  return size;
}

// Returns the distinct pages that a process has in these mappings, at least. Those that overlap may
// have the same pages: the one that has most of them counts.
PageCount DistinctPages(std::vector<Placed> mapped) {
  std::ranges::sort(mapped, {}, [](const Placed& each) { return each.range.start; });
  PageCount pages;
  PageCount most;  // the largest of those that overlap so far
  Vpn end;
  for (const Placed& each : mapped) {
    if (each.range.start >= end) pages += std::exchange(most, PageCount(0));
    most = std::max(most, each.resident);
    end = std::max(end, each.range.end);
  }
  return pages + most;
}

// Returns the distinct resident pages, at least.
PageCount DistinctPages(const FileMemory& file) {
  PageCount pages((file.proportional_bytes + kBasePageBytes - 1) / kBasePageBytes);
  for (const auto& [id, mapped] : file.mapped) pages = std::max(pages, DistinctPages(mapped));
  return pages;
}

// Returns the size of the mapped parts of the file.
PageCount MappedSize(const FileMemory& file) {
  std::vector<VpnRange> ranges;
  for (const auto& [id, mapped] : file.mapped) {
    for (const Placed& each : mapped) ranges.push_back(each.range);
  }
  return SizeOfUnion(std::move(ranges));
}

// A private mapping, by its addresses.
struct PrivateMemory {
  TargetId id;
  Placed mapped;
  std::uint64_t proportional_bytes = 0;
};

// Returns the distinct pages of relatives in these mappings, at least. Those that overlap may have
// the same pages.
PageCount DistinctPages(std::vector<PrivateMemory> of_family) {
  std::ranges::sort(of_family, {}, [](const PrivateMemory& each) {
    return std::pair(each.mapped.range.start, each.id);
  });
  PageCount pages;
  FileMemory open;  // mappings that overlap so far
  Vpn end;
  for (const PrivateMemory& each : of_family) {
    if (each.mapped.range.start >= end) pages += DistinctPages(std::exchange(open, {}));
    open.mapped[each.id].push_back(each.mapped);
    open.proportional_bytes += each.proportional_bytes;
    end = std::max(end, each.mapped.range.end);
  }
  return pages + DistinctPages(open);
}

}  // namespace

PageCount JointMemory::HeldIf(PageCount sum, bool joins_relatives) const {
  if (counted.value() == 0) return sum;
  const PageCount others = joins_relatives ? apart_distinct : apart;
  const double grown = static_cast<double>(others.value()) * static_cast<double>(sum.value()) /
                       static_cast<double>(counted.value());
  return std::min(sum, shared + PageCount(static_cast<std::uint64_t>(std::llround(grown))));
}

JointMemory JointMemoryOf(std::span<const ProcessMemory> processes) {
  JointMemory joint;
  SharedPages names;
  for (const ProcessMemory& process : processes) {
    Target target{.id = process.id, .ipc_namespace = process.ipc_namespace};
    for (const MappedMemory& memory : process.mappings) target.mappings.push_back(memory.mapping);
    names.Add({std::move(target)});
  }
  std::map<TargetId, FileMemory> files;
  std::map<Pid, std::vector<PrivateMemory>> families;
  for (const ProcessMemory& process : processes) {
    const std::span<const SharedPages::Part> parts = names.PartsOf(process.id);
    auto part = parts.begin();
    for (const MappedMemory& memory : process.mappings) {
      joint.counted += memory.resident;
      if (memory.of_device && memory.mapping.accessible)
        joint.device += memory.mapping.range.size();
      while (part != parts.end() && part->range.start < memory.mapping.range.start) ++part;
      if (part == parts.end() || part->range.start != memory.mapping.range.start) {
        joint.apart += memory.resident;
        if (process.family && memory.mapping.kind != MappingKind::kShared) {
          families[*process.family].push_back(
              {process.id, {memory.mapping.range, memory.resident}, memory.proportional_bytes});
        } else {
          joint.apart_distinct += memory.resident;
        }
        continue;
      }
      FileMemory& file = files[part->name.target];
      file.mapped[process.id].push_back(
          {{part->name.vpn, part->name.vpn + part->range.size()}, memory.resident});
      file.proportional_bytes += memory.proportional_bytes;
    }
  }
  for (auto& [root, of_family] : families)
    joint.apart_distinct += DistinctPages(std::move(of_family));
  for (const auto& [name, file] : files) {
    const PageCount distinct = std::min(DistinctPages(file), MappedSize(file));
    const std::uint64_t bytes = distinct.value() * kBasePageBytes;
    joint.shared += distinct;
    if (file.proportional_bytes < bytes)
      joint.elsewhere += PageCount((bytes - file.proportional_bytes) / kBasePageBytes);
  }
  return joint;
}

}  // namespace tmprof
