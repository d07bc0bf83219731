// SPDX-License-Identifier: Apache-2.0
// What a preloaded program's allocation tracker and the recorder share: a file of each process, in
// memory, mapped by both. Freestanding.
//
// The tracker adds events, from any thread and without a lock; the recorder takes them. Where it
// takes them too slowly, or is gone, they are counted as lost. Sites and modules are only ever
// added. Memory is allocated for a few elements of each array when the file is made, and for more
// before they are used: neither side can run out of it amid an access.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tmprof::objtrace {

// "THRESHOLD INTERVAL FOLDER", in the environment: bytes, bytes, path.
inline constexpr char kTrackVariable[] = "TMPROF_TRACK_OBJECTS";
// In that folder: locked (flock) as long as somebody takes events.
inline constexpr char kTrackLock[] = "lock";
// Logs are PID-BEGIN.log; BEGIN is CLOCK_MONOTONIC in ns: an exec(2) begins another one.
inline constexpr char kLogSuffix[] = ".log";

// Empty, in a log's place: there was no room for one, so that the process is not tracked.
inline constexpr char kRefusedSuffix[] = ".refused";

inline constexpr std::uint64_t kLogMagic = 0x34474F4C4A424FU;  // "OBJLOG4"
inline constexpr std::uint32_t kLogEvents = 1 << 15;
inline constexpr std::uint32_t kLogSites = 1 << 12;
inline constexpr std::uint32_t kLogModules = 1 << 8;
inline constexpr std::uint32_t kLogFrames = 16;
inline constexpr std::size_t kLogPathBytes = 488;

enum class LogEventKind : std::uint32_t {
  kAllocated = 1,
  kFreed = 2,     // by address; bytes are 0
  kMapped = 3,    // by mmap(2)
  kUnmapped = 4,  // a range, of which any part may have been mapped
  // Of a thread, which `site` names by its TID: address and bytes are its stack's.
  kThreadBegan = 5,
  kThreadEnded = 6,  // they are the thread's name, ended by a zero (SetThreadName())
  // A range is about to go, as kUnmapped, and no longer is, or still is: what is mapped there in
  // between, by another thread, says that it has gone.
  kGoing = 7,
  kGone = 8,
  kStayed = 9,
};

struct LogEvent {
  // The n-th event has LapOf(n) where it may be written, and one more where it may be read.
  std::atomic<std::uint64_t> turn;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t time_ns;  // CLOCK_MONOTONIC; up to some 66 us early
  LogEventKind kind;
  std::uint32_t site;
  std::uint64_t is_sampled;  // 1: of a small allocation, of which not all are recorded
};

// Event n is in place n % kLogEvents. New memory is zero: the first events may be written there.
constexpr std::uint64_t LapOf(std::uint64_t event) { return event - event % kLogEvents; }

// Of Linux's prctl(2), PR_GET_NAME: with the zero.
inline constexpr std::size_t kThreadNameBytes = 16;

inline void SetThreadName(const char (&name)[kThreadNameBytes], std::uint64_t& address,
                          std::uint64_t& bytes) {
  std::memcpy(&address, name, sizeof(address));
  std::memcpy(&bytes, name + sizeof(address), sizeof(bytes));
}

inline void GetThreadName(std::uint64_t address, std::uint64_t bytes,
                          char (&name)[kThreadNameBytes]) {
  std::memcpy(name, &address, sizeof(address));
  std::memcpy(name + sizeof(address), &bytes, sizeof(bytes));
  name[kThreadNameBytes - 1] = '\0';
}

struct LogModule {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t bias;
  char path[kLogPathBytes];
};

inline constexpr std::uint32_t kAllModulesThereWillBe = UINT32_MAX;

// Ready where `ready` says so: one thread may be writing it while another adds the next one.
struct LogSite {
  std::atomic<std::uint32_t> ready;
  std::uint32_t depth;
  // That were known when it was found: of two that lay at one address, the later one of these. Or
  // all that there will be, where its own may have been missing.
  std::uint32_t modules;
  std::uint32_t unused;
  std::uint64_t frames[kLogFrames];  // return addresses, innermost first
};

struct AllocationLog {
  std::atomic<std::uint64_t> magic;  // last: what is below is set
  std::uint64_t pid;
  std::uint64_t begin_ns;              // CLOCK_MONOTONIC
  std::atomic<std::uint64_t> written;  // events, taken or not
  std::atomic<std::uint64_t> lost;     // events
  std::atomic<std::uint32_t> sites;    // from 1: ID 0 is an unknown stack
  std::atomic<std::uint32_t> modules;
  // Only the tracker uses these.
  std::atomic<std::uint32_t> modules_lock;
  std::atomic<std::uint32_t> modules_room;  // so many elements have memory
  std::atomic<std::uint32_t> sites_room;
  std::atomic<std::uint32_t> events_room;
  LogModule module[kLogModules];
  LogSite site[kLogSites];
  LogEvent event[kLogEvents];
};

// Many processes may begin before the recorder takes their logs: each leaves room for others in the
// folder's file system.
constexpr bool HasRoomForLog(std::uint64_t blocks, std::uint64_t free_blocks,
                             std::uint64_t block_bytes) {
  constexpr std::uint64_t kEnoughBytes = 256 << 20;
  return free_blocks >= blocks / 4 || free_blocks >= kEnoughBytes / block_bytes;
}

}  // namespace tmprof::objtrace
