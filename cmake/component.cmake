# SPDX-License-Identifier: Apache-2.0

# tmprof_component(NAME SOURCES … [LINK …] [FUZZED]): one room's library, tmprof_NAME. FUZZED: a fuzz target spends its time
# in it.
function(tmprof_component name)
  cmake_parse_arguments(ARG "FUZZED" "" "SOURCES;LINK" ${ARGN})
  add_library(tmprof_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tmprof_${name} PUBLIC tmprof_flags ${ARG_LINK})
  if(ARG_FUZZED AND TMPROF_FUZZ)
    target_link_libraries(tmprof_${name} PRIVATE tmprof_fuzzed_flags)  # other flags than those of the precompiled headers
  else()
    tmprof_precompile(tmprof_${name} tmprof_library_headers)
  endif()
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

# tmprof_qemu_plugin(NAME API SOURCES …): a QEMU plugin, build/NAME.so. It runs inside QEMU, so it
# takes no sanitizer, which QEMU does not have, and shows nothing but what QEMU looks for.
function(tmprof_qemu_plugin name api)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  find_package(Threads REQUIRED)
  add_library(${name} MODULE ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE QEMU_PLUGIN_API=${api})
  target_compile_options(${name} PRIVATE -O2 -Wall -Wextra -Wshadow -Wstrict-prototypes
                         $<$<BOOL:${TMPROF_WERROR}>:-Werror>)
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
