# Runs the commands of docs/add_an_operator.md on a copy of the sources: the page is true.
set(copy ${BUILD}/add_an_operator)
file(REMOVE_RECURSE ${copy})
file(MAKE_DIRECTORY ${copy})
execute_process(COMMAND git -C ${SOURCE} ls-files -z --cached --others --exclude-standard OUTPUT_VARIABLE listed RESULT_VARIABLE no_git)
if(no_git)
  message(FATAL_ERROR "git ls-files failed in ${SOURCE}: the page's commands need a checkout")
endif()
execute_process(COMMAND sh -c "git -C '${SOURCE}' ls-files --cached --others --exclude-standard | (cd '${SOURCE}' && tar cf - -T -) | tar xf - -C '${copy}'" RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "copying the sources failed")
endif()
file(READ ${SOURCE}/docs/add_an_operator.md page)
string(REGEX MATCH "```sh\n([^`]+)```" block "${page}")
set(commands "${CMAKE_MATCH_1}")
if(commands STREQUAL "")
  message(FATAL_ERROR "docs/add_an_operator.md has no commands")
endif()
# Compiling again what is there proves nothing: the other operators are left out of the copy, and what its libraries have
# in common with this build is linked from there.
string(REPLACE "cmake --preset release"
       "cmake --preset release '-DINLAY_PLAIN_BUILD=${BUILD}' '-DINLAY_PLAIN=inlay_(npu_.*|cl_.*|cpu_base|cpu_[a-z0-9_]+_limits|files|tile_machine|measure|bench_support)'"
       commands "${commands}")
file(WRITE ${copy}/commands.sh "set -e
export CXX='${COMPILER}'
sed -i '/^set(INLAY_OPS$/,/^)/{/^  [a-z]/{/skeleton/!d}}; s/^set(\\(INLAY_OPS_[a-z0-9_]*\\) .*/set(\\1 \"\")/' CMakeLists.txt
git init -q . && git add -A
${commands}")
execute_process(COMMAND sh commands.sh WORKING_DIRECTORY ${copy} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0 OR NOT output MATCHES "100% tests passed")
  message(FATAL_ERROR "the commands of docs/add_an_operator.md fail:\n${output}")
endif()
