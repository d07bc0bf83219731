# SPDX-License-Identifier: Apache-2.0
# Compiler flags of all our targets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# Linking took a fifth of the build's CPU time by GNU ld; docs/design/build.md compares.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Never needed: a second build of what did not change takes seconds with it.
find_program(CCACHE ccache)
if(CCACHE)
  foreach(language C CXX)
    set(CMAKE_${language}_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=5G
        CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endforeach()
endif()

# `./check --full` compiles each file alone as well: a file that lacks an include does not hide for long.
if(TMPROF_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

if(TMPROF_FUZZ AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL Clang AND TMPROF_SANITIZE))
  message(FATAL_ERROR "TMPROF_FUZZ takes clang and TMPROF_SANITIZE, as the preset asan sets them")
endif()

add_library(tmprof_flags INTERFACE)
target_include_directories(tmprof_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_definitions(tmprof_flags INTERFACE _GNU_SOURCE)
# Fields left out of a designated initialiser take their defaults: that is what they are for.
set(tmprof_warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers)
# Clang, which builds for sanitizers and fuzzing, has others: GCC's are those that the code is written to.
target_compile_options(tmprof_flags INTERFACE "$<IF:$<CXX_COMPILER_ID:GNU>,${tmprof_warnings},-w>")
# In KiB. GCC looks for garbage when its heap has grown to 128 MiB, which libraries' headers alone come to: of
# report/analysis/hot.cc's compile time that was a tenth.
target_compile_options(tmprof_flags INTERFACE
                       $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
# It is about types of headers, and takes a unit's files for such.
if(TMPROF_UNITY)
  target_compile_options(tmprof_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(TMPROF_WERROR)
  target_compile_options(tmprof_flags INTERFACE -Werror)
endif()
if(TMPROF_SANITIZE)
  target_compile_options(tmprof_flags INTERFACE -fsanitize=${TMPROF_SANITIZE}
                                                -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(tmprof_flags INTERFACE -fsanitize=${TMPROF_SANITIZE})
  # libFuzzer needs coverage instrumentation in all code under a fuzz target.
  if(TMPROF_FUZZ)
    target_compile_options(tmprof_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()

# The rest of the build for fuzzing is not optimised: it takes 844 job seconds instead of 1 984.
add_library(tmprof_fuzzed_flags INTERFACE)
target_compile_options(tmprof_fuzzed_flags INTERFACE -O1)

# A test's own code runs a few times: the optimiser would cost more than it saves. To be linked after all else: what comes
# last counts.
add_library(tmprof_test_flags INTERFACE)
target_compile_options(tmprof_test_flags INTERFACE -O0)
# It does not see fences, and GCC warns of each: what they order is atomic by itself.
if(TMPROF_SANITIZE MATCHES thread)
  target_compile_options(tmprof_flags INTERFACE -Wno-tsan)
endif()
if(TMPROF_SANITIZE MATCHES undefined)
  target_compile_options(tmprof_test_flags INTERFACE -fno-sanitize=vptr,object-size)
endif()
