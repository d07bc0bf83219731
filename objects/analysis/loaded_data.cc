// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/loaded_data.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "objects/analysis/symbols.h"

namespace tmprof {
namespace {

// Smaller gaps between symbols are left by alignment: a cache line has this length.
constexpr std::uint64_t kLeastGapBytes = 64;

struct Section {
  std::string name;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

std::uint64_t PageStart(std::uint64_t address) { return address & ~(kBasePageBytes - 1); }

// Counts leading underscores: internal names of linkers, compilers and C libraries begin with them.
std::size_t Underscores(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

bool LooksLessInternal(const FileDatum& a, const FileDatum& b) {
  return std::tuple(Underscores(a.name), a.name.size(), a.name) <
         std::tuple(Underscores(b.name), b.name.size(), b.name);
}

std::vector<ElfData::Segment> SegmentsOf(Elf* elf) {
  std::vector<ElfData::Segment> segments;
  std::size_t count = 0;
  if (::elf_getphdrnum(elf, &count) != 0) return segments;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (::gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) continue;
    if (header.p_type != PT_LOAD || header.p_memsz == 0) continue;
    segments.push_back({.start = header.p_vaddr,
                        .file_end = header.p_vaddr + header.p_filesz,
                        .end = header.p_vaddr + header.p_memsz,
                        .flags = header.p_flags});
  }
  std::ranges::sort(segments, {}, &ElfData::Segment::start);
  return segments;
}

// Returns the sections of data, ascending; segments if the file has no sections.
std::vector<Section> SectionsOf(Elf* elf, const std::vector<ElfData::Segment>& segments) {
  std::vector<Section> sections;
  std::size_t names = 0;
  if (::elf_getshdrstrndx(elf, &names) == 0) {
    for (Elf_Scn* scn = nullptr; (scn = ::elf_nextscn(elf, scn)) != nullptr;) {
      GElf_Shdr header;
      if (::gelf_getshdr(scn, &header) == nullptr || header.sh_size == 0) continue;
      if ((header.sh_flags & SHF_ALLOC) == 0 || (header.sh_flags & SHF_EXECINSTR) != 0) continue;
      // Each thread has its own copy elsewhere.
      if ((header.sh_flags & SHF_TLS) != 0) continue;
      const char* name = ::elf_strptr(elf, names, header.sh_name);
      sections.push_back({.name = name != nullptr ? name : "",
                          .start = header.sh_addr,
                          .end = header.sh_addr + header.sh_size});
    }
  }
  if (sections.empty()) {
    for (const ElfData::Segment& segment : segments) {
      if ((segment.flags & PF_X) != 0) continue;
      sections.push_back({.name = "a segment", .start = segment.start, .end = segment.end});
    }
  }
  std::ranges::sort(sections, {}, &Section::start);
  return sections;
}

std::vector<FileDatum> SymbolsOf(Dwfl_Module* module,
                                 const std::vector<ElfData::Segment>& segments) {
  std::vector<FileDatum> found;
  const int count = ::dwfl_module_getsymtab(module);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* name =
        ::dwfl_module_getsym_info(module, i, &symbol, &address, nullptr, nullptr, nullptr);
    if (name == nullptr || *name == '\0' || GELF_ST_TYPE(symbol.st_info) != STT_OBJECT ||
        symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) {
      continue;
    }
    const auto holds = [&](const ElfData::Segment& segment) {
      return segment.start <= address && address < segment.end;
    };
    const auto segment = std::ranges::find_if(segments, holds);
    if (segment == segments.end()) continue;
    const std::string_view all = name;
    found.push_back({.name = std::string(all.substr(0, all.find('@'))),  // without its version
                     .start = address,
                     .bytes = std::min<std::uint64_t>(symbol.st_size, segment->end - address)});
  }
  std::ranges::sort(found, [](const FileDatum& a, const FileDatum& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return LooksLessInternal(a, b);
  });
  std::vector<FileDatum> disjoint;
  for (FileDatum& datum : found) {
    if (!disjoint.empty() && datum.start < disjoint.back().end()) continue;
    datum.name = Demangled(datum.name);
    disjoint.push_back(std::move(datum));
  }
  return disjoint;
}

// Returns the variables, and the parts of sections between them.
std::vector<FileDatum> Filled(std::vector<FileDatum> variables,
                              const std::vector<Section>& sections) {
  std::vector<FileDatum> gaps;
  auto variable = variables.begin();
  std::uint64_t from = 0;
  const auto add = [&](const Section& section, std::uint64_t until) {
    if (until < from + kLeastGapBytes) return;
    gaps.push_back(
        {.kind = FixedKind::kData, .name = section.name, .start = from, .bytes = until - from});
  };
  for (const Section& section : sections) {
    from = std::max(from, section.start);
    while (variable != variables.end() && variable->end() <= from) ++variable;
    for (; variable != variables.end() && variable->start < section.end; ++variable) {
      add(section, variable->start);
      from = variable->end();
    }
    add(section, section.end);
    from = std::max(from, section.end);
  }
  std::vector<FileDatum> all;
  std::ranges::merge(std::move(variables), std::move(gaps), std::back_inserter(all), {},
                     &FileDatum::start, &FileDatum::start);
  return all;
}

// Returns the bias of a file that the dynamic linker or the kernel has mapped from this address on.
// nullopt: it is mapped in another way, for instance by a program that reads it. Memory has a
// mapping of its own if its protection differs from that of the memory before it.
std::optional<std::uint64_t> BiasAt(const ElfData& file, std::span<const Mapping* const> parts) {
  if (file.segments.empty()) return std::nullopt;
  const std::uint64_t start = parts.front()->range.start.value() * kBasePageBytes;
  const std::uint64_t bias = start - PageStart(file.segments.front().start);
  const ElfData::Segment* before = nullptr;
  for (const ElfData::Segment& segment : file.segments) {
    if (segment.file_end == segment.start) continue;
    const Vpn first = VpnOfAddress(bias + segment.start);
    const bool begins = before == nullptr || before->flags != segment.flags;
    const auto holds = [&](const Mapping* part) {
      return begins ? part->range.start == first : part->range.Contains(first);
    };
    if (std::ranges::none_of(parts, holds)) return std::nullopt;
    before = &segment;
  }
  return bias;
}

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { ::dwfl_end(dwfl); }
};

}  // namespace

Result<ElfData> ReadElfData(const std::string& path, std::string debug_folder) {
  char* debug_path = debug_folder.data();
  const Dwfl_Callbacks callbacks = {.find_elf = ::dwfl_build_id_find_elf,
                                    .find_debuginfo = ::dwfl_build_id_find_debuginfo,
                                    .section_address = ::dwfl_offline_section_address,
                                    .debuginfo_path = &debug_path};
  const std::unique_ptr<Dwfl, EndDwfl> dwfl(::dwfl_begin(&callbacks));
  ::dwfl_report_begin(dwfl.get());
  Dwfl_Module* module =
      ::dwfl_report_elf(dwfl.get(), path.c_str(), path.c_str(), -1, 0, /*add_p_vaddr=*/true);
  ::dwfl_report_end(dwfl.get(), nullptr, nullptr);
  GElf_Addr bias = 0;
  Elf* elf = module != nullptr ? ::dwfl_module_getelf(module, &bias) : nullptr;
  if (elf == nullptr) return Fail(BadInput("read symbols", path, ::dwfl_errmsg(-1)));
  ElfData data{.segments = SegmentsOf(elf), .data = {}};
  data.data = Filled(SymbolsOf(module, data.segments), SectionsOf(elf, data.segments));
  return data;
}

bool Overlaps(std::span<const VpnRange> ranges, VpnRange pages) {
  const auto at = std::ranges::upper_bound(ranges, pages.start, {}, &VpnRange::end);
  return at != ranges.end() && at->start < pages.end;
}

std::shared_ptr<const ElfData> LoadedData::FileAt(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const FileKey key{path, status.st_dev, status.st_ino, status.st_mtim.tv_sec};
  const auto [file, is_new] = files_.try_emplace(key);
  if (is_new) {
    // A file that is not ELF may be mapped as data, too.
    if (Result<ElfData> read = ReadElfData(path)) {
      file->second = std::make_shared<const ElfData>(*std::move(read));
    }
  }
  return file->second;
}

LoadedData::Module* LoadedData::FindModule(Modules& modules,
                                           std::span<const Mapping* const> parts) {
  const std::pair key(parts.front()->path, parts.front()->range.start);
  if (const auto known = modules.find(key); known != modules.end()) return &known->second;
  const std::shared_ptr<const ElfData> file = FileAt(key.first);
  const auto bias = file != nullptr ? BiasAt(*file, parts) : std::nullopt;
  if (!bias) return nullptr;
  return &modules
              .emplace(key, Module{.file = file,
                                   .bias = *bias,
                                   .told = std::vector<bool>(file->data.size()),
                                   .is_there = false})
              .first->second;
}

void LoadedData::Tell(const std::string& path, Module& module, VpnRange accessed,
                      std::vector<Change>& changes) {
  const std::vector<FileDatum>& data = module.file->data;
  const std::uint64_t start = accessed.start.value() * kBasePageBytes - module.bias;
  const std::uint64_t end = accessed.end.value() * kBasePageBytes - module.bias;
  auto at = std::ranges::upper_bound(data, start, {}, &FileDatum::end);
  for (; at != data.end() && at->start < end; ++at) {
    const auto index = static_cast<std::size_t>(at - data.begin());
    if (module.told[index]) continue;
    module.told[index] = true;
    changes.push_back({.start = module.bias + at->start, .datum = *at, .file = path});
  }
}

void LoadedData::End(const std::string& path, const Module& module, std::vector<Change>& changes) {
  for (std::size_t i = 0; i < module.told.size(); ++i) {
    if (!module.told[i]) continue;
    const FileDatum& datum = module.file->data[i];
    changes.push_back(
        {.ends = true, .start = module.bias + datum.start, .datum = datum, .file = path});
  }
}

std::vector<LoadedData::Change> LoadedData::See(TargetId target, std::span<const Mapping> mappings,
                                                std::span<const VpnRange> accessed) {
  std::vector<Change> changes;
  Modules& modules = targets_[target];
  for (auto& [key, module] : modules) module.is_there = false;
  // A file's mappings, with the mapping behind them: that may hold the file's zeros.
  std::map<std::string_view, std::vector<const Mapping*>> files;
  std::map<std::string_view, bool> was_accessed;
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    const Mapping& mapping = mappings[i];
    if (mapping.kind != MappingKind::kFile) continue;
    files[mapping.path].push_back(&mapping);
    VpnRange pages = mapping.range;
    if (i + 1 < mappings.size() && mappings[i + 1].range.start == pages.end) {
      pages.end = mappings[i + 1].range.end;
    }
    was_accessed[mapping.path] |= Overlaps(accessed, pages);
  }
  std::vector<std::pair<const std::string*, Module*>> there;
  for (const auto& [path, parts] : files) {
    const std::span<const Mapping* const> all = parts;
    for (std::size_t i = 0; i < all.size();) {
      const bool is_known = modules.contains({std::string(path), all[i]->range.start});
      Module* module =
          is_known || was_accessed[path] ? FindModule(modules, all.subspan(i)) : nullptr;
      if (module == nullptr) {
        ++i;
        continue;
      }
      module->is_there = true;
      there.emplace_back(&all[i]->path, module);
      const Vpn end = VpnOfAddress(module->bias + module->file->segments.back().end - 1);
      while (i < all.size() && all[i]->range.start <= end) ++i;
    }
  }
  for (auto at = modules.begin(); at != modules.end();) {
    if (!at->second.is_there) End(at->first.first, at->second, changes);
    at = at->second.is_there ? std::next(at) : modules.erase(at);
  }
  for (const auto& [path, module] : there) {
    const VpnRange pages{
        VpnOfAddress(module->bias + module->file->segments.front().start),
        Vpn(VpnOfAddress(module->bias + module->file->segments.back().end - 1).value() + 1)};
    auto range = std::ranges::upper_bound(accessed, pages.start, {}, &VpnRange::end);
    for (; range != accessed.end() && range->start < pages.end; ++range) {
      Tell(*path, *module, {std::max(range->start, pages.start), std::min(range->end, pages.end)},
           changes);
    }
  }
  return changes;
}

std::vector<LoadedData::Change> LoadedData::Forget(TargetId target) {
  std::vector<Change> changes;
  const auto modules = targets_.find(target);
  if (modules == targets_.end()) return changes;
  for (const auto& [key, module] : modules->second) End(key.first, module, changes);
  targets_.erase(modules);
  return changes;
}

}  // namespace tmprof
