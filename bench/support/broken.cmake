# PROGRAM's figures: those of right kernels pass, with exit status 0, and each of the others fails and makes the exit
# status 1.
function(expect filter status result count)
  execute_process(COMMAND ${PROGRAM} --benchmark_filter=${filter} OUTPUT_VARIABLE output RESULT_VARIABLE got)
  string(REGEX MATCHALL " short ${result}" lines "${output}")
  list(LENGTH lines found)
  if(NOT got EQUAL status OR NOT found EQUAL count)
    message(SEND_ERROR "${filter}: exit status ${got}, expected ${status}; ${found} lines with ${result}, "
                       "expected ${count}:\n${output}")
  endif()
endfunction()
expect(^right 0 "PASS\n" 2)
foreach(bug writes_nothing/ writes_nothing_but_once leaves_the_last_row leaves_the_last_byte one_row_in_seven
            fails_at_the_second_call)
  expect(^${bug} 1 "FAIL: " 2)
endforeach()
expect(. 1 "PASS\n" 2)
expect(. 1 "FAIL: " 12)
