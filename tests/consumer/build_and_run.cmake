# Builds the project in CONSUMER as its own user would, and runs it. A failure of any step is a
# failure of the test.
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

get_filename_component(name ${CONSUMER} NAME)
set(prefix ${BUILD}/consumer/prefix_${name})
set(build ${BUILD}/consumer/${name})
file(REMOVE_RECURSE ${prefix} ${build})
if(NOT name STREQUAL "headers")
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
endif()
set(build_type Release)
if(name STREQUAL "headers")  # all kernels three times
  set(build_type None)
  string(APPEND FLAGS " -O1")
endif()
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${build} -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
     -DCMAKE_BUILD_TYPE=${build_type} -DCMAKE_PREFIX_PATH=${prefix} -DINLAY_SOURCE=${SOURCE})
step(${CMAKE_COMMAND} --build ${build})
step(${build}/consumer)
# On a machine without AVX, where there is an emulator: the unit for it got no code of the others.
find_program(QEMU qemu-x86_64)
if(name STREQUAL "headers" AND QEMU AND CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
  step(${QEMU} -cpu Nehalem ${build}/consumer baseline)
endif()
