# SPDX-License-Identifier: Apache-2.0
# Everything from outside; docs/dependencies.md gives each one's reason.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(zydis REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(bpf REQUIRED IMPORTED_TARGET libbpf)
pkg_check_modules(cairo REQUIRED IMPORTED_TARGET cairo)
find_library(PFM_LIBRARY pfm REQUIRED)
find_program(BPFTOOL bpftool REQUIRED PATHS /usr/sbin)
find_program(BPF_CLANG NAMES clang-19 REQUIRED)
