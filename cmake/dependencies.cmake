# SPDX-License-Identifier: Apache-2.0
# Everything from outside; docs/dependencies.md gives each one's reason.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(zydis REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(bpf REQUIRED IMPORTED_TARGET libbpf)
pkg_check_modules(cairo REQUIRED IMPORTED_TARGET cairo)
pkg_check_modules(dw REQUIRED IMPORTED_TARGET libdw)
pkg_check_modules(numa REQUIRED IMPORTED_TARGET numa)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-pull)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
find_library(PFM_LIBRARY pfm REQUIRED)
find_program(BPFTOOL bpftool REQUIRED PATHS /usr/sbin)
find_program(BPF_CLANG NAMES clang-19 REQUIRED)

# What only some builds take.
pkg_check_modules(hiredis IMPORTED_TARGET hiredis)  # the workload redis_load
if(TMPROF_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TMPROF_FULL)
  find_package(benchmark REQUIRED)
endif()
if(TMPROF_OBJECTS_PASS)
  find_path(LLVM_INCLUDE_DIRS llvm/Passes/PassPlugin.h REQUIRED PATHS /usr/lib/llvm-19/include NO_DEFAULT_PATH)
endif()
