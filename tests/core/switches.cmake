# What is switched off is compiled for nobody, and an operator's own test links that operator alone.
#
#   cmake -DSOURCE=<the project> -DBUILD=<a build> -DCOMPILER=c++ -DNINJA=ninja "-DOPERATORS=add;.." -P switches.cmake
cmake_minimum_required(VERSION 3.22)
set(without ${BUILD}/without_devices)
execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${without} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_MAKE_PROGRAM=${NINJA} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DINLAY_NPU=OFF -DINLAY_CL=OFF -DINLAY_ONNX=OFF -DINLAY_SERVE=OFF -DINLAY_STUDIES=OFF -DINLAY_ISA=scalar
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "a build without NPU, OpenCL, ONNX, HTTP and studies does not configure:\n${output}")
endif()
file(STRINGS ${without}/compile_commands.json commands REGEX "\"(file|command)\": ")
list(LENGTH commands count)
if(count LESS 200)
  message(FATAL_ERROR "${without} has ${count} lines of commands: the search is broken")
endif()
foreach(line IN LISTS commands)
  if(line MATCHES "\"file\": \".*/((npu_kernels|tile_machine|cl_kernels|tools/(npu|tune|onnx|serve|plan|simulate)|tests/(npu|cl))/[^\"]*)\"")
    message(SEND_ERROR "${CMAKE_MATCH_1} is compiled, though it is switched off")
  elseif(line MATCHES "-D(INLAY_(HAS|TESTS)_[A-Z]+)" OR line MATCHES "(-mavx[0-9a-z]*)")
    message(SEND_ERROR "${CMAKE_MATCH_1} in a build without it: ${line}")
  endif()
endforeach()

# Of the backends' sources right in their folders, which are the operators', what does the test of the first link?
list(GET OPERATORS 0 tested)
execute_process(COMMAND ${NINJA} -C ${BUILD} -t inputs tests/test_${tested}
  OUTPUT_VARIABLE inputs COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(reference|[a-z]+_kernels)/[a-z0-9_]+\\.cpp\\.o\n" linked "${inputs}")
list(LENGTH linked count)
if(count LESS 2)
  message(FATAL_ERROR "test_${tested} links ${count} objects of operators: the search is broken")
endif()
list(JOIN OPERATORS "|" operators)
foreach(object IN LISTS linked)
  string(STRIP ${object} object)
  string(REGEX REPLACE ".*/([a-z0-9_]+)\\.cpp\\.o" "\\1" stem ${object})
  if(stem MATCHES "^(${operators})$" AND NOT stem STREQUAL tested)
    message(SEND_ERROR "test_${tested} links ${object}")
  endif()
endforeach()
