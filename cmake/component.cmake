# SPDX-License-Identifier: Apache-2.0

# tmprof_component(NAME SOURCES … [LINK …]): one room's library, tmprof_NAME.
function(tmprof_component name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(tmprof_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tmprof_${name} PUBLIC tmprof_flags ${ARG_LINK})
  tmprof_precompile(tmprof_${name} tmprof_library_headers)
endfunction()

# tmprof_bpf_skeleton(PROGRAM DEPENDS … SKELETON VARIABLE): compiles PROGRAM.bpf.c of this folder; the variable gets the
# header that loads it, in the folder skeleton/ of the build. BPF programs carry the few kernel structures they touch,
# relocated when they are loaded: the build host needs no BTF.
function(tmprof_bpf_skeleton program)
  cmake_parse_arguments(ARG "" "SKELETON" "DEPENDS" ${ARGN})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${program}.bpf.o)
  set(skeleton ${CMAKE_CURRENT_BINARY_DIR}/skeleton/${program}.skel.h)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${BPF_CLANG} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Wall -Werror
            -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${program}.bpf.c -o ${object}
    DEPENDS ${program}.bpf.c ${ARG_DEPENDS}
    COMMENT "BPF ${program}"
    VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/skeleton
    COMMAND sh -c "'${BPFTOOL}' gen skeleton '${object}' name ${program} > '${skeleton}'"
    DEPENDS ${object}
    VERBATIM)
  set(${ARG_SKELETON} ${skeleton} PARENT_SCOPE)
endfunction()

# tmprof_test(NAME SOURCES … [LINK …] [LABELS …]): one GoogleTest program, registered with CTest case by
# case. A case that cannot run here calls GTEST_SKIP() with its reason; CTest then lists it as skipped.
# Labels, by which ./check selects: `live` tests measure this machine; `plain` ones have to pass without sanitizers,
# too. Of other tests: `machine` and `vm` boot guests, `fuzz` and `lint` do what they are called.
# Without TMPROF_MEASUREMENTS those of label `live`, and without TMPROF_UNIT_TESTS those of no label, are built
# on request only, and not registered.
function(tmprof_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tmprof_flags ${ARG_LINK} GTest::gmock GTest::gtest
                                        GTest::gtest_main tmprof_test_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  tmprof_precompile(${name} tmprof_test_headers)
  if((live IN_LIST ARG_LABELS AND NOT TMPROF_MEASUREMENTS) OR (NOT ARG_LABELS AND NOT TMPROF_UNIT_TESTS))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  # Live tests measure time and cost, so nothing else may run beside them.
  set(properties)
  if(ARG_LABELS)
    list(APPEND properties LABELS "${ARG_LABELS}")
  endif()
  if(live IN_LIST ARG_LABELS)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(properties)
    list(PREPEND properties PROPERTIES)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}: " ${properties})
endfunction()

include(GoogleTest)
