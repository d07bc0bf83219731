# SPDX-License-Identifier: Apache-2.0
# Compiler flags of all our targets.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

add_library(tmprof_flags INTERFACE)
target_include_directories(tmprof_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_definitions(tmprof_flags INTERFACE _GNU_SOURCE)
# Fields left out of a designated initialiser take their defaults: that is what they are for.
target_compile_options(tmprof_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                              -Wno-sign-conversion
                                              -Wno-missing-field-initializers)
if(TMPROF_WERROR)
  target_compile_options(tmprof_flags INTERFACE -Werror)
endif()
if(TMPROF_SANITIZE)
  target_compile_options(tmprof_flags INTERFACE -fsanitize=${TMPROF_SANITIZE}
                                                -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(tmprof_flags INTERFACE -fsanitize=${TMPROF_SANITIZE})
endif()
