// SPDX-License-Identifier: Apache-2.0
// Accessed bits read and cleared by the driver: what the exposure ladder runs on where the module
// is loaded.

#pragma once

#include <filesystem>
#include <memory>

#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/driver/session.h"

namespace tmprof::driver {

// Against BPF reads and MADV_COLD: it clears the bits of shared and huge pages and of hugetlb
// memory too, leaves pages on the lists that they are on, and splits no huge page. `root` has the
// folders /proc and /sys.
std::unique_ptr<abit::AbitKernel> MakeDriverAbitKernel(std::shared_ptr<Session> session,
                                                       const std::filesystem::path& root = "/");

}  // namespace tmprof::driver
