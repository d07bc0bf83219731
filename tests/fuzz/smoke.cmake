# SPDX-License-Identifier: Apache-2.0
# cmake -DFUZZER=… -DROOT=… -DFOLDER=… -DRUNS=… -P smoke.cmake -- SEED…
# Each seed by itself, then one deterministic round of a fuzz target: fixed seed, fixed number of runs, a fresh corpus
# made of the seed files, which are named from ROOT. An input that fails is kept as FOLDER/crash-…, unless it is a seed.

# A list would not do: CMake takes it apart on its way through functions.
set(seeds)
set(is_seed FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(is_seed)
    list(APPEND seeds ${ROOT}/${CMAKE_ARGV${i}})
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(is_seed TRUE)
  endif()
endforeach()
if(NOT seeds)
  message(FATAL_ERROR "no seeds are named")
endif()

file(REMOVE_RECURSE ${FOLDER}/corpus)
file(COPY ${seeds} DESTINATION ${FOLDER}/corpus)
list(LENGTH seeds named)
file(GLOB copied ${FOLDER}/corpus/*)
list(LENGTH copied copied)
if(NOT copied EQUAL named)
  message(FATAL_ERROR "${named} seeds are named, but the corpus has ${copied} files: two of the same name?")
endif()

set(limits -timeout=600 -rss_limit_mb=1024 -max_len=65536 -artifact_prefix=${FOLDER}/)
execute_process(COMMAND ${FUZZER} ${limits} ${seeds} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the fuzz target failed (${result}) with the seed that it ran last")
endif()
execute_process(COMMAND ${FUZZER} -seed=1 -runs=${RUNS} ${limits} ${FOLDER}/corpus RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the fuzz target failed (${result}); its input is in ${FOLDER}")
endif()
