// SPDX-License-Identifier: Apache-2.0

#include "objtrace/runtime/modules.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace tmprof::objtrace {
namespace {

void FindBuildId(const dl_phdr_info& info, LoadedImage& image) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    std::uint64_t at = info.dlpi_addr + segment.p_vaddr;
    const std::uint64_t end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const std::uint64_t name = at + sizeof(*note);
      const std::uint64_t contents = name + (note->n_namesz + 3U) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof(ELF_NOTE_GNU) &&
          std::memcmp(reinterpret_cast<const void*>(name), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) ==
              0) {
        image.build_id = reinterpret_cast<const void*>(contents);
        image.build_id_bytes = note->n_descsz;
        return;
      }
      at = contents + (note->n_descsz + 3U) / 4 * 4;
    }
  }
}

bool IsSame(const LoadedImage& a, const LoadedImage& b) {
  return a.start == b.start && a.end == b.end && a.bias == b.bias &&
         a.build_id_bytes == b.build_id_bytes &&
         (a.build_id_bytes == 0 || std::memcmp(a.build_id, b.build_id, a.build_id_bytes) == 0) &&
         std::strcmp(a.name, b.name) == 0;
}

bool IsLoaded(const LoadedImage& image) {
  struct Search {
    const LoadedImage& wanted;
    bool found;
  } search{.wanted = image, .found = false};
  EachLoaded(
      [](const LoadedImage& loaded, void* context) {
        auto& of = *static_cast<Search*>(context);
        of.found = of.found || IsSame(loaded, of.wanted);
      },
      &search);
  return search.found;
}

}  // namespace

void EachLoaded(VisitImage visit, void* context) {
  struct Visitor {
    VisitImage visit;
    void* context;
  } visitor{.visit = visit, .context = context};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* of) {
        LoadedImage image{.name = info->dlpi_name,
                          .start = ~std::uint64_t{0},
                          .end = 0,
                          .bias = info->dlpi_addr,
                          .build_id = nullptr,
                          .build_id_bytes = 0};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          image.start = std::min(image.start, info->dlpi_addr + segment.p_vaddr);
          image.end = std::max(image.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
        }
        if (image.start >= image.end) return 0;
        FindBuildId(*info, image);
        const auto& to = *static_cast<const Visitor*>(of);
        to.visit(image, to.context);
        return 0;
      },
      &visitor);
}

struct ClosedImages::Noted {
  LoadedImage image;
  std::byte build_id[64];  // linkers write 16 or 20 bytes
  char name[PATH_MAX];
};

void ClosedImages::Note(const LoadedImage& image) {
  const bool is_known = std::any_of(noted_, noted_ + count_,
                                    [&](const Noted& noted) { return IsSame(noted.image, image); });
  const std::size_t name_bytes = std::strlen(image.name) + 1;
  if (is_known || count_ == kMax || name_bytes > sizeof(Noted::name) ||
      image.build_id_bytes > sizeof(Noted::build_id)) {
    return;
  }
  Noted& noted = noted_[count_++];
  noted.image = image;
  std::memcpy(noted.name, image.name, name_bytes);
  noted.image.name = noted.name;
  if (image.build_id == nullptr) return;
  std::memcpy(noted.build_id, image.build_id, image.build_id_bytes);
  noted.image.build_id = noted.build_id;
}

void ClosedImages::NoteLoaded() {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  if (noted_ == nullptr) noted_ = static_cast<Noted*>(MapSparse(kMax * sizeof(Noted)));
  if (noted_ == nullptr) return;
  EachLoaded([](const LoadedImage& image,
                void* context) { static_cast<ClosedImages*>(context)->Note(image); },
             this);
}

void ClosedImages::EachClosed(VisitImage visit, void* context) {
  const SignalsBlocked blocked;
  const Locked locked(lock_);
  for (std::uint64_t i = 0; i < count_; ++i) {
    if (!IsLoaded(noted_[i].image)) visit(noted_[i].image, context);
  }
}

}  // namespace tmprof::objtrace
