// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/modules.h"

#include <link.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <span>

#include "objects/runtime/loaded_file.h"

namespace tmprof::objtrace {
namespace {

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
        const std::span<const std::uint8_t> build_id =
            BuildIdOf({info->dlpi_phdr, info->dlpi_phnum}, info->dlpi_addr);
        if (!build_id.empty()) image.build_id = build_id.data();
        image.build_id_bytes = build_id.size();
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
