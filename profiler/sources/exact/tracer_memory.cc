// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/tracer_memory.h"

#include <sys/ipc.h>
#include <sys/shm.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "profiler/sources/exact/plugin/format/exact_shared.h"

namespace tmprof::exact {
namespace {

constexpr const char* kAdvice = "see the limits kernel.shmmax and kernel.shmmni (sysctl)";
constexpr const char* kAdviceForACache =
    "see the limits kernel.shmmax and kernel.shmmni (sysctl), or take a smaller --exact-llc";

}  // namespace

Result<TracerMemory> TracerMemory::Create(std::uint64_t lines, std::uint64_t sets) {
  const std::uint64_t bytes = tmprof_exact_shared_bytes(lines, sets);
  const std::string what = fmt::format("of {} bytes", bytes);
  const char* const advice = lines > 0 ? kAdviceForACache : kAdvice;
  const int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | SHM_NORESERVE | 0600);
  if (id < 0) return Fail(Refused("make a System V segment", what, errno, advice));
  void* const address = shmat(id, nullptr, 0);
  const int refused = address == reinterpret_cast<void*>(-1) ? errno : 0;
  // Linux lets processes attach it afterwards (shmctl(2)).
  const int not_removed = shmctl(id, IPC_RMID, nullptr) != 0 ? errno : 0;
  if (refused != 0) return Fail(Refused("attach a System V segment", what, refused, advice));
  if (not_removed != 0) {
    shmdt(address);
    return Fail(Refused("mark a System V segment for removal", what, not_removed));
  }
  const tmprof_exact_shared begin{.magic = TMPROF_EXACT_SHARED_MAGIC, .bytes = bytes};
  std::memcpy(address, &begin, sizeof begin);
  return TracerMemory(id, address);
}

TracerMemory::~TracerMemory() {
  if (address_ != nullptr) shmdt(address_);
}

}  // namespace tmprof::exact
