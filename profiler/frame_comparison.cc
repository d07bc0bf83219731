// SPDX-License-Identifier: Apache-2.0

#include "profiler/frame_comparison.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "base/host/procfs.h"
#include "base/kept_groups.h"
#include "base/process_families.h"
#include "base/unique_fd.h"

namespace tmprof {
namespace {

constexpr int kRest = 200;  // times what the last comparison took
// The most relatives that are asked, and the most pages for one comparison: at 15 ns, 4 ms.
constexpr std::size_t kMostAsked = 64;
constexpr std::uint64_t kMostPagesAsked = 262'144;
constexpr PageCount kGapWorthReading(64);
constexpr PageCount kMostReadAtOnce(4096);

// Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
constexpr std::uint64_t kPagemapPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kPagemapExclusive = std::uint64_t{1} << 56;
constexpr std::uint64_t kPagemapFrame = (std::uint64_t{1} << 55) - 1;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

class ThreadClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return MonotonicTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};

// A target with its records, and the names of its joined pages.
struct Member {
  const Target* target = nullptr;
  std::size_t next = 0;  // record
  std::size_t end = 0;
  std::span<const ForkedPages::Run> runs{};
  std::size_t run = 0;
  const Mapping* mapping = nullptr;  // the last that was found

  bool IsPrivate(VpnRange pages) {
    if (mapping == nullptr || !mapping->range.Contains(pages.start))
      mapping = FindMapping(*target, pages.start);
    return mapping != nullptr && mapping->kind != MappingKind::kShared &&
           mapping->kind != MappingKind::kSpecial && pages.end <= mapping->range.end;
  }
  // Pages are asked for in ascending order.
  PageKey NameOf(VpnRange pages) {
    while (run < runs.size() && runs[run].range.end <= pages.start) ++run;
    const PageKey own{target->id, pages.start};
    if (run == runs.size() || pages.start < runs[run].range.start ||
        runs[run].range.end < pages.end)
      return own;
    return {runs[run].name.target, runs[run].name.vpn + (pages.start - runs[run].range.start)};
  }
};
using Family = std::vector<Member>;

// Returns targets with relatives, by the root of the family, if a look read any page of the family.
std::map<Pid, Family> FamiliesOf(const EpochProfile& profile,
                                 std::span<const std::optional<SeenFrame>> frames,
                                 const FrameComparison::ParentOf& parent_of,
                                 const ForkedPages& told) {
  ProcessFamilies families;
  for (const Target& target : profile.targets) families.Join(target.pid, parent_of(target.id));
  std::map<Pid, Family> by_root;
  const PageColumns& pages = profile.pages;
  for (const Target& target : profile.targets) {
    if (target.mappings.empty()) continue;
    const auto records = std::ranges::equal_range(pages.target, target.id);
    const auto first = static_cast<std::size_t>(records.begin() - pages.target.begin());
    by_root[families.RootOf(target.pid)].push_back({.target = &target,
                                                    .next = first,
                                                    .end = first + records.size(),
                                                    .runs = told.RunsOf(target.id)});
  }
  std::erase_if(by_root, [frames](const auto& each) {
    const Family& family = each.second;
    const auto was_read = [frames](const Member& member) {
      return std::any_of(frames.begin() + static_cast<std::ptrdiff_t>(member.next),
                         frames.begin() + static_cast<std::ptrdiff_t>(member.end),
                         [](const auto& frame) { return frame.has_value(); });
    };
    return family.size() < 2 || std::ranges::none_of(family, was_read);
  });
  return by_root;
}

std::size_t RecordsOf(const Family& family) {
  std::size_t records = 0;
  for (const Member& member : family) records += member.end - member.next;
  return records;
}

// Leaves the members at most so many records, from this address on, but all of at least one
// address. Returns the first address of the records after those; nullopt: there are none.
std::optional<Vpn> TakePart(const PageColumns& pages, Vpn from, std::size_t most, Family& family) {
  const auto first_at = [&pages](const Member& member, Vpn address) {
    const auto begin = pages.vpn.begin();
    return static_cast<std::size_t>(
        std::lower_bound(begin + static_cast<std::ptrdiff_t>(member.next),
                         begin + static_cast<std::ptrdiff_t>(member.end), address) -
        begin);
  };
  Vpn first(std::numeric_limits<Vpn::rep>::max());
  Vpn last(0);
  for (Member& member : family) {
    member.next = first_at(member, from);
    if (member.next == member.end) continue;
    first = std::min(first, pages.vpn[member.next]);
    last = std::max(last, pages.vpn[member.end - 1]);
  }
  if (RecordsOf(family) <= most) return std::nullopt;
  const auto fits = [&](Vpn end) {
    std::size_t records = 0;
    for (const Member& member : family) records += first_at(member, end) - member.next;
    return records <= most;
  };
  Vpn end = first + PageCount(1);
  for (Vpn::rep step = std::bit_floor((last - first).value() + 1); step > 0; step /= 2) {
    const Vpn further = end + PageCount(step);
    if (further <= last && fits(further)) end = further;
  }
  bool is_all = true;
  for (Member& member : family) {
    const std::size_t rest = first_at(member, end);
    is_all = is_all && rest == member.end;
    member.end = rest;
  }
  return is_all ? std::nullopt : std::optional(end);
}

// A record at some address with a frame.
struct AtAddress {
  std::uint64_t frame;
  std::uint32_t span_pages;
  std::uint32_t record;
  bool is_shareable;
  std::size_t member;
  auto Key() const { return std::tuple(frame, span_pages, record); }
};

struct Look {
  AtAddress seen;
  PageKey name;
};

// Pages of a relative whose frame would tell something new.
struct Question {
  std::size_t member;
  VpnRange pages;
  PageKey name;
  std::uint32_t own_record;  // which has no frame; kNone: there is none
  std::size_t first_look;    // at the pages, in Comparison::looks_
  std::size_t end_look;
};

// A record that is added for an answer.
struct Added {
  PageKey key;
  std::uint32_t span_pages;
  std::uint32_t group;
};

class Comparison {
 public:
  Comparison(const PageColumns& pages, std::span<const std::optional<SeenFrame>> frames)
      : pages_(pages),
        frames_(frames),
        group_(pages.size()),
        next_group_(static_cast<std::uint32_t>(pages.size())) {
    for (std::uint32_t i = 0; i < group_.size(); ++i) group_[i] = i;
  }

  // `asks`: relatives without a look are asked by AskRelatives().
  void JoinEqual(Family& family, bool asks) {
    asks = asks && family.size() <= kMostAsked;
    questions_.clear();
    looks_.clear();
    end_look_ = 0;
    groups_.clear();
    const auto is_later = [&](std::size_t a, std::size_t b) {
      return pages_.vpn[family[a].next] > pages_.vpn[family[b].next];
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> queue(is_later);
    for (std::size_t i = 0; i < family.size(); ++i) {
      if (family[i].next < family[i].end) queue.push(i);
    }
    std::vector<AtAddress> seen;
    std::vector<std::uint32_t> record_of(family.size());  // at the address
    while (!queue.empty()) {
      const Vpn at = pages_.vpn[family[queue.top()].next];
      seen.clear();
      std::ranges::fill(record_of, kNone);
      while (!queue.empty() && pages_.vpn[family[queue.top()].next] == at) {
        const std::size_t i = queue.top();
        queue.pop();
        const auto record = static_cast<std::uint32_t>(family[i].next++);
        record_of[i] = record;
        if (const auto& frame = frames_[record]) {
          seen.push_back(
              {frame->number, pages_.span_pages[record], record, frame->is_shareable, i});
        }
        if (family[i].next < family[i].end) queue.push(i);
      }
      if (asks && !seen.empty()) FindQuestions(family, at, seen, record_of);
      std::erase_if(seen, [](const AtAddress& each) { return !each.is_shareable; });
      if (seen.size() > 1) JoinSeen(family, at, seen);
    }
  }

  void AskRelatives(const Family& family, const FrameComparison::OpenFrames& open_frames) {
    std::ranges::stable_sort(questions_, {}, &Question::member);
    std::optional<std::size_t> opened;  // member
    FrameComparison::ReadFrames read_frames;
    for (std::size_t first = 0;
         first < questions_.size() && asked_ < kMostPagesAsked && !is_hidden_;) {
      const std::size_t member = questions_[first].member;
      VpnRange range = questions_[first].pages;
      std::size_t end = first + 1;
      for (; end < questions_.size() && questions_[end].member == member; ++end) {
        const VpnRange& next = questions_[end].pages;
        if (next.start > range.end + kGapWorthReading || next.end - range.start > kMostReadAtOnce)
          break;
        range.end = std::max(range.end, next.end);
      }
      asked_ += range.size().value();
      const Target& target = *family[member].target;
      if (opened != member) {
        read_frames = open_frames(target);
        opened = member;
      }
      std::vector<std::optional<SeenFrame>> frames;
      if (read_frames) frames = read_frames(range);
      is_hidden_ = std::ranges::any_of(frames, [](const auto& frame) { return !frame; });
      for (; first < end; ++first) {
        if (frames.size() == range.size().value()) Answer(questions_[first], target, range, frames);
      }
    }
  }

  bool are_frames_hidden() const { return is_hidden_; }

  // These records are not compared. Precondition: no relative was asked.
  void LeaveOut(std::size_t first, std::size_t end) {
    if (first < end) left_out_.emplace_back(first, end);
  }

  // Adds the records, and sets same_as.
  void Finish(PageColumns& columns) {
    std::ranges::sort(added_, {}, &Added::key);
    PageColumns with_added;
    std::vector<std::uint32_t> group = std::move(group_);
    if (!added_.empty()) {
      const auto old = static_cast<std::uint32_t>(columns.size());
      std::vector<std::uint32_t> merged;
      if (columns.new_visits) with_added.new_visits.emplace();
      with_added.Reserve(old + added_.size());
      std::uint32_t next = 0;
      const auto take_before = [&](PageKey key) {
        for (; next < old && columns.key(next) < key; ++next) {
          Append(with_added, RecordAt(columns, next));
          merged.push_back(group[next]);
        }
      };
      for (const Added& added : added_) {
        take_before(added.key);
        Append(with_added, {.key = added.key, .span = PageCount(added.span_pages)});
        merged.push_back(added.group);
      }
      take_before({TargetId(std::numeric_limits<std::uint32_t>::max()), Vpn(0)});
      group = std::move(merged);
      columns = std::move(with_added);
    }
    std::vector<std::uint32_t> first(next_group_, kNone);
    std::vector<std::uint32_t> same_as;
    same_as.reserve(group.size());
    for (std::uint32_t i = 0; i < group.size(); ++i) {
      std::uint32_t& first_of_group = first[group[i]];
      if (first_of_group == kNone) first_of_group = i;
      same_as.push_back(first_of_group);
    }
    for (const auto& [first_left_out, end] : left_out_) {
      std::fill(same_as.begin() + static_cast<std::ptrdiff_t>(first_left_out),
                same_as.begin() + static_cast<std::ptrdiff_t>(end), kNotCompared);
    }
    columns.same_as = std::move(same_as);
  }

 private:
  void JoinSeen(Family& family, Vpn at, std::vector<AtAddress>& seen) {
    std::ranges::sort(seen, {}, &AtAddress::Key);
    for (std::size_t first = 0; first < seen.size();) {
      const AtAddress& one = seen[first];
      std::size_t end = first + 1;
      while (end < seen.size() && seen[end].frame == one.frame &&
             seen[end].span_pages == one.span_pages)
        ++end;
      const VpnRange range{at, at + PageCount(one.span_pages)};
      if (end > first + 1 && family[one.member].IsPrivate(range)) {
        for (std::size_t other = first + 1; other < end; ++other) {
          if (family[seen[other].member].IsPrivate(range)) group_[seen[other].record] = one.record;
        }
      }
      first = end;
    }
  }

  void FindQuestions(Family& family, Vpn at, const std::vector<AtAddress>& seen,
                     const std::vector<std::uint32_t>& record_of) {
    const std::uint32_t span_pages = seen.front().span_pages;
    if (!IsOneEntry(span_pages) || std::ranges::any_of(seen, [&](const AtAddress& each) {
          return each.span_pages != span_pages;
        }))
      return;
    if (seen.size() == family.size()) return;
    const VpnRange pages{at, at + PageCount(span_pages)};
    looks_.resize(end_look_);
    bool any_private = false;
    for (const AtAddress& each : seen) {
      Member& member = family[each.member];
      if (!member.IsPrivate(pages)) continue;
      any_private = true;
      looks_.push_back({each, member.NameOf(pages)});
    }
    if (!any_private) return;
    const auto looks = std::span(looks_).subspan(end_look_);
    bool is_asked = false;
    names_.clear();
    for (std::size_t i = 0; i < family.size(); ++i) {
      Member& member = family[i];
      const std::uint32_t own = record_of[i];
      if (member.target->exited) continue;
      if (own == kNone ? Overlaps(member, pages)
                       : frames_[own] || pages_.span_pages[own] != span_pages)
        continue;
      const PageKey name = member.NameOf(pages);
      // If several relatives are known to have one page, one of them shows that it is the same. All
      // of them have to show that it no longer is.
      const bool may_have_parted = std::ranges::any_of(
          looks, [&](const Look& look) { return !look.seen.is_shareable && look.name == name; });
      const bool may_be_same = std::ranges::any_of(
          looks, [&](const Look& look) { return look.seen.is_shareable && look.name != name; });
      if (!may_have_parted && (!may_be_same || std::ranges::count(names_, name) > 0)) continue;
      if (!member.IsPrivate(pages)) continue;
      names_.push_back(name);
      is_asked = true;
      questions_.push_back({.member = i,
                            .pages = pages,
                            .name = name,
                            .own_record = own,
                            .first_look = end_look_,
                            .end_look = looks_.size()});
    }
    if (is_asked) end_look_ = looks_.size();
  }

  // True if a record of the member that does not begin with the pages holds some of them.
  bool Overlaps(const Member& member, VpnRange pages) const {
    if (member.next < member.end && pages_.target[member.next] == member.target->id &&
        pages_.vpn[member.next] < pages.end)
      return true;
    if (member.next == 0 || pages_.target[member.next - 1] != member.target->id) return false;
    return pages_.vpn[member.next - 1] + PageCount(pages_.span_pages[member.next - 1]) >
           pages.start;
  }

  void Answer(const Question& question, const Target& target, VpnRange range,
              const std::vector<std::optional<SeenFrame>>& frames) {
    const std::size_t offset = (question.pages.start - range.start).value();
    const std::uint64_t count = question.pages.size().value();
    const std::optional<SeenFrame>& first = frames[offset];
    bool is_whole = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::optional<SeenFrame>& each = frames[offset + i];
      if (!each) return;
      is_whole &= each->is_shareable && each->number == first->number + i;
    }
    std::uint32_t group = kNone;
    bool was_joined = false;
    for (std::size_t at = question.first_look; at < question.end_look; ++at) {
      const Look& look = looks_[at];
      was_joined |= look.name == question.name;
      if (group == kNone && is_whole && look.seen.is_shareable && look.seen.frame == first->number)
        group = group_[look.seen.record];
    }
    if (group == kNone && !was_joined) return;
    if (question.own_record != kNone) {
      if (group != kNone) group_[question.own_record] = group;
      return;
    }
    if (group == kNone) {
      // Relatives may share it still.
      group = next_group_;
      if (is_whole) {
        group =
            groups_.try_emplace({question.pages.start, first->number, count}, group).first->second;
      }
      next_group_ += group == next_group_;
    }
    added_.push_back({{target.id, question.pages.start}, static_cast<std::uint32_t>(count), group});
  }

  const PageColumns& pages_;
  std::span<const std::optional<SeenFrame>> frames_;
  std::vector<std::uint32_t> group_;  // by record: the first record of the same pages
  std::vector<Question> questions_;   // of a family
  std::vector<Look> looks_;           // at the pages of questions
  std::size_t end_look_ = 0;          // those from here on belong to no question
  std::vector<PageKey> names_;        // of the relatives that are asked at an address
  // Groups of pages of a family without a look: address, frame and pages.
  std::map<std::tuple<Vpn, std::uint64_t, std::uint64_t>, std::uint32_t> groups_;
  std::uint32_t next_group_;
  std::vector<Added> added_;
  std::vector<std::pair<std::size_t, std::size_t>> left_out_;  // records: first and end
  std::uint64_t asked_ = 0;                                    // pages
  bool is_hidden_ = false;                                     // a frame was
};

// Returns the columns of these records that ForkedPages needs.
PageColumns PartOf(const PageColumns& pages,
                   std::vector<std::pair<std::size_t, std::size_t>> records) {
  std::ranges::sort(records);
  PageColumns part;
  if (pages.accesses) part.accesses.emplace();
  KeptGroups groups(pages, part);
  for (const auto& [first, end] : records) {
    for (std::size_t i = first; i < end; ++i) {
      part.target.push_back(pages.target[i]);
      part.vpn.push_back(pages.vpn[i]);
      part.span_pages.push_back(pages.span_pages[i]);
      part.looks.push_back(pages.looks[i]);
      part.load_samples.push_back(pages.load_samples[i]);
      part.store_samples.push_back(pages.store_samples[i]);
      if (pages.accesses) {
        part.accesses->loads.push_back(pages.accesses->loads[i]);
        part.accesses->stores.push_back(pages.accesses->stores[i]);
      }
      part.same_as->push_back(0);
      groups.Keep(i);
    }
  }
  return part;
}

}  // namespace

FrameComparison::FrameComparison() {
  static const ThreadClock clock;
  cpu_clock_ = &clock;
}

FrameComparison::Outcome FrameComparison::Compare(EpochProfile& profile,
                                                  std::span<const std::optional<SeenFrame>> frames,
                                                  const ParentOf& parent_of,
                                                  const OpenFrames& open_frames) {
  Outcome outcome{.are_frames_hidden = are_frames_hidden_};
  if (profile.targets.size() < 2 || profile.pages.empty() || profile.end < next_) return outcome;
  const MonotonicTime start = cpu_clock_->Now();
  std::map<Pid, Family> families = FamiliesOf(profile, frames, parent_of, told_);
  const bool may_ask = open_frames && !are_frames_hidden_;
  std::size_t records = 0;
  bool any_pair = false;
  for (const auto& [root, family] : families) {
    std::size_t with_records = 0;
    for (const Member& member : family) {
      with_records += member.next < member.end;
      for (std::size_t i = member.next; i < member.end; ++i) {
        // Regions have looks, but no frame of their own: nothing shows these pages apart.
        if (profile.pages.looks[i] > 0 && !frames[i]) return outcome;
      }
    }
    records += RecordsOf(family);
    any_pair |= with_records > 1 || may_ask;
  }
  if (!any_pair) return outcome;
  Comparison comparison(profile.pages, frames);
  if (records <= most_records_) {
    for (auto& [root, family] : families) {
      comparison.JoinEqual(family, may_ask);
      if (may_ask) comparison.AskRelatives(family, open_frames);
    }
    are_frames_hidden_ = outcome.are_frames_hidden =
        are_frames_hidden_ || comparison.are_frames_hidden();
    comparison.Finish(profile.pages);
    told_.Add(profile.pages);
  } else {
    std::vector<std::pair<std::size_t, std::size_t>> compared;  // records: first and end
    std::size_t left = most_records_;
    std::size_t taken = 0;
    auto next = families.lower_bound(next_root_);
    for (std::size_t i = 0; i < families.size(); ++i, ++next) {
      if (next == families.end()) next = families.begin();
      auto& [root, family] = *next;
      if (left == 0) {
        for (const Member& member : family) comparison.LeaveOut(member.next, member.end);
        continue;
      }
      const Family whole = family;
      const Vpn from = root == next_root_ ? next_page_ : Vpn(0);
      const std::optional<Vpn> rest = TakePart(profile.pages, from, left, family);
      left = rest ? 0 : left - std::min(left, RecordsOf(family));
      next_root_ = rest ? root : Pid(root.value() + 1);
      next_page_ = rest.value_or(Vpn(0));
      for (std::size_t member = 0; member < family.size(); ++member) {
        comparison.LeaveOut(whole[member].next, family[member].next);
        comparison.LeaveOut(family[member].end, whole[member].end);
        compared.emplace_back(family[member].next, family[member].end);
      }
      taken += RecordsOf(family);
      comparison.JoinEqual(family, false);
    }
    outcome.not_compared += records - taken;
    comparison.Finish(profile.pages);
    told_.Add(PartOf(profile.pages, std::move(compared)));
  }
  std::vector<TargetId> targets;
  for (const Target& target : profile.targets) targets.push_back(target.id);
  told_.KeepOnly(targets);
  next_ = profile.end + kRest * (cpu_clock_->Now() - start);
  return outcome;
}

FrameComparison::ReadFrames OpenPagemap(const Target& target, const std::filesystem::path& proc) {
  const auto path = proc / std::to_string(target.pid.value()) / "pagemap";
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  // The descriptor stays with the memory that it was opened for. If the process is the target now,
  // it was when the file was opened.
  const auto stat = ProcFs(proc).Stat(target.pid);
  if (!stat || stat->start_time_ticks != target.start_time_ticks) return {};
  return [file = std::move(file)](VpnRange pages) -> std::vector<std::optional<SeenFrame>> {
    std::vector<std::uint64_t> entries(pages.size().value());
    const std::size_t bytes = entries.size() * sizeof entries[0];
    const auto offset = static_cast<off_t>(pages.start.value() * sizeof entries[0]);
    if (::pread(file.get(), entries.data(), bytes, offset) != static_cast<ssize_t>(bytes))
      return {};
    std::vector<std::optional<SeenFrame>> frames;
    frames.reserve(entries.size());
    for (const std::uint64_t entry : entries) {
      const std::uint64_t frame = entry & kPagemapFrame;
      if (!(entry & kPagemapPresent)) {
        frames.emplace_back(SeenFrame{});
      } else if (frame == 0) {
        frames.emplace_back(std::nullopt);
      } else {
        frames.emplace_back(
            SeenFrame{.number = frame, .is_shareable = !(entry & kPagemapExclusive)});
      }
    }
    return frames;
  };
}

}  // namespace tmprof
