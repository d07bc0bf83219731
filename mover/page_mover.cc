// SPDX-License-Identifier: Apache-2.0

#include "mover/page_mover.h"

#include <numaif.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

// Size of the first call, which takes no machine 5 ms. A move costs some 1.35 page faults, a fault
// 1.4 us (QEMU KVM guest on an AMD EPYC), and each call 25 us more.
constexpr PageCount kFirstChunk{64};
// More pages in a call save nothing of its fixed cost: 25 us of some 30 ms.
constexpr PageCount kLargestChunk{16384};
// Moves that are searched for more of one kind. They come sorted by score, and targets mix.
constexpr std::size_t kWindow = 4096;
// Pages are kept busy by disk writes and the like, which take milliseconds.
constexpr std::chrono::milliseconds kRetryAfter{100};
// Reclaim (kswapd) or an exiting process must first make room.
constexpr std::chrono::seconds kFullFor{1};

// This many pages are assumed to have taken kAssumedNsPerPage before any call.
constexpr double kAssumedPages = 64;
// Weight of a call's time one call later.
constexpr double kRemembered = 0.9;

// Neither a node nor an errno.
constexpr int kUntold = std::numeric_limits<int>::min();

bool MayYetMove(int error) { return error == EBUSY || error == EAGAIN; }

MoveScope ScopeOf(const Move& move) {
  return move.joint ? MoveScope::kAll : MoveScope::kMappedOnce;
}

}  // namespace

bool IsOutOfMemory(const Move& move, int error) {
  return error == ENOMEM && move.span == PageCount(1);
}

int MovePagesCall::operator()(Pid pid, std::span<const Vpn> pages, std::span<const NodeId> nodes,
                              std::span<int> status, MoveScope scope) {
  std::vector<void*> addresses(pages.size());
  std::ranges::transform(pages, addresses.begin(), [](Vpn page) {
    return reinterpret_cast<void*>(AddressOf(page));  // NOLINT(performance-no-int-to-ptr)
  });
  std::vector<int> wanted(nodes.size());
  std::ranges::transform(nodes, wanted.begin(), [](NodeId node) { return int{node.value()}; });
  const long moved = ::move_pages(pid.value(), pages.size(), addresses.data(),
                                  nodes.empty() ? nullptr : wanted.data(), status.data(),
                                  scope == MoveScope::kAll ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE);
  return moved < 0 ? -errno : static_cast<int>(moved);
}

PageMover::PageMover(MoverLimits limits, MoveCall& call, const Clock& clock, const Clock& cpu_clock,
                     FindPid find_pid, FindBinding find_binding, FindFiles find_files)
    : limits_(limits),
      call_(&call),
      clock_(&clock),
      cpu_clock_(&cpu_clock),
      find_pid_(std::move(find_pid)),
      find_binding_(std::move(find_binding)),
      find_files_(std::move(find_files)),
      bandwidth_(limits.bytes_per_second, clock.Now()),
      cpu_(limits.cpu_ns_per_second, clock.Now()) {
  TMPROF_CHECK(limits.attempts > 0);
  for (ScopeCost& cost : costs_) cost.chunk = kFirstChunk;
}

void PageMover::Configure(const MoverLimits& limits) {
  TMPROF_CHECK(limits.attempts > 0);
  const MoverLimits before = std::exchange(limits_, limits);
  const MonotonicTime now = clock_->Now();
  if (limits.bytes_per_second != before.bytes_per_second) {
    bandwidth_ = RateLimit(limits.bytes_per_second, now);
  }
  if (limits.cpu_ns_per_second != before.cpu_ns_per_second) {
    cpu_ = RateLimit(limits.cpu_ns_per_second, now);
  }
}

std::vector<Move> PageMover::Replace(std::vector<Move> moves) {
  std::vector<Move> dropped;
  dropped.reserve(pending_.size());
  for (const Pending& pending : pending_) dropped.push_back(pending.move);
  pending_.clear();
  unread_.reset();
  for (const Move& move : moves) pending_.push_back({.move = move});
  return dropped;
}

MonotonicTime PageMover::DueOf(const Pending& pending) const {
  const auto full = full_until_.find(pending.move.to);
  if (full == full_until_.end()) return pending.not_before;
  return std::max(pending.not_before, full->second);
}

PageCount PageMover::Most(MoveScope scope, MonotonicTime now) {
  const std::optional<std::uint64_t> bytes = bandwidth_.Left(now);
  const PageCount chunk = Cost(scope).chunk;
  return bytes ? std::min(chunk, PageCount(*bytes / kBasePageBytes)) : chunk;
}

std::vector<PageMover::Pending> PageMover::TakeChunk(MonotonicTime now) {
  std::vector<Pending> chunk;
  PageCount most;
  PageCount pages;
  const auto window = static_cast<std::ptrdiff_t>(std::min(pending_.size(), kWindow));
  const auto belongs = [&](const Pending& pending) {
    if (DueOf(pending) > now) return false;
    if (chunk.empty()) return true;
    const Move& first = chunk.front().move;
    // A huge page that finds no room ends a call, whatever else the call has.
    return pending.move.key.target == first.key.target && pending.move.to == first.to &&
           pending.move.span == first.span && pending.move.joint == first.joint &&
           pages + pending.move.span <= most;
  };
  const auto left =
      std::remove_if(pending_.begin(), pending_.begin() + window, [&](const Pending& pending) {
        if (!belongs(pending)) return false;
        if (chunk.empty()) most = Most(ScopeOf(pending.move), now);
        chunk.push_back(pending);
        pages += pending.move.span;
        return true;
      });
  pending_.erase(left, pending_.begin() + window);
  return chunk;
}

std::optional<PageMover::Binding> PageMover::BindingOfNext(MonotonicTime now) {
  unread_.reset();
  if (!find_binding_) return std::nullopt;
  const auto window = static_cast<std::ptrdiff_t>(std::min(pending_.size(), kWindow));
  const auto first = std::find_if(pending_.begin(), pending_.begin() + window,
                                  [&](const Pending& pending) { return DueOf(pending) <= now; });
  if (first == pending_.begin() + window) return std::nullopt;
  const TargetId target = first->move.key.target;
  if (!find_pid_(target)) return std::nullopt;  // no process, no binding
  const std::optional<Binding> binding = find_binding_(target);
  if (!binding) unread_ = target;
  return binding;
}

std::vector<MoveOutcome> PageMover::TakeBound(std::vector<Pending>& chunk, const Binding& binding) {
  std::vector<MoveOutcome> bound;
  std::erase_if(chunk, [&](const Pending& pending) {
    const Move& move = pending.move;
    const VpnRange pages{move.key.vpn, move.key.vpn + move.span};
    if (binding && binding->MayMove(pages, move.from, move.to)) return false;
    bound.push_back({move, kPolicyChanged, pending.attempts, pending.latency});
    return true;
  });
  return bound;
}

void PageMover::TakeRemapped(std::vector<Pending>& chunk, std::vector<MoveOutcome>& over) const {
  const std::optional<Pid> pid = find_pid_(chunk.front().move.key.target);
  if (!pid) return;  // no call is made for it
  std::vector<Vpn> pages;
  for (const Pending& pending : chunk) pages.push_back(pending.move.key.vpn);
  std::ranges::sort(pages);
  std::vector<std::optional<FilePlace>> files;
  if (find_files_) files = find_files_(*pid, pages);
  files.resize(pages.size());
  std::erase_if(chunk, [&](const Pending& pending) {
    const Move& move = pending.move;
    const auto at = std::ranges::lower_bound(pages, move.key.vpn) - pages.begin();
    const std::optional<FilePlace>& now = files[static_cast<std::size_t>(at)];
    if (now && now == move.file) return false;
    over.push_back({move, kPolicyChanged, pending.attempts, pending.latency});
    return true;
  });
}

std::vector<PageMover::Answer> PageMover::Call(const std::vector<Pending>& chunk) {
  const Move& first = chunk.front().move;
  const auto all = [&chunk](int error) {
    return std::vector<Answer>(chunk.size(), Answer{.error = error, .moved = PageCount(0)});
  };
  const std::optional<Pid> pid = find_pid_(first.key.target);
  if (!pid) return all(ESRCH);
  std::vector<Vpn> pages;
  pages.reserve(chunk.size());
  for (const Pending& pending : chunk) pages.push_back(pending.move.key.vpn);
  const std::vector<NodeId> nodes(chunk.size(), first.to);
  std::vector<int> status(chunk.size(), kUntold);
  const int moved = (*call_)(*pid, pages, nodes, status, ScopeOf(first));
  // If memory runs out in the middle of the chunk, the kernel returns only that.
  const bool is_full = moved == -ENOMEM;
  if (moved < 0 && !is_full) return all(-moved);
  if (is_full || std::ranges::find(status, kUntold) != status.end()) {
    const int asked = (*call_)(*pid, pages, {}, status, MoveScope::kMappedOnce);
    if (asked < 0) return all(-asked);
  }
  std::vector<Answer> answers;
  answers.reserve(chunk.size());
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const int error = status[i] < 0                   ? -status[i]
                      : status[i] == first.to.value() ? 0
                      : is_full                       ? ENOMEM
                                                      : EBUSY;
    answers.push_back({error, error == 0 ? chunk[i].move.span : PageCount(0)});
  }
  if (first.span > PageCount(1)) FindParts(*pid, chunk, answers);
  return answers;
}

// A huge page that finds no room in one piece is split. Its parts then move as far as there is
// room, in an order that the kernel chooses (mm/migrate.c, try_split_folio()).
void PageMover::FindParts(Pid pid, const std::vector<Pending>& chunk,
                          std::vector<Answer>& answers) {
  std::vector<Vpn> pages;
  for (const Pending& pending : chunk) {
    for (PageCount i; i < pending.move.span; i += PageCount(1)) {
      pages.push_back(pending.move.key.vpn + i);
    }
  }
  std::vector<int> status(pages.size(), kUntold);
  if ((*call_)(pid, pages, {}, status, MoveScope::kMappedOnce) < 0) return;
  auto next = status.begin();
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const Move& move = chunk[i].move;
    const auto end = next + static_cast<std::ptrdiff_t>(move.span.value());
    answers[i].moved =
        PageCount(static_cast<std::uint64_t>(std::count(next, end, move.to.value())));
    const bool is_elsewhere =
        std::any_of(next, end, [&move](int node) { return node >= 0 && node != move.to.value(); });
    if (answers[i].moved > PageCount(0)) answers[i].error = is_elsewhere ? ENOMEM : 0;
    next = end;
  }
}

std::vector<MoveOutcome> PageMover::MoveChunk() {
  const MonotonicTime began = clock_->Now();
  if (!bandwidth_.HasAny(began) || !cpu_.HasAny(began)) return {};
  const MonotonicTime cpu_began = cpu_clock_->Now();
  std::vector<MoveOutcome> over = MoveSome(began);
  SpendCpuTime(cpu_clock_->Now() - cpu_began);
  return over;
}

void PageMover::SpendCpuTime(std::chrono::nanoseconds spent) {
  cpu_.Spend(static_cast<std::uint64_t>(std::max(spent.count(), std::int64_t{0})));
}

std::vector<MoveOutcome> PageMover::MoveSome(MonotonicTime began) {
  const std::optional<Binding> binding = BindingOfNext(began);
  if (unread_) return {};
  std::vector<Pending> chunk = TakeChunk(began);
  if (chunk.empty()) return {};
  const MoveScope scope = ScopeOf(chunk.front().move);
  std::vector<MoveOutcome> over;
  if (binding) over = TakeBound(chunk, *binding);
  if (scope == MoveScope::kAll && !chunk.empty() && !limits_.dry_run) TakeRemapped(chunk, over);
  NotMadeRoom not_made;
  for (const MoveOutcome& untried : over) {
    not_made.Note(untried.move, untried.move.span, /*for_good=*/true);
  }
  if (chunk.empty() || limits_.dry_run) HoldBack(not_made, began, over);
  if (chunk.empty()) return over;
  over.reserve(over.size() + chunk.size());
  if (limits_.dry_run) {
    for (const Pending& pending : chunk) over.push_back({.move = pending.move, .error = ECANCELED});
    return over;
  }
  const MonotonicTime called = clock_->Now();
  const std::vector<Answer> answers = Call(chunk);
  const MonotonicTime ended = clock_->Now();
  PageCount tried;
  PageCount moved;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    tried += chunk[i].move.span;
    moved += answers[i].moved;
  }
  // Refusals are quick, except for lack of memory, which the kernel then searches for.
  if (moved > PageCount(0) && std::ranges::find(answers, ENOMEM, &Answer::error) == answers.end()) {
    Learn(scope, tried, ended - called);
  }
  LearnRoom(chunk, answers, ended);
  bandwidth_.Spend(moved.value() * kBasePageBytes);
  const Shares shares = SharesOf(scope, ended - began, tried, moved);
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    Pending after = chunk[i];
    ++after.attempts;
    const PageCount stayed = after.move.span - answers[i].moved;
    after.latency += shares.OfMoved(answers[i].moved) + shares.OfRefused(stayed);
    const bool is_over = IsOver(after, answers[i].error, ended);
    if (is_over) over.push_back({after.move, answers[i].error, after.attempts, after.latency});
    not_made.Note(after.move, stayed, is_over);
  }
  HoldBack(not_made, ended, over);
  return over;
}

// The kernel tries refused pages several times, or searches for memory. Other pages of the call do
// not share that time.
PageMover::Shares PageMover::SharesOf(MoveScope scope, std::chrono::nanoseconds took,
                                      PageCount tried, PageCount moved) {
  ScopeCost& cost = Cost(scope);
  const auto ns = static_cast<double>(took.count());
  const auto pages_tried = static_cast<double>(tried.value());
  const double alike = ns / pages_tried;
  if (moved == tried) {
    cost.ns = kRemembered * cost.ns + ns;
    cost.pages = kRemembered * cost.pages + pages_tried;
    return {alike, alike};
  }
  const double of_moved =
      std::min(alike, (cost.ns + kAssumedNsPerPage * kAssumedPages) / (cost.pages + kAssumedPages));
  const auto pages_moved = static_cast<double>(moved.value());
  return {of_moved, (ns - of_moved * pages_moved) / (pages_tried - pages_moved)};
}

// Promotions were decided for the room that demotions make. If a demoted page stays, a promotion
// would only find the node full, and the kernel takes long to find out. The last promotions for
// that many pages are therefore held back.
void PageMover::HoldBack(NotMadeRoom& not_made, MonotonicTime now, std::vector<MoveOutcome>& over) {
  const auto takes = [](std::map<NodeId, PageCount>& missing, const Move& move) {
    const auto of_node = missing.find(move.to);
    if (of_node == missing.end()) return false;
    if (of_node->second <= move.span) {
      missing.erase(of_node);
    } else {
      of_node->second -= move.span;
    }
    return true;
  };
  std::deque<Pending> held_back;
  std::vector<bool> taken(pending_.size());
  std::size_t first = pending_.size();  // the first one taken
  for (std::size_t i = pending_.size(); i-- > 0;) {
    if (not_made.ever.empty() && not_made.yet.empty()) break;
    Pending& pending = pending_[i];
    if (pending.move.reason != MoveReason::kWanted) continue;
    if (takes(not_made.ever, pending.move)) {
      const int error = pending.attempts == 0 ? ENOMEM : EBUSY;
      over.push_back({pending.move, error, pending.attempts, pending.latency});
    } else if (pending.not_before <= now && takes(not_made.yet, pending.move)) {
      // A promotion that already waits needs other room.
      pending.not_before = now + kRetryAfter;
      held_back.push_front(pending);
    } else {
      continue;
    }
    taken[i] = true;
    first = i;
  }
  if (first == pending_.size()) return;
  std::size_t kept = first;
  for (std::size_t i = first; i < pending_.size(); ++i) {
    if (!taken[i]) pending_[kept++] = pending_[i];
  }
  pending_.resize(kept);
  pending_.insert(pending_.end(), held_back.begin(), held_back.end());
}

// Halves the chunk at once if a call was too long. At most doubles it, because a short call may
// have been luck.
void PageMover::Learn(MoveScope scope, PageCount pages, std::chrono::nanoseconds took) {
  const std::uint64_t ns_per_page =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(took.count()) / pages.value());
  const std::uint64_t fits = static_cast<std::uint64_t>(limits_.call_latency.count()) / ns_per_page;
  PageCount& chunk = Cost(scope).chunk;
  chunk = PageCount(
      std::clamp<std::uint64_t>(fits, 1, std::min(chunk.value() * 2, kLargestChunk.value())));
}

// Pages that leave a node make room there.
void PageMover::LearnRoom(const std::vector<Pending>& chunk, const std::vector<Answer>& answers,
                          MonotonicTime now) {
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const Move& move = chunk[i].move;
    if (IsOutOfMemory(move, answers[i].error)) full_until_[move.to] = now + kFullFor;
    if (answers[i].moved > PageCount(0)) full_until_.erase(move.from);
  }
}

bool PageMover::IsOver(const Pending& tried, int error, MonotonicTime now) {
  if (!MayYetMove(error) || tried.attempts >= limits_.attempts) return true;
  pending_.push_back(tried);
  pending_.back().not_before = now + kRetryAfter;
  return false;
}

std::optional<std::chrono::nanoseconds> PageMover::Wait() {
  if (pending_.empty()) return std::nullopt;
  const MonotonicTime now = clock_->Now();
  std::chrono::nanoseconds wait = std::chrono::nanoseconds::max();
  const std::size_t window = std::min(pending_.size(), kWindow);
  for (std::size_t i = 0; i < window && wait.count() > 0; ++i) {
    wait = std::min(wait, std::max(DueOf(pending_[i]) - now, std::chrono::nanoseconds(0)));
  }
  return std::max({wait, bandwidth_.Wait(now), cpu_.Wait(now)});
}

}  // namespace tmprof
