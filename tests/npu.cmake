# The tile machine and the operators' programs on it, where the NPU backend is built.

# What an Npu keeps from call to call.
inlay_add_test(npu_kept_programs npu/kept_programs.cpp inlay_npu)
inlay_unoptimized(npu_kept_programs)
inlay_add_test(npu_threads npu/threads.cpp inlay_npu)
inlay_add_test(npu_packed_weights npu/packed_weights.cpp inlay_npu)
inlay_add_test(npu_other_devices npu/other_devices.cpp inlay_npu nlohmann_json::nlohmann_json)
inlay_unoptimized(npu_other_devices)
inlay_add_test(npu_scarce_devices npu/scarce_devices.cpp inlay_npu nlohmann_json::nlohmann_json)
inlay_unoptimized(npu_scarce_devices)

# The tile machine, room by room: machine_<room>_<stem>. The operators' programs on it: npu_<room>_<stem>.
function(inlay_add_machine_tests prefix)
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize")
    # Estimates of large shapes and the deletion of syncs: minutes of arithmetic. What they run the operators' tests run too.
    list(FILTER ARGN EXCLUDE REGEX "/shares_[a-z]+\\.cpp$|/mutants/")
  endif()
  foreach(source IN LISTS ARGN)
    get_filename_component(stem ${source} NAME_WE)
    inlay_add_test(${prefix}_${stem} ${source} inlay_npu nlohmann_json::nlohmann_json)
    if(NOT prefix STREQUAL "machine_device")  # those change documents thousands of times
      inlay_unoptimized(${prefix}_${stem})
    endif()
  endforeach()
endfunction()
foreach(room device events run check time fit)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tile_machine/tests/${room}/*.cpp)
  inlay_add_machine_tests(machine_${room} ${sources})
endforeach()
foreach(room programs mutants)
  file(GLOB sources CONFIGURE_DEPENDS npu/${room}/*.cpp)
  inlay_add_machine_tests(npu_${room} ${sources})
endforeach()
inlay_add_machine_tests(npu npu/functional.cpp npu/estimate.cpp)
inlay_add_machine_tests(npu npu/imported_logs.cpp)
# Compiles what inlay npu emit writes against stubs of Ascend C.
inlay_add_test(npu_emit npu/emit.cpp inlay_npu ${CMAKE_DL_LIBS})
inlay_unoptimized(npu_emit)
target_compile_definitions(test_npu_emit PRIVATE INLAY_CXX="${CMAKE_CXX_COMPILER}")
inlay_add_test(npu_guide npu/guide.cpp inlay_npu)
foreach(test programs_targets programs_silence estimate)  # the cases that bench/npu prints
  inlay_compile(test_npu_${test} ${PROJECT_SOURCE_DIR}/measure/npu_cases.cpp)
endforeach()

# Kernels in C, and one in Ascend C, that record themselves (docs/npu_import.md). The compiler of C++ compiles them, as tests/bindings.cmake tells.
separate_arguments(c_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
set(c_objects "")
foreach(kernel add softmax matmul record)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/npu/kernels/${kernel}.c)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/npu_kernels_${kernel}.o)
  list(APPEND c_objects ${object})
  add_custom_command(OUTPUT ${object} VERBATIM
    DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/npu/kernels/verbs.h ${CMAKE_CURRENT_SOURCE_DIR}/npu/kernels/kernels.h
            ${PROJECT_SOURCE_DIR}/include/inlay/npu_log.h
    COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c11 -Wall -Wextra -Wpedantic -Werror ${c_flags} -I${PROJECT_SOURCE_DIR}
            -I${PROJECT_SOURCE_DIR}/include -c ${source} -o ${object})
endforeach()
add_executable(test_npu_kernels ${c_objects} npu/kernels/ascend_c/add.cpp)
target_include_directories(test_npu_kernels PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
inlay_warnings(test_npu_kernels)
set_source_files_properties(${c_objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(test_npu_kernels PROPERTIES LINKER_LANGUAGE CXX)
add_test(NAME npu_log_header_in_cpp COMMAND ${CMAKE_CXX_COMPILER} -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only
  -include ${PROJECT_SOURCE_DIR}/include/inlay/npu_log.h /dev/null)

add_test(NAME machine_rooms COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/tile_machine/tests/rooms.cmake)
