// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/driver/module_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "profiler/sources/driver/session.h"
#include "tests/profiler/driver/fake_device.h"

namespace tmprof::driver {
namespace module_probe_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/** A machine as a directory tree; by default one that could load a module but has none. */
class ModuleProbeTest : public testing::Test {
 protected:
  ModuleProbeTest() {
    std::string pattern = testing::TempDir() + "/module_probe.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    Write("proc/modules", "");
    Write("proc/sys/kernel/modules_disabled", "0\n");
    Write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    Write("lib/modules/6.12.1-test/modules.dep", "kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko\n");
  }
  ~ModuleProbeTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  Probe ProbeWith(int open_error) {
    return ProbeDriver({.root = root_,
                        .kernel_release = "6.12.1-test",
                        .open_device = [&]() -> Result<std::unique_ptr<Device>> {
                          if (open_error != 0)
                            return Fail(Refused("open the driver's device", "/dev/tmprof",
                                                open_error, "advice of the open"));
                          return std::make_unique<FakeDevice>(driver_);
                        }});
  }

  fs::path root_;
  FakeDriver driver_;
};

TEST_F(ModuleProbeTest, ADeviceThatOpensIsUsableAndNamesItsVersion) {
  Write("sys/module/tmprof/version", "1.2.3\n");
  const Probe probe = ProbeWith(0);
  EXPECT_TRUE(probe.usable);
  EXPECT_EQ(probe.name, "driver");
  EXPECT_EQ(probe.job, ProbeJob::kAccessedBits);
  EXPECT_EQ(probe.system_error, std::nullopt);
  EXPECT_EQ(probe.detail, "module version 1.2.3");
  EXPECT_EQ(probe.fix, "");
}

TEST_F(ModuleProbeTest, SaysWhenReclaimMissesWhatWasCleared) {
  driver_.info.features &= ~std::uint64_t{TMPROF_FEATURE_KEEPS_YOUNG};
  EXPECT_THAT(ProbeWith(0).detail, HasSubstr("reclaim does not see"));
}

TEST_F(ModuleProbeTest, AModuleThatIsNotInstalledIsToBeBuilt) {
  const Probe probe = ProbeWith(ENOENT);
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.system_error, ENOENT);
  EXPECT_EQ(probe.detail, "no module is installed for kernel 6.12.1-test");
  EXPECT_THAT(probe.fix, HasSubstr("docs/driver.md"));
}

TEST_F(ModuleProbeTest, AnInstalledModuleIsToBeLoaded) {
  for (const std::string file : {"extra/tmprof.ko", "updates/dkms/tmprof.ko.xz"}) {
    Write("lib/modules/6.12.1-test/modules.dep", "kernel/a.ko:\n" + file + ":\nkernel/z.ko:\n");
    const Probe probe = ProbeWith(ENOENT);
    EXPECT_FALSE(probe.usable);
    EXPECT_THAT(probe.detail, HasSubstr("installed for this kernel, and not loaded"));
    EXPECT_EQ(probe.fix, "modprobe tmprof");
  }
}

TEST_F(ModuleProbeTest, AModuleOfSimilarNameOrThatOthersNeedIsNotOurs) {
  Write("lib/modules/6.12.1-test/modules.dep",
        "extra/not_tmprof.ko:\nextra/tmprof_test.ko: extra/tmprof.ko\n");
  EXPECT_THAT(ProbeWith(ENOENT).detail, HasSubstr("no module is installed"));
}

TEST_F(ModuleProbeTest, UnderLockdownTheModuleMustBeSigned) {
  Write("lib/modules/6.12.1-test/modules.dep", "extra/tmprof.ko:\n");
  Write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  EXPECT_THAT(ProbeWith(ENOENT).fix, AllOf(HasSubstr("modprobe"), HasSubstr("signed")));
}

TEST_F(ModuleProbeTest, AKernelWithoutModulesCannotHaveIt) {
  fs::remove(root_ / "proc/modules");
  const Probe probe = ProbeWith(ENOENT);
  EXPECT_THAT(probe.detail, HasSubstr("without loadable modules"));
  EXPECT_EQ(probe.fix, "") << "nothing would help";
}

TEST_F(ModuleProbeTest, LoadingMayBeForbiddenUntilTheNextBoot) {
  Write("proc/sys/kernel/modules_disabled", "1\n");
  EXPECT_THAT(ProbeWith(ENOENT).detail, HasSubstr("kernel.modules_disabled"));
}

TEST_F(ModuleProbeTest, ALoadedModuleWithoutItsDeviceIsAContainersMatter) {
  Write("sys/module/tmprof/version", "1.0.0\n");
  const Probe probe = ProbeWith(ENOENT);
  EXPECT_THAT(probe.detail, HasSubstr("the module is loaded"));
  EXPECT_THAT(probe.fix, HasSubstr("container"));
}

TEST_F(ModuleProbeTest, ARefusalIsTheOpensOwn) {
  Write("sys/module/tmprof/version", "1.0.0\n");
  const Probe probe = ProbeWith(EACCES);
  EXPECT_FALSE(probe.usable);
  EXPECT_EQ(probe.system_error, EACCES);
  EXPECT_THAT(probe.detail, HasSubstr("/dev/tmprof"));
  EXPECT_EQ(probe.fix, "advice of the open");
}

TEST_F(ModuleProbeTest, ConfidentialityRefusesEvenRoot) {
  Write("sys/module/tmprof/version", "1.0.0\n");
  Write("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  EXPECT_THAT(ProbeWith(EPERM).fix, HasSubstr("lockdown=confidentiality"));
  EXPECT_THAT(ProbeWith(EACCES).fix, Not(HasSubstr("lockdown")));
}

TEST_F(ModuleProbeTest, AModuleOfAnotherVersionIsRefused) {
  Write("sys/module/tmprof/version", "1.0.0\n");
  driver_.info_error = EPROTO;
  const Probe probe = ProbeWith(0);
  EXPECT_FALSE(probe.usable);
  EXPECT_THAT(probe.fix, HasSubstr("belongs to this tmprof"));
}

TEST(OpenDeviceTest, AMissingDeviceSaysHowToLoadTheModule) {
  const auto device = OpenDevice("/nonexistent/tmprof");
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().system_error, ENOENT);
  EXPECT_EQ(device.error().object, "/nonexistent/tmprof");
  EXPECT_THAT(device.error().advice, HasSubstr("modprobe tmprof"));
}

TEST(OpenDeviceTest, AFileThatIsNoSuchDeviceDoesNotSpeakItsLanguage) {
  auto device = OpenDevice("/dev/null");
  ASSERT_TRUE(device.has_value());
  const auto session = Session::Open(*std::move(device), Purpose::kAccessedBits);
  ASSERT_FALSE(session.has_value());
  EXPECT_THAT(session.error().Message(), HasSubstr("does not speak version"));
}

}  // namespace module_probe_test
}  // namespace tmprof::driver
