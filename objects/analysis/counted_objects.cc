// SPDX-License-Identifier: Apache-2.0

#include "objects/analysis/counted_objects.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text/format.h"
#include "objects/analysis/objects.h"
#include "objects/analysis/symbols.h"
#include "objects/format/objects_file.h"

namespace tmprof {
namespace {

using std::chrono::milliseconds;

// The tracker that may have been preloaded, too. A profile sees it as the allocating module.
constexpr std::string_view kTracker = "libtmprof_allocations.so";

// The births of one object may differ by this between a profile and a tracker. The parts are a tick
// of at most 10 ms (CONFIG_HZ=100, kernel/Kconfig.hz), the millisecond that is cut off, and the
// wait for a CPU that a thread may have between the two.
constexpr milliseconds kSameBirth{20};

// The places of calls in their modules, innermost first.
using Place = std::vector<std::pair<std::string, std::uint64_t>>;

Place PlaceOf(const std::vector<SourceFrame>& frames) {
  Place place;
  for (const SourceFrame& frame : frames) place.emplace_back(frame.module, frame.offset);
  return place;
}

bool BeginsWith(const Place& place, const Place& begin) {
  return begin.size() <= place.size() &&
         std::ranges::equal(begin, std::span(place).first(begin.size()));
}

bool Overlap(const ObjectsInfo& info, MonotonicTime start, MonotonicTime end) {
  return start < info.written && info.start < end;
}

const Target* FindTarget(const EpochProfile& epoch, const ObjectsInfo& info) {
  if (!Overlap(info, epoch.start, epoch.end)) return nullptr;
  const auto found = std::ranges::find(epoch.targets, info.pid, &Target::pid);
  return found != epoch.targets.end() ? &*found : nullptr;
}

}  // namespace

struct ObjectProfiles::Profile {
  struct Site {
    std::vector<SourceFrame> frames;
    std::uint64_t accesses = 0;
  };
  struct Variable {
    std::string name;                 // demangled
    std::vector<SourceFrame> frames;  // only its place in its module; empty: in none
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    std::uint64_t accesses = 0;
  };

  std::string file;
  ObjectsInfo info;
  std::map<std::uint32_t, Site> sites;
  std::vector<Variable> variables;
  std::vector<LiveObject> live;  // in order of birth
  std::uint64_t accesses = 0;    // to all objects
  std::uint64_t freed_accesses = 0;
};

// Adds the live objects of profiles to the epochs of a trace. Each object exists from its birth
// until its profile was written.
class ObjectProfiles::Stream : public EpochStream {
 public:
  Stream(std::unique_ptr<EpochStream> trace, std::vector<std::shared_ptr<const Profile>> profiles)
      : trace_(std::move(trace)), profiles_(std::move(profiles)), told_(profiles_.size()) {
    std::uint32_t site = kUnknownSite;
    for (const auto& profile : profiles_) {
      first_site_.push_back(site + 1);
      site += static_cast<std::uint32_t>(profile->sites.size() + profile->variables.size());
    }
  }

  Result<bool> Next(EpochProfile& epoch) override {
    Result<bool> more = trace_->Next(epoch);
    if (!more || !*more) return more;
    is_tracked_ = is_tracked_ || AllocationsOf(epoch) != nullptr;
    if (is_tracked_) return more;
    for (std::size_t i = 0; i < profiles_.size(); ++i) {
      if (const Target* target = FindTarget(epoch, profiles_[i]->info)) Tell(i, target->id, epoch);
      if (epoch.end >= profiles_[i]->info.written) End(i, epoch);
    }
    return more;
  }

  StreamEnd End() const override { return trace_->End(); }

 private:
  // State of one profile.
  struct Told {
    std::optional<TargetId> to;  // unset: reported to nobody yet, or no longer
    bool fixed = false;
    std::size_t live = 0;
  };

  static Allocations& AddedTo(EpochProfile& epoch) {
    Allocations* allocations = AllocationsOf(epoch);
    return allocations != nullptr ? *allocations : SetAllocations(epoch);
  }

  void Tell(std::size_t i, TargetId target, EpochProfile& epoch) {
    const Profile& profile = *profiles_[i];
    Told& told = told_[i];
    Allocations& allocations = AddedTo(epoch);
    std::uint32_t site = first_site_[i];
    if (!told.fixed) {
      for (const auto& [id, of] : profile.sites) {
        number_[{i, id}] = site;
        allocations.sites.push_back({.id = site++, .frames = of.frames});
      }
      for (const Profile::Variable& variable : profile.variables) {
        allocations.fixed.push_back({.target = target,
                                     .kind = FixedKind::kVariable,
                                     .address = variable.start,
                                     .bytes = variable.bytes,
                                     .time = profile.info.start,
                                     .site = site});
        allocations.sites.push_back(
            {.id = site++, .frames = variable.frames, .name = variable.name});
      }
    }
    told.to = target;
    told.fixed = true;
    for (; told.live < profile.live.size(); ++told.live) {
      const LiveObject& object = profile.live[told.live];
      const MonotonicTime birth = profile.info.start + object.birth;
      if (birth >= epoch.end) break;
      const auto number = number_.find({i, object.site});
      allocations.events.push_back({.target = target,
                                    .kind = AllocationKind::kAllocated,
                                    .address = object.start,
                                    .bytes = object.bytes,
                                    .time = birth,
                                    .site = number != number_.end() ? number->second : kUnknownSite,
                                    .weight = 1});
    }
  }

  // Ends the objects, because nothing is known of later times. If the process exits in this epoch,
  // all their heat came before, and they end with the epoch.
  void End(std::size_t i, EpochProfile& epoch) {
    const std::optional<TargetId> to = std::exchange(told_[i].to, std::nullopt);
    const auto target = std::ranges::find(epoch.targets, to, &Target::id);
    if (target == epoch.targets.end() || target->exited) return;
    const Profile& profile = *profiles_[i];
    Allocations& allocations = AddedTo(epoch);
    for (const Profile::Variable& variable : profile.variables) {
      allocations.fixed.push_back({.target = *to,
                                   .kind = FixedKind::kVariable,
                                   .ends = true,
                                   .address = variable.start,
                                   .time = profile.info.written});
    }
    for (std::size_t live = 0; live < told_[i].live; ++live) {
      allocations.events.push_back({.target = *to,
                                    .kind = AllocationKind::kFreed,
                                    .address = profile.live[live].start,
                                    .time = profile.info.written});
    }
  }

  std::unique_ptr<EpochStream> trace_;
  std::vector<std::shared_ptr<const Profile>> profiles_;
  std::vector<Told> told_;                                                 // one per profile
  std::vector<std::uint32_t> first_site_;                                  // one per profile
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> number_;  // key: profile and site
  bool is_tracked_ = false;
};

Result<StreamEnd> ObjectProfiles::Add(const std::filesystem::path& file) {
  Result<ObjectsReader> reader = ObjectsReader::Open(file);
  if (!reader) return Fail(std::move(reader.error()));
  ObjectsPart all;
  StreamEnd end;
  ObjectsPart part;
  while (true) {
    Result<bool> more = reader->Next(part);
    if (!more) end.damage = std::move(more.error());
    if (more && !*more) end = reader->End();
    if (!more || !*more) break;
    std::ranges::move(part.modules, std::back_inserter(all.modules));
    std::ranges::move(part.sites, std::back_inserter(all.sites));
    std::ranges::move(part.variables, std::back_inserter(all.variables));
    std::ranges::move(part.stacks, std::back_inserter(all.stacks));
    std::ranges::move(part.objects, std::back_inserter(all.objects));
    std::ranges::move(part.calls, std::back_inserter(all.calls));
    all.elsewhere += part.elsewhere;
  }
  std::map<std::uint64_t, std::vector<SourceFrame>> calls;
  for (NamedCall& call : all.calls) calls[call.return_address] = std::move(call.frames);
  const Symbols symbols(all.modules, reader->info().program);
  Add(file.string(), reader->info(), std::move(all), AskedOnce([&](std::uint64_t return_address) {
        const auto named = calls.find(return_address);
        return named != calls.end() ? named->second : symbols.CallBefore(return_address);
      }));
  return end;
}

void ObjectProfiles::Add(std::string file, const ObjectsInfo& info, ObjectsPart all,
                         const Symbolize& symbolize) {
  auto profile = std::make_shared<Profile>();
  profile->file = std::move(file);
  profile->info = info;
  for (const AllocationSite& counted : all.sites) {
    Profile::Site& site = profile->sites[counted.id];
    site.accesses += counted.freed_accesses;
    profile->freed_accesses += counted.freed_accesses;
    for (const std::uint64_t address : counted.return_addresses) {
      std::vector<SourceFrame> frames = symbolize(address);
      // A damaged file may name a call that has no frames.
      if (frames.empty()) continue;
      if (site.frames.empty() && FileName(frames[0].module) == kTracker) continue;
      std::ranges::move(frames, std::back_inserter(site.frames));
    }
  }
  profile->accesses = profile->freed_accesses + all.elsewhere;
  for (const ThreadStack& stack : all.stacks) profile->accesses += stack.accesses;
  for (const LiveObject& object : all.objects) {
    profile->sites[object.site].accesses += object.accesses;
    profile->accesses += object.accesses;
  }
  profile->live = std::move(all.objects);
  std::ranges::stable_sort(profile->live, {}, &LiveObject::birth);

  std::map<std::pair<std::uint64_t, std::string>, Profile::Variable> variables;
  for (const VariableCount& counted : all.variables) {
    Profile::Variable& variable = variables[{counted.start, counted.name}];
    variable.bytes = std::max(variable.bytes, counted.bytes);  // 0: a module does not know the size
    variable.accesses += counted.accesses;
    profile->accesses += counted.accesses;
  }
  for (auto& [where, variable] : variables) {
    variable.start = where.first;
    variable.name = Demangled(where.second);
    const auto module = std::ranges::find_if(all.modules, [&](const LoadedModule& candidate) {
      return !candidate.closed && candidate.start <= where.first && where.first < candidate.end;
    });
    if (module != all.modules.end()) {
      variable.frames = {{.module = module->path.empty() ? info.program : module->path,
                          .offset = where.first - module->bias}};
    }
    if (variable.bytes > 0) profile->variables.push_back(std::move(variable));
  }
  profiles_.push_back(std::move(profile));
}

std::vector<ObjectProfiles::CountedSites> ObjectProfiles::Sites() const {
  std::vector<CountedSites> all;
  for (const auto& profile : profiles_) {
    CountedSites& counted = all.emplace_back();
    counted.file = profile->file;
    counted.live = profile->live;
    for (const auto& [id, site] : profile->sites) {
      counted.sites.push_back({.id = id, .frames = site.frames, .accesses = site.accesses});
    }
  }
  return all;
}

bool ObjectProfiles::MayCountTwice() const {
  return profiles_.size() > 1 && std::ranges::any_of(profiles_, [](const auto& profile) {
           return profile->info.forks > 0;
         });
}

Status ObjectProfiles::RequireProcesses(const Trace& trace) const {
  std::vector<std::shared_ptr<const Profile>> missing = profiles_;
  if (missing.empty()) return {};
  const auto epochs = trace.open();
  if (!epochs) return Fail(epochs.error());
  EpochProfile epoch;
  while (!missing.empty()) {
    const Result<bool> more = (*epochs)->Next(epoch);
    if (!more) return {};  // the caller that reads the trace reports the damage
    if (!*more) break;
    std::erase_if(missing,
                  [&](const auto& profile) { return FindTarget(epoch, profile->info) != nullptr; });
  }
  if (missing.empty()) return {};
  const ObjectsInfo& info = missing[0]->info;
  const auto ran =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(info.written - info.start);
  return Fail(BadInput(
      "use object profile", missing[0]->file,
      fmt::format("it is of PID {} from {} to {}, of which the trace has nothing", info.pid.value(),
                  WallTime(info.wall_start), WallTime(info.wall_start + ran)),
      "name the profile that the recorded run wrote"));
}

Trace ObjectProfiles::Beside(const Trace& trace) const {
  Trace joined = trace;
  joined.open = [open = trace.open,
                 profiles = profiles_]() -> Result<std::unique_ptr<EpochStream>> {
    auto epochs = open();
    if (!epochs) return Fail(std::move(epochs.error()));
    return std::make_unique<Stream>(*std::move(epochs), profiles);
  };
  return joined;
}

void ObjectProfiles::Count(TracedObjects& objects) const {
  using Row = TracedObjects::Row;
  const ObjectsBy by = objects.options.by;
  TracedObjects::Counted& counted = objects.counted.emplace(TracedObjects::Counted{});
  const auto add = [&](Row& row, std::uint64_t accesses) {
    row.counted = row.counted.value_or(0) + accesses;
    counted.in_rows += accesses;
  };
  std::map<std::string, Row*> types;                                  // those of allocated objects
  std::map<std::string, Row*> variables;                              // key: name
  std::map<std::pair<Pid, std::uint64_t>, std::vector<Row*>> starts;  // those of allocated objects
  std::map<std::pair<Pid, std::uint64_t>, Row*> variable_starts;
  std::map<Place, Row*> places;           // null: several rows have it
  std::map<Place, Row*> variable_places;  // null: several rows have it
  for (Row& row : objects.rows) {
    const auto note = [&](auto& rows, auto key) {
      const auto [at, is_new] = rows.try_emplace(std::move(key), &row);
      if (!is_new) at->second = nullptr;
    };
    const bool is_allocated = row.kind == TracedKind::kAllocated;
    if (!is_allocated && row.kind != TracedKind::kVariable) continue;
    if (by == ObjectsBy::kType) {
      note(is_allocated ? types : variables, row.type);
    } else if (by == ObjectsBy::kObject) {
      const std::pair start(*row.pid, *row.start);
      if (is_allocated) {
        starts[start].push_back(&row);
      } else {
        note(variable_starts, start);
      }
    } else {
      note(is_allocated ? places : variable_places, PlaceOf(row.site.frames));
    }
  }
  std::vector<std::shared_ptr<const Profile>> profiles;
  std::set<Place> own_places;  // places of the profiles' sites
  for (const auto& profile : profiles_) {
    if (objects.options.pid && *objects.options.pid != profile->info.pid) continue;
    const auto seen = objects.seen.find(profile->info.pid);
    if (seen == objects.seen.end()) continue;
    if (!Overlap(profile->info, seen->second.start, seen->second.end)) continue;
    profiles.push_back(profile);
    if (by != ObjectsBy::kSite) continue;
    for (const auto& [id, site] : profile->sites) own_places.insert(PlaceOf(site.frames));
  }
  // Returns the row of a site. A tracker unwinds further out than frame pointers lead, so that the
  // row's stack may only begin with the site's. Null: the site may be one of several rows. Rows
  // that begin with the site's stack but are sites of their own do not count.
  const auto row_at = [&](const Place& place) -> Row* {
    const auto first = places.lower_bound(place);
    if (first == places.end() || !BeginsWith(first->first, place)) return nullptr;
    for (auto other = std::next(first); other != places.end() && BeginsWith(other->first, place);
         ++other) {
      if (first->first != place || !own_places.contains(other->first)) return nullptr;
    }
    return first->second;
  };
  for (const auto& profile : profiles) {
    counted.accesses += profile->accesses;
    counted.freed_accesses += profile->freed_accesses;
    const auto add_at = [&](const auto& rows, const auto& key, std::uint64_t accesses) {
      const auto found = rows.find(key);
      if (found != rows.end() && found->second != nullptr) add(*found->second, accesses);
    };
    if (by == ObjectsBy::kObject) {
      for (const LiveObject& object : profile->live) {
        const auto found = starts.find({profile->info.pid, object.start});
        if (found == starts.end()) continue;
        const auto is_it = [birth = profile->info.start + object.birth](const Row* row) {
          return std::chrono::abs(*row->birth - birth) <= kSameBirth;
        };
        const std::vector<Row*>& rows = found->second;
        if (std::ranges::count_if(rows, is_it) != 1) continue;
        add(**std::ranges::find_if(rows, is_it), object.accesses);
      }
    }
    for (const auto& [id, site] : profile->sites) {
      if (by == ObjectsBy::kType) add_at(types, TypeText(site.frames), site.accesses);
      if (by != ObjectsBy::kSite || site.frames.empty()) continue;
      if (Row* row = row_at(PlaceOf(site.frames))) add(*row, site.accesses);
    }
    for (const Profile::Variable& variable : profile->variables) {
      if (by == ObjectsBy::kType) add_at(variables, variable.name, variable.accesses);
      if (by == ObjectsBy::kSite) {
        add_at(variable_places, PlaceOf(variable.frames), variable.accesses);
      }
      if (by == ObjectsBy::kObject) {
        add_at(variable_starts, std::pair(profile->info.pid, variable.start), variable.accesses);
      }
    }
  }
}

}  // namespace tmprof
