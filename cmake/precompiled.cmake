# SPDX-License-Identifier: Apache-2.0
# Headers that most files read, read once where TMPROF_PRECOMPILE says so. Elsewhere each file compiles with
# what it includes itself.

set(TMPROF_PRECOMPILE "" CACHE STRING "Files for which libraries' headers are read once: TESTS, ALL or none")
set_property(CACHE TMPROF_PRECOMPILE PROPERTY STRINGS "" TESTS ALL)
if(NOT TMPROF_PRECOMPILE MATCHES "^(|TESTS|ALL)$")
  message(FATAL_ERROR "TMPROF_PRECOMPILE is '${TMPROF_PRECOMPILE}', not TESTS, ALL or empty")
endif()

# tmprof_headers(NAME KIND HEADERS … [LINK …]): for targets of this KIND, LIBRARY or EXECUTABLE, which
# differ in their code model. With -fpch-preprocess, ccache (sloppiness pch_defines, time_macros) has hits.
function(tmprof_headers name kind)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/precompiled/main.cc)  # a target has to have one
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n" @ONLY)
  if(kind STREQUAL LIBRARY)
    add_library(${name} STATIC ${source})
  else()
    add_executable(${name} ${source})
  endif()
  target_link_libraries(${name} PRIVATE tmprof_flags fmt::fmt ${ARG_LINK})
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_compile_options(${name} PRIVATE -fpch-preprocess)
endfunction()

# tmprof_precompile(TARGET HEADERS): HEADERS is a target of tmprof_headers(), compiled with the same flags.
function(tmprof_precompile target headers)
  if(TARGET ${headers})
    target_link_libraries(${target} PRIVATE fmt::fmt)  # has a definition that all must share
    target_precompile_headers(${target} REUSE_FROM ${headers})
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.c$")
    set_source_files_properties(${sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

set(headers algorithm chrono filesystem fstream functional map memory mutex optional random set span string
            thread unordered_map vector fmt/format.h)
if(TMPROF_PRECOMPILE STREQUAL "ALL")
  tmprof_headers(tmprof_library_headers LIBRARY HEADERS ${headers} nlohmann/json.hpp CLI/CLI.hpp
                 LINK nlohmann_json::nlohmann_json CLI11::CLI11)
  tmprof_headers(tmprof_program_headers EXECUTABLE HEADERS ${headers} nlohmann/json.hpp CLI/CLI.hpp
                 LINK nlohmann_json::nlohmann_json CLI11::CLI11)
endif()
if(TMPROF_PRECOMPILE)
  tmprof_headers(tmprof_test_headers EXECUTABLE HEADERS ${headers} gmock/gmock.h gtest/gtest.h
                 LINK GTest::gmock GTest::gtest tmprof_test_flags)
endif()
