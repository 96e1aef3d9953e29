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
foreach(room device log run check time fit)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tile_machine/tests/${room}/*.cpp)
  inlay_add_machine_tests(machine_${room} ${sources})
endforeach()
foreach(room programs mutants)
  file(GLOB sources CONFIGURE_DEPENDS npu/${room}/*.cpp)
  inlay_add_machine_tests(npu_${room} ${sources})
endforeach()
inlay_add_machine_tests(npu npu/functional.cpp npu/estimate.cpp)
inlay_add_test(npu_guide npu/guide.cpp inlay_npu)
foreach(test programs_targets programs_silence estimate)  # the cases that bench/npu prints
  inlay_compile(test_npu_${test} ${PROJECT_SOURCE_DIR}/measure/npu_cases.cpp)
endforeach()
add_test(NAME machine_rooms COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
  -P ${PROJECT_SOURCE_DIR}/tile_machine/tests/rooms.cmake)
