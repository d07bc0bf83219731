// SPDX-License-Identifier: Apache-2.0

#include "base/host/cpu_identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tmprof {
namespace cpu_identity_test {

CpuIdentity Of(const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "cpuinfo";
  std::ofstream(path) << text;
  return ReadCpuIdentity(path);
}

TEST(CpuIdentity, IsThatOfTheFirstCpu) {
  const CpuIdentity cpu =
      Of("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9654\n"
         "flags\t\t: fpu vme\n\nprocessor\t: 1\nvendor_id\t: Other\nmodel name\t: Other\n");
  EXPECT_EQ(cpu.vendor, "AuthenticAMD");
  EXPECT_EQ(cpu.model, "AMD EPYC 9654");
  EXPECT_FALSE(cpu.is_virtual);
}

TEST(CpuIdentity, KnowsAVirtualMachineByItsFlag) {
  EXPECT_TRUE(Of("flags\t\t: fpu hypervisor lahf_lm\n").is_virtual);
  EXPECT_TRUE(Of("flags\t\t: fpu hypervisor\n").is_virtual);
  EXPECT_FALSE(Of("flags\t\t: fpu hypervisors\n").is_virtual);
}

TEST(CpuIdentity, IsUnknownWithoutTheFileOrItsFields) {
  EXPECT_EQ(ReadCpuIdentity("/nonexistent/cpuinfo").model, "");
  EXPECT_EQ(Of("model name\t:\n: no name\nno colon\n").model, "");
}

}  // namespace cpu_identity_test
}  // namespace tmprof
