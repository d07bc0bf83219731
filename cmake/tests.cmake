# SPDX-License-Identifier: Apache-2.0
# How tests are built and registered. docs/development.md describes the tiers.
#
# Labels, by which ./check selects:
#   (none)     unit tests: they depend on nothing but their own inputs
#   lint, fuzz what they are called
#   smoke      records this machine for a moment and asks for no more than that it works
#   guest      boots a kernel in the virtual machine
#   sanitized  registered in sanitizer builds, too: parses input, allocates or shares memory
#   full       only `./check --full` runs it: it measures time, needs a quiet host, or takes minutes

include(GoogleTest)

# Every program of a test that ./check runs in a sanitizer build.
add_custom_target(sanitized_tests)

# tmprof_test(NAME SOURCES … [LINK …] [LABELS …] [ISOLATED] [SHARDS N]): the GoogleTest program NAME.
#   ISOLATED  each case is a process and a CTest test of its own: cases change their process beyond repair
#   SHARDS    splits the cases over N tests, which may run side by side (default 1)
# A case that cannot run here calls GTEST_SKIP() with its reason. tools/test_results.py counts cases, not programs.
function(tmprof_test name)
  cmake_parse_arguments(ARG "ISOLATED" "SHARDS" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tmprof_flags ${ARG_LINK} GTest::gmock GTest::gtest
                                        GTest::gtest_main tmprof_test_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
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
  # Tests of the full tier measure time and cost, so nothing else may run beside them.
  set(properties TIMEOUT 900)
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if("full" IN_LIST ARG_LABELS)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(ARG_ISOLATED)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}: "
                         PROPERTIES ${properties})
    return()
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(ARG_SHARDS GREATER 1)
      math(EXPR ordinal "${shard} + 1")
      set(test "${name} ${ordinal} of ${ARG_SHARDS}")
    endif()
    set(results "${CMAKE_BINARY_DIR}/results/${test}.xml")
    add_test(NAME "${test}" COMMAND $<TARGET_FILE:${name}> "--gtest_output=xml:${results}")
    set_tests_properties("${test}" PROPERTIES ${properties}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# tmprof_script_test(NAME COMMAND … [LABELS …] [TIMEOUT S] [CPUS N] [SERIAL]): a test that is a program of its own.
# It skips by ending with 119 or by printing "[  SKIPPED ]".
#   CPUS    how many it keeps busy (default 1): a machine of two CPUs leaves room for nothing else on two
#   SERIAL  it runs alone
function(tmprof_script_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;CPUS" "COMMAND;LABELS" ${ARGN})
  if("full" IN_LIST ARG_LABELS AND NOT TMPROF_FULL)
    return()
  endif()
  if(TMPROF_SANITIZE AND NOT "sanitized" IN_LIST ARG_LABELS)
    return()
  endif()
  add_test(NAME "${name}" COMMAND ${ARG_COMMAND})
  set(properties SKIP_RETURN_CODE 119 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(ARG_TIMEOUT)
    list(APPEND properties TIMEOUT ${ARG_TIMEOUT})
  endif()
  if(ARG_CPUS)
    list(APPEND properties PROCESSORS ${ARG_CPUS})
  endif()
  if(ARG_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  set_tests_properties("${name}" PROPERTIES ${properties})
endfunction()
