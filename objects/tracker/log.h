// SPDX-License-Identifier: Apache-2.0
// The allocation log: a file in memory for each process, mapped by its preloaded tracker and by the
// recorder. Freestanding.
//
// The tracker adds events, from any thread and without a lock; the recorder takes them. If the
// recorder is too slow or gone, they are counted as lost. Sites and modules are only ever added. A
// few elements of each array get memory when the file is created, and others before they are used.
// Neither side can therefore run out of memory in the middle of an access.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tmprof::objtrace {

// Environment variable with "THRESHOLD INTERVAL FOLDER": bytes, bytes, path.
inline constexpr char kTrackVariable[] = "TMPROF_TRACK_OBJECTS";
// File in that folder, which is locked (flock) while somebody takes events.
inline constexpr char kTrackLock[] = "lock";
// Logs are named PID-BEGIN.log. BEGIN is CLOCK_MONOTONIC in ns: an exec(2) begins another log.
inline constexpr char kLogSuffix[] = ".log";

// Suffix of an empty file that replaces a log: there was no room for one, and the process is not
// tracked.
inline constexpr char kRefusedSuffix[] = ".refused";

inline constexpr std::uint64_t kLogMagic = 0x34474F4C4A424FU;  // "OBJLOG4"
inline constexpr std::uint32_t kLogEvents = 1 << 15;
inline constexpr std::uint32_t kLogSites = 1 << 12;
inline constexpr std::uint32_t kLogModules = 1 << 8;
inline constexpr std::uint32_t kLogFrames = 16;
inline constexpr std::size_t kLogPathBytes = 488;

enum class LogEventKind : std::uint32_t {
  kAllocated = 1,
  kFreed = 2,     // names the address; bytes are 0
  kMapped = 3,    // mapped with mmap(2)
  kUnmapped = 4,  // a range, of which any part may have been mapped
  // A thread, whose TID is `site`; address and bytes are its stack's.
  kThreadBegan = 5,
  kThreadEnded = 6,  // address and bytes are the thread's name, ended by a zero (SetThreadName())
  // A range may be unmapped soon (kGoing), and then was (kGone) or was not (kStayed). If another
  // thread maps memory there in between, the range has gone.
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
  std::uint64_t is_sampled;  // 1: a small allocation, of which only a share is recorded
};

// Returns the lap of an event, which is in place event % kLogEvents. New memory is zero, so that
// the first events may be written there.
constexpr std::uint64_t LapOf(std::uint64_t event) { return event - event % kLogEvents; }

// Size of Linux's thread names with their zero (prctl(2), PR_GET_NAME).
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

// A site is complete if `ready` is set. One thread may be writing it while another adds the next
// one.
struct LogSite {
  std::atomic<std::uint32_t> ready;
  std::uint32_t depth;
  // The number of modules that were known when the site was found. If two of them lay at one
  // address, the later one is the site's. kAllModulesThereWillBe: its own module may have been
  // missing.
  std::uint32_t modules;
  std::uint32_t unused;
  std::uint64_t frames[kLogFrames];  // return addresses, innermost first
};

struct AllocationLog {
  std::atomic<std::uint64_t> magic;  // set last, when all below is set
  std::uint64_t pid;
  std::uint64_t begin_ns;              // CLOCK_MONOTONIC
  std::atomic<std::uint64_t> written;  // events, taken or not
  std::atomic<std::uint64_t> lost;     // events
  std::atomic<std::uint32_t> sites;    // counted from 1: ID 0 is an unknown stack
  std::atomic<std::uint32_t> modules;
  // Only the tracker uses these.
  std::atomic<std::uint32_t> modules_lock;
  std::atomic<std::uint32_t> modules_room;  // number of elements with memory
  std::atomic<std::uint32_t> sites_room;
  std::atomic<std::uint32_t> events_room;
  LogModule module[kLogModules];
  LogSite site[kLogSites];
  LogEvent event[kLogEvents];
};

// Many processes may begin before the recorder takes their logs. Each leaves room for others in the
// folder's file system.
constexpr bool HasRoomForLog(std::uint64_t blocks, std::uint64_t free_blocks,
                             std::uint64_t block_bytes) {
  constexpr std::uint64_t kEnoughBytes = 256 << 20;
  return free_blocks >= blocks / 4 || free_blocks >= kEnoughBytes / block_bytes;
}

}  // namespace tmprof::objtrace
