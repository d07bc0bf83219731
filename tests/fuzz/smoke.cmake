# SPDX-License-Identifier: Apache-2.0
# cmake -DFUZZER=… -DSEEDS=a;b -DROOT=… -DFOLDER=… -DRUNS=… -P smoke.cmake
# One deterministic round of a fuzz target: fixed seed, fixed number of runs, a fresh corpus made of
# the seed files, which are named from ROOT. An input that fails is kept as FOLDER/crash-….

file(REMOVE_RECURSE ${FOLDER}/corpus)
file(MAKE_DIRECTORY ${FOLDER}/corpus)
list(TRANSFORM SEEDS PREPEND ${ROOT}/)
file(COPY ${SEEDS} DESTINATION ${FOLDER}/corpus)
execute_process(
  COMMAND ${FUZZER} -seed=1 -runs=${RUNS} -max_total_time=60 -timeout=600 -rss_limit_mb=1024
          -max_len=65536 -artifact_prefix=${FOLDER}/ ${FOLDER}/corpus
  RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the fuzz target failed (${result}); its input is in ${FOLDER}")
endif()
