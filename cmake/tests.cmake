# SPDX-License-Identifier: Apache-2.0
# How tests are built and registered. docs/development.md describes the tiers.
#
# Labels, by which ./check selects:
#   (none)     unit tests: they depend on nothing but their own inputs
#   lint, fuzz what they are called
#   smoke      records this machine for a moment and asks for no more than that it works
#   guest      boots a kernel in the virtual machine
#   sanitized  registered in sanitizer builds, too: parses input, allocates or shares memory
#   full       only `./check --full` runs it: it measures time or takes minutes

include(GoogleTest)

if(TMPROF_UNITY)
  tmprof_headers(tmprof_test_headers EXECUTABLE HEADERS ${common_headers} gmock/gmock.h gtest/gtest.h
                 LINK GTest::gmock GTest::gtest tmprof_test_flags)
endif()

# Every program of a test that ./check runs in a sanitizer build.
add_custom_target(sanitized_tests)

# Skips a test that measures time, with a reason, if the host does other work.
set(quiet_host ${PROJECT_SOURCE_DIR}/tools/quiet_host.py)

# Exit status of a program that cannot run here.
set(skipped_status 119)

# tmprof_test(NAME SOURCES … [LINK …] [RUNS …] [INPUTS …] [LABELS …] [ISOLATED] [OPTIMISED] [QUIET] [SHARDS N]): the
# GoogleTest program NAME.
#   RUNS      the programs and libraries of this build that it runs
#   INPUTS    files and folders of the project that it reads when it runs
#   ISOLATED  each case is a process and a CTest test of its own: cases change their process beyond repair
#   OPTIMISED it computes for long, as simulations do
#   QUIET     it measures time: it runs alone, and is skipped on a host that does other work (tools/quiet_host.py)
#   SHARDS    splits the cases over N tests, which may run side by side (default 1)
# A case that cannot run here calls GTEST_SKIP() with its reason. tools/test_results.py counts cases, not programs.
function(tmprof_test name)
  cmake_parse_arguments(ARG "ISOLATED;OPTIMISED;QUIET" "SHARDS" "SOURCES;LINK;RUNS;INPUTS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tmprof_flags ${ARG_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  if(ARG_OPTIMISED)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  else()
    target_link_libraries(${name} PRIVATE tmprof_test_flags)
    tmprof_precompile(${name} tmprof_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  list(TRANSFORM ARG_INPUTS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE required_files)
  foreach(target ${ARG_RUNS})
    add_dependencies(${name} ${target})
    list(APPEND required_files $<TARGET_FILE:${target}>)
  endforeach()
  if("full" IN_LIST ARG_LABELS AND NOT TMPROF_FULL)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  if("sanitized" IN_LIST ARG_LABELS)
    add_dependencies(sanitized_tests ${name})
  elseif(TMPROF_SANITIZE AND NOT TMPROF_FULL)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  if(ARG_ISOLATED)
    list(LENGTH ARG_LABELS labels)
    if(labels GREATER 1 OR ARG_SHARDS OR ARG_QUIET)
      message(FATAL_ERROR "${name}: an ISOLATED test has at most one label, and no SHARDS or QUIET")
    endif()
    set(properties TIMEOUT 3600)
    if(ARG_LABELS)
      list(APPEND properties LABELS ${ARG_LABELS})
    endif()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}: " PROPERTIES ${properties})
    # A list cannot be among PROPERTIES. CTest reads this file behind the one that discovers the cases.
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_required.cmake)
    file(GENERATE OUTPUT ${file} CONTENT
         "foreach(test IN LISTS ${name}_TESTS)
  set_tests_properties(\"\${test}\" PROPERTIES REQUIRED_FILES \"${required_files}\")
endforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
    return()
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  set(launcher)
  if(ARG_QUIET)
    set(launcher ${quiet_host})
    list(APPEND required_files $<TARGET_FILE:${name}>)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(ARG_SHARDS GREATER 1)
      math(EXPR ordinal "${shard} + 1")
      set(test "${name} ${ordinal} of ${ARG_SHARDS}")
    endif()
    add_test(NAME "${test}"
             COMMAND ${launcher} $<TARGET_FILE:${name}> "--gtest_output=xml:${CMAKE_BINARY_DIR}/results/${test}.xml")
    set_property(TEST "${test}" PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${shard})
    set_property(TEST "${test}" PROPERTY TIMEOUT 3600)
    set_property(TEST "${test}" PROPERTY LABELS ${ARG_LABELS})
    set_property(TEST "${test}" PROPERTY REQUIRED_FILES ${required_files})
    if(ARG_QUIET)
      set_property(TEST "${test}" PROPERTY SKIP_RETURN_CODE ${skipped_status})
    endif()
    # It measures time or takes minutes, so nothing else may run beside it.
    if(ARG_QUIET OR "full" IN_LIST ARG_LABELS)
      set_property(TEST "${test}" PROPERTY RUN_SERIAL TRUE)
    endif()
  endforeach()
endfunction()

# tmprof_script_test(NAME COMMAND … [INPUTS …] [LABELS …] [TIMEOUT S] [CPUS N] [SERIAL] [QUIET]): a test that is a
# program of its own. It skips by ending with skipped_status, its reason being the last line that it prints.
#   INPUTS  files and folders, from the project's, that it reads besides its command: `./check --changed` looks there
#   CPUS    how many it keeps busy (default 1): a machine of two CPUs leaves room for nothing else on two
#   SERIAL  it runs alone
#   QUIET   SERIAL, and as for tmprof_test
function(tmprof_script_test name)
  cmake_parse_arguments(ARG "SERIAL;QUIET" "TIMEOUT;CPUS" "COMMAND;INPUTS;LABELS" ${ARGN})
  if("full" IN_LIST ARG_LABELS AND NOT TMPROF_FULL)
    return()
  endif()
  if(TMPROF_SANITIZE AND NOT "sanitized" IN_LIST ARG_LABELS)
    return()
  endif()
  if(ARG_QUIET)
    # CMake replaces a target by its program in the first word only.
    list(POP_FRONT ARG_COMMAND program)
    if(TARGET ${program})
      set(program $<TARGET_FILE:${program}>)
    endif()
    list(PREPEND ARG_COMMAND ${quiet_host} ${program})
    set(ARG_SERIAL TRUE)
  endif()
  add_test(NAME "${name}" COMMAND ${ARG_COMMAND})
  list(TRANSFORM ARG_INPUTS PREPEND ${PROJECT_SOURCE_DIR}/)
  set_property(TEST "${name}" PROPERTY SKIP_RETURN_CODE ${skipped_status})
  set_property(TEST "${name}" PROPERTY LABELS ${ARG_LABELS})
  set_property(TEST "${name}" PROPERTY REQUIRED_FILES ${ARG_INPUTS})
  set_property(TEST "${name}" PROPERTY RUN_SERIAL ${ARG_SERIAL})
  if(ARG_TIMEOUT)
    set_property(TEST "${name}" PROPERTY TIMEOUT ${ARG_TIMEOUT})
  endif()
  if(ARG_CPUS)
    set_property(TEST "${name}" PROPERTY PROCESSORS ${ARG_CPUS})
  endif()
endfunction()

# tmprof_one_change(FOLDER FILES…): runs FOLDER/apply.py, which adds a new thing to copies of the project's FILES. They lie
# in FOLDER of the build.
function(tmprof_one_change folder)
  set(copies ${CMAKE_CURRENT_BINARY_DIR}/${folder})
  list(TRANSFORM ARGN PREPEND ${copies}/ OUTPUT_VARIABLE edited)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE originals)
  add_custom_command(
    OUTPUT ${edited}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/apply.py ${PROJECT_SOURCE_DIR} ${copies}
    DEPENDS ${folder}/apply.py ${PROJECT_SOURCE_DIR}/tests/one_change.py ${originals}
    COMMENT "Adding ${folder} to copies of the sources")
endfunction()
