// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/object_annotator.h"

#include <map>

#include <fmt/format.h>

#include "base/text/human_units.h"
#include "objects/analysis/objects.h"

namespace tmprof {
namespace {

class Reading : public ObjectReading, private ObjectMap::Visitor {
 public:
  Reading(Annotator::Follows follows, Annotator::AtEnd at_end)
      : follows_(std::move(follows)), at_end_(std::move(at_end)) {}

  void See(const EpochProfile& epoch) override {
    if (const Allocations* allocations = AllocationsOf(epoch)) {
      tracked_ = true;
      for (const ObjectSite& site : allocations->sites) sites_[site.id] = site;
      if (!allocations->sites.empty()) ++namings_;
    }
    map_.See(epoch, false);
  }
  bool tracked() const override { return tracked_; }
  std::size_t namings() const override { return namings_; }

  std::optional<AnnotatedObject> Largest(TargetId target, std::uint64_t start,
                                         std::uint64_t end) const override {
    const TracedObject* object = map_.Largest(target, start, end);
    if (object == nullptr) return std::nullopt;
    return AnnotatedObject{.start = object->start,
                           .bytes = object->bytes,
                           .kind = static_cast<std::uint32_t>(object->kind),
                           .site = object->site};
  }

  std::string Text(const AnnotatedObject& object) const override {
    return ObjectText(object.bytes, KindOf(object), SiteOf(object));
  }

  RowObject Describe(const AnnotatedObject& object) const override {
    const TracedKind kind = KindOf(object);
    const ObjectSite& site = SiteOf(object);
    return {.start = object.start,
            .bytes = object.bytes,
            .text = ObjectText(object.bytes, kind, site),
            .full_text = ObjectText(object.bytes, kind, site, site.frames.size()),
            .json = {{"start", object.start},
                     {"bytes", object.bytes},
                     {"kind", NameOf(kind)},
                     {"name", site.name.empty() ? Json(nullptr) : Json(site.name)},
                     {"frames", FramesJson(site.frames)}}};
  }

 private:
  bool Follows(const Target& target) override { return follows_(target); }
  void EndEpoch(const EpochProfile& epoch) override { at_end_(epoch); }

  static TracedKind KindOf(const AnnotatedObject& object) {
    return static_cast<TracedKind>(object.kind);
  }
  // Returns a site without frames and name if it is unknown.
  const ObjectSite& SiteOf(const AnnotatedObject& object) const {
    static const ObjectSite kUnknown;
    const auto site = sites_.find(object.site);
    return site != sites_.end() ? site->second : kUnknown;
  }

  Annotator::Follows follows_;
  Annotator::AtEnd at_end_;
  bool tracked_ = false;
  std::size_t namings_ = 0;
  std::map<std::uint32_t, ObjectSite> sites_;
  ObjectMap map_{*this};
};

// Collects the ranges of objects at an address that have a part of a page record.
class RangesOfObject : public ObjectMap::Visitor {
 public:
  RangesOfObject(std::uint64_t address, const EpochRange& epochs, const Annotator::Follows& follows)
      : address_(address), epochs_(epochs), follows_(follows) {}

  void See(const EpochProfile& epoch) { map_.See(epoch, epochs_.Contains(epoch.index)); }
  std::set<ObjectRange> Take() { return std::move(ranges_); }

  bool Follows(const Target& target) override { return follows_(target); }
  void Share(const PageColumns& /*pages*/, std::size_t /*record*/, const TracedObject& object,
             double /*share*/) override {
    if (object.start <= address_ && address_ < object.end()) {
      ranges_.insert({.target = object.target, .start = object.start, .end = object.end()});
    }
  }

 private:
  std::uint64_t address_;
  EpochRange epochs_;
  const Annotator::Follows& follows_;
  std::set<ObjectRange> ranges_;
  ObjectMap map_{*this};
};

}  // namespace

std::string ObjectText(std::uint64_t bytes, TracedKind kind, const ObjectSite& site,
                       std::size_t frames) {
  const bool was_allocated = kind == TracedKind::kAllocated || kind == TracedKind::kMapped;
  return fmt::format("{} {} {}", FormatBytes(bytes), was_allocated ? "by" : NameOf(kind),
                     SiteText(kind, site, frames));
}

Result<Trace> ObjectAnnotator::Join(const Trace& trace) const {
  if (Status known = counts_.RequireProcesses(trace); !known) return Fail(known.error());
  return counts_.empty() ? trace : counts_.Beside(trace);
}

std::unique_ptr<ObjectReading> ObjectAnnotator::Read(Follows follows, AtEnd at_end) const {
  return std::make_unique<Reading>(std::move(follows), std::move(at_end));
}

Result<std::set<ObjectRange>> ObjectAnnotator::RangesAt(std::uint64_t address, const Trace& trace,
                                                        const EpochRange& epochs,
                                                        const Follows& follows) const {
  RangesOfObject ranges(address, epochs, follows);
  // The object at the address in the chosen epochs may be older.
  const EpochRange until{.first = 0, .end = epochs.end};
  const Result<StreamEnd> end =
      ReadEpochs(trace, until, [&](const EpochProfile& epoch) { ranges.See(epoch); });
  if (!end) return Fail(end.error());
  return ranges.Take();
}

}  // namespace tmprof
