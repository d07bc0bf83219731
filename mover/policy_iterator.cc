// SPDX-License-Identifier: Apache-2.0

#include "mover/policy_iterator.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <numaif.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "mover/policy_walk.h"

// The generated file needs the structures above.
#include "policy_walk.skel.h"

namespace tmprof {
namespace {

using Destinations = MemoryBinding::Destinations;
using Range = MemoryBinding::Range;

constexpr const char* kReadByProgram = "read memory policies by a BPF program";
constexpr std::uint64_t kWordBits = 64;
// Mappings may be joined while the walk is between two of them. More steps back mean an iterator
// that does not end.
constexpr int kMostStepsBack = 16;
// Exists since Linux 5.14 (include/uapi/linux/mempolicy.h), and numaif.h may not have it.
constexpr std::uint32_t kLocal = 4;

int Silent(libbpf_print_level /*level*/, const char* /*format*/, va_list /*arguments*/) {
  return 0;
}

// Gives the result that DestinationsUnder() has for the policy's name.
Destinations DestinationsOf(const tmprof_policy& policy) {
  std::vector<NodeId> nodes;
  if (policy.mode == MPOL_DEFAULT || policy.mode == kLocal) return std::nullopt;
  if (policy.mode != MPOL_BIND) return nodes;
  for (std::uint64_t node = 0; node < TMPROF_POLICY_MASK_WORDS * kWordBits; ++node) {
    if ((policy.nodes[node / kWordBits] >> (node % kWordBits) & 1) != 0) {
      nodes.emplace_back(static_cast<NodeId::rep>(node));
    }
  }
  return nodes;
}

Destinations DestinationsIn(const tmprof_policy& mapping, const Destinations& own) {
  switch (mapping.of) {
    case TMPROF_POLICY_NONE:
      return own;
    case TMPROF_POLICY_OWN:
      return DestinationsOf(mapping);
    default:
      return std::vector<NodeId>{};
  }
}

class PolicyIterator final : public PolicyReader {
 public:
  explicit PolicyIterator(policy_walk* skeleton) : skeleton_(skeleton) {}
  ~PolicyIterator() override { policy_walk__destroy(skeleton_); }
  PolicyIterator(const PolicyIterator&) = delete;
  PolicyIterator& operator=(const PolicyIterator&) = delete;

  std::string_view way() const override { return "a BPF program"; }

  Result<MemoryBinding> Read(Pid pid) override {
    Result<Destinations> cpuset = ReadCpuset(pid);
    if (!cpuset) return Fail(cpuset.error());
    const Result<std::vector<tmprof_policy>> policies = Walk(pid);
    if (!policies) return Fail(policies.error());
    // A main thread that exited before the others shows no memory. The other threads do.
    if (policies->empty()) return ReadMemoryBinding(pid);
    const Destinations own = DestinationsIn(policies->front(), std::nullopt);
    std::vector<Range> exceptions;
    for (std::size_t i = 1; i < policies->size(); ++i) {
      const tmprof_policy& mapping = (*policies)[i];
      const VpnRange pages{VpnOfAddress(mapping.start), VpnOfAddress(mapping.end)};
      Destinations destinations = DestinationsIn(mapping, own);
      if (destinations == own) continue;
      if (!exceptions.empty() && exceptions.back().pages.end == pages.start &&
          exceptions.back().destinations == destinations) {
        exceptions.back().pages.end = pages.end;
      } else {
        exceptions.push_back({pages, std::move(destinations)});
      }
    }
    return MemoryBinding(*std::move(cpuset), own, std::move(exceptions));
  }

  bool mappings_are_cheaper() const override { return false; }
  Result<std::vector<VpnRange>> ReadMappings(Pid pid) override { return tmprof::ReadMappings(pid); }

  // Ascends strictly by address from the second on. Empty: no mappings were found.
  Result<std::vector<tmprof_policy>> Walk(Pid pid) {
    const auto refuse = [pid](int error) {
      return Fail(Refused(kReadByProgram, "PID " + std::to_string(pid.value()), error));
    };
    // The filter has all threads of the process, and the program takes the main one. If a single
    // thread is asked for, Linux 6.18 iterates over its last mappings for ever.
    bpf_iter_link_info filter{};
    filter.task.pid = static_cast<__u32>(pid.value());
    LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &filter,
                .iter_info_len = sizeof filter);
    const UniqueFd link(bpf_link_create(bpf_program__fd(skeleton_->progs.tell_policies), 0,
                                        BPF_TRACE_ITER, &options));
    if (!link) return refuse(errno);
    const UniqueFd iterator(bpf_iter_create(link.get()));
    if (!iterator) return refuse(errno);
    std::vector<tmprof_policy> policies;
    std::array<tmprof_policy, 256> piece;
    std::size_t have = 0;  // bytes of the next policies
    int steps_back = 0;
    while (true) {
      const std::span<std::byte> left = std::as_writable_bytes(std::span(piece)).subspan(have);
      const ssize_t got = ::read(iterator.get(), left.data(), left.size());
      if (got == 0) break;
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got < 0) return refuse(errno);
      have += static_cast<std::size_t>(got);
      const std::size_t whole = have / sizeof piece[0];
      for (const tmprof_policy& policy : std::span(piece).first(whole)) {
        steps_back += !policies.empty() && policy.start < policies.back().start;
        policies.push_back(policy);
      }
      if (steps_back > kMostStepsBack) return refuse(EAGAIN);
      have %= sizeof piece[0];
      if (have != 0) std::memmove(piece.data(), piece.data() + whole, have);
    }
    // A mapping that changed while the walk was between two of them may be there twice.
    for (std::size_t i = 2; i < policies.size(); ++i) {
      policies[i].start = std::max(policies[i].start, policies[i - 1].end);
      policies[i].end = std::max(policies[i].end, policies[i].start);
    }
    return policies;
  }

 private:
  policy_walk* skeleton_;
};

}  // namespace

Result<std::unique_ptr<PolicyReader>> OpenPolicyIterator() {
  const auto before = libbpf_set_print(Silent);
  errno = 0;
  policy_walk* skeleton = policy_walk__open_and_load();
  const int error = errno;
  libbpf_set_print(before);
  if (skeleton == nullptr) {
    return Fail(Refused(kReadByProgram, "this kernel", error,
                        "run with CAP_BPF and CAP_PERFMON, on a kernel with BTF and NUMA"));
  }
  auto reader = std::make_unique<PolicyIterator>(skeleton);
  // Kernels before 6.1 walk every process.
  const int witness = 0;
  const auto address = reinterpret_cast<std::uintptr_t>(&witness);
  const auto own = reader->Walk(Pid(::getpid()));
  if (!own) return Fail(own.error());
  const bool has_witness = std::ranges::any_of(*own, [address](const tmprof_policy& mapping) {
    return mapping.start <= address && address < mapping.end;
  });
  const auto mappings = ReadMappings(Pid(::getpid()));
  if (!has_witness || !mappings || own->size() > 2 * mappings->size() + 1) {
    return Fail(Refused(kReadByProgram, "this process", ENOTSUP, "it takes Linux 6.1"));
  }
  return std::unique_ptr<PolicyReader>(std::move(reader));
}

OpenedPolicyReader OpenPolicyReader() {
  auto iterator = OpenPolicyIterator();
  if (iterator) return {.reader = *std::move(iterator), .why_slower = {}};
  return {.reader = std::make_unique<NumaMapsReader>(),
          .why_slower = iterator.error().Message() + "; /proc/PID/numa_maps is read instead"};
}

}  // namespace tmprof
