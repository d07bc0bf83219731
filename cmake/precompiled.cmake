# SPDX-License-Identifier: Apache-2.0
# Headers of libraries that most units read, read once where TMPROF_UNITY is on. docs/design/build.md has the gain.

set(common_headers algorithm chrono filesystem fstream functional map memory mutex optional random set span string
                   thread unordered_map vector fmt/format.h nlohmann/json.hpp)

# tmprof_headers(NAME KIND HEADERS … [LINK …]): for targets of this KIND, LIBRARY or EXECUTABLE: they differ in their code
# model. The options are for ccache, which has hits with them (sloppiness pch_defines, time_macros).
set(precompiled_options $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                        "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
function(tmprof_headers name kind)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/precompiled/main.cc)  # a target has to have one
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n" @ONLY)
  if(kind STREQUAL LIBRARY)
    add_library(${name} STATIC ${source})
  else()
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
  endif()
  target_link_libraries(${name} PRIVATE tmprof_flags fmt::fmt nlohmann_json::nlohmann_json ${ARG_LINK})
  list(TRANSFORM ARG_HEADERS REPLACE "(.+)" "<\\1>")
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_compile_options(${name} PRIVATE ${precompiled_options})
endfunction()

# tmprof_precompile(TARGET HEADERS): HEADERS is a target of tmprof_headers(), compiled with the same flags. Files with
# options of their own, and C, do without.
function(tmprof_precompile target headers)
  if(NOT TARGET ${headers})
    return()
  endif()
  target_link_libraries(${target} PRIVATE fmt::fmt)  # has a definition that all must share
  target_precompile_headers(${target} REUSE_FROM ${headers})
  target_compile_options(${target} PRIVATE ${precompiled_options})
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options OR source MATCHES "\\.c$")
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()

if(TMPROF_UNITY)
  tmprof_headers(tmprof_library_headers LIBRARY HEADERS ${common_headers})
endif()
