// SPDX-License-Identifier: Apache-2.0

#include "base/host/own_cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace tmprof {
namespace {

// The CPUs of this process. On a machine with more than CPU_SETSIZE CPUs the set is empty, and all
// stay in use.
std::set<CpuId> AllowedCpus() {
  cpu_set_t allowed;
  std::set<CpuId> cpus;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.insert(CpuId(cpu));
  return cpus;
}

// Read before main(): an OwnCpus narrows what its threads may use.
const std::set<CpuId> cpus_at_start = AllowedCpus();

}  // namespace

const std::set<CpuId>& CpusAtStart() { return cpus_at_start; }

std::set<CpuId> CpusBeside(const std::set<CpuId>& own, const std::set<CpuId>& busy) {
  std::set<CpuId> beside;
  std::ranges::set_difference(own, busy, std::inserter(beside, beside.end()));
  return beside.empty() ? own : beside;
}

OwnCpus::OwnCpus(const ProcFs& procfs) : procfs_(procfs), own_(AllowedCpus()), used_(own_) {}

OwnCpus::~OwnCpus() { MoveTo(own_); }

void OwnCpus::MakeWayFor(const std::vector<TrackedProcess>& targets) {
  if (own_.size() < 2) return;
  std::set<CpuId> busy;
  for (const TrackedProcess& target : targets) busy.merge(procfs_.CpusInUse(target.pid));
  MoveTo(CpusBeside(own_, busy));
}

void OwnCpus::MoveTo(const std::set<CpuId>& cpus) {
  if (cpus == used_) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const CpuId cpu : cpus) CPU_SET(cpu.value(), &set);
  // A thread that ends meanwhile needs no place; a cpuset that has shrunk refuses, and then the
  // kernel has found one.
  for (const Tid thread : procfs_.Threads(Pid(::getpid())))
    (void)::sched_setaffinity(thread.value(), sizeof set, &set);
  used_ = cpus;
}

}  // namespace tmprof
