// SPDX-License-Identifier: Apache-2.0
#include "base/host/capabilities.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace tmprof {
namespace capabilities_test {

// Numbers as in include/uapi/linux/capability.h.
constexpr std::uint64_t kPtrace = std::uint64_t{1} << 19;
constexpr std::uint64_t kNice = std::uint64_t{1} << 23;
constexpr std::uint64_t kPerfmon = std::uint64_t{1} << 38;
constexpr std::uint64_t kBpf = std::uint64_t{1} << 39;

TEST(Capabilities, NamesThoseThatAreMissing) {
  EXPECT_EQ(MissingCapabilities(kAccessedBitCapabilities, kPtrace | kNice | kPerfmon | kBpf), "");
  EXPECT_EQ(MissingCapabilities(kAccessedBitCapabilities, kPerfmon | kPtrace),
            "CAP_BPF, CAP_SYS_NICE");
  EXPECT_EQ(MissingCapabilities(kAddressSampleCapabilities, kBpf), "CAP_PERFMON, CAP_SYS_PTRACE");
}

TEST(Capabilities, AdviceTellsWhatIsNeededAndWhatOfItIsMissing) {
  EXPECT_EQ(CapabilityAdvice(kAccessedBitCapabilities, kBpf | kPerfmon | kPtrace),
            "run as root or with CAP_BPF, CAP_PERFMON, CAP_SYS_NICE, and CAP_SYS_PTRACE for other "
            "users' processes (missing here: CAP_SYS_NICE)");
  EXPECT_EQ(CapabilityAdvice(kAddressSampleCapabilities, ~std::uint64_t{0}),
            "run as root or with CAP_PERFMON, and CAP_SYS_PTRACE for other users' processes (held "
            "here: a container's rules or a security module may forbid it)");
}

TEST(Capabilities, AdviceIsASentenceWhereOnlyOtherUsersProcessesNeedAny) {
  EXPECT_EQ(CapabilityAdvice(kWholeClearCapabilities, ~std::uint64_t{0}),
            "run as root or with CAP_DAC_OVERRIDE for other users' processes (held here: a "
            "container's rules or a security module may forbid it)");
}

TEST(Capabilities, RootIsNotAdvisedToBecomeRoot) {
  EXPECT_EQ(OwnerAdvice("the owner of the process", /*is_root=*/false),
            "run as root or as the owner of the process");
  EXPECT_EQ(OwnerAdvice("the owner of the process", /*is_root=*/true),
            "even root is refused here: a container's rules or a security module may forbid it");
}

TEST(Capabilities, InEffectAreThoseThatTheKernelListsForThisThread) {
  std::ifstream status("/proc/thread-self/status");
  std::uint64_t listed = ~std::uint64_t{0};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:")) listed = std::stoull(line.substr(7), nullptr, 16);
  }
  EXPECT_EQ(EffectiveCapabilities(), listed);
}

}  // namespace capabilities_test
}  // namespace tmprof
