# Builds the project in CONSUMER as its own user would, and runs it. A failure of any step is a
# failure of the test.
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

# shows_nothing(LIBRARY REGEX [ALLOWED]): no symbol that a library shows matches the first and not the second.
function(shows_nothing library regex)
  find_program(NM nm REQUIRED)
  execute_process(COMMAND ${NM} -DC --defined-only ${library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(NOT symbols MATCHES " T ")
    message(FATAL_ERROR "${library} shows nothing at all: the search is broken")
  endif()
  string(REGEX MATCHALL "[^\n]* (${regex})[^\n]*" shown "${symbols}")
  if(ARGN)
    list(FILTER shown EXCLUDE REGEX "${ARGN}")
  endif()
  if(shown)
    list(JOIN shown "\n" shown)
    message(FATAL_ERROR "${library} must not show\n${shown}")
  endif()
endfunction()

get_filename_component(name ${CONSUMER} NAME)
set(prefix ${BUILD}/consumer/prefix_${name})
set(build ${BUILD}/consumer/${name})
file(REMOVE_RECURSE ${prefix} ${prefix}_moved ${build})
set(installed ON)
set(options -DCMAKE_BUILD_TYPE=Release)
if(name STREQUAL "headers")  # all kernels twice
  set(installed OFF)
  set(options -DCMAKE_BUILD_TYPE=None)
  string(APPEND FLAGS " -O1")
elseif(name STREQUAL "fetched")  # as little as its program needs
  set(installed OFF)
  set(options -DCMAKE_BUILD_TYPE=None -DINLAY_KERNELS=rms_norm -DINLAY_ISA=scalar -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
endif()
if(installed)
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
endif()
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${build} -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
     ${options} -DCMAKE_PREFIX_PATH=${prefix} -DINLAY_SOURCE=${SOURCE})
set(target all)
if(name STREQUAL "fetched")
  set(target consumer)
endif()
step(${CMAKE_COMMAND} --build ${build} --target ${target})
step(${build}/consumer)

# What a project asks of its own sources it still asks of them, and of no file of ours.
if(name STREQUAL "fetched")
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${build} --target careless OUTPUT_VARIABLE output ERROR_VARIABLE output
    RESULT_VARIABLE failed)
  if(NOT failed OR NOT output MATCHES "careless.cpp:[0-9:]+ error: [^\n]*conversion")
    message(FATAL_ERROR "careless.cpp must be refused for its conversion:\n${output}")
  endif()
  file(STRINGS ${build}/compile_commands.json commands REGEX "\"command\": .*_deps/inlay-build")
  list(LENGTH commands count)
  if(count LESS 100)
    message(FATAL_ERROR "${count} of our files are compiled in ${build}: the search is broken")
  endif()
  list(FILTER commands INCLUDE REGEX " -W(error|conversion|shadow|old-style-cast)[ =]")
  foreach(command IN LISTS commands)
    message(SEND_ERROR "a warning of the project's is asked of a file of ours: ${command}")
  endforeach()
endif()

# Two versions in one process, each in a library that shows whatever a compiler shows that is not told otherwise: loaded and
# unloaded, and both linked.
if(name STREQUAL "fetched")
  include(${CMAKE_CURRENT_LIST_DIR}/later_version.cmake)
  make_later(${SOURCE} ${build}/later_source)
  step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${build}/later -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
       ${options} -DINLAY_SOURCE=${build}/later_source -DPLUGIN=later)
  step(${CMAKE_COMMAND} --build ${build} --target earlier)
  step(${CMAKE_COMMAND} --build ${build}/later --target later)
  # Of ours a plugin shows no function but templates that its own code has made, which say the version.
  shows_nothing(${build}/libearlier.so "T [^\n]*inlay::")
  shows_nothing(${build}/libearlier.so "[WVu] [^\n]*inlay::" "v[0-9]+_[0-9]+|initializer_list<inlay::DType>")
  set(plugins ${build}/libearlier.so ${build}/later/liblater.so)
  separate_arguments(host UNIX_COMMAND "${COMPILER} -std=c++20 ${FLAGS} ${CONSUMER}/host.cpp")
  step(${host} -pthread -ldl -o ${build}/host)
  step(${build}/host ${plugins})
  step(${host} -DLINKED ${plugins} -pthread -Wl,-rpath,${build}:${build}/later -o ${build}/linked)
  step(${build}/linked)
endif()

# The same as a shared library, which shows what its headers declare and nothing that it was made with.
if(name STREQUAL "fetched")
  step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${build}/shared -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS}
       ${options} -DINLAY_SOURCE=${SOURCE} -DBUILD_SHARED_LIBS=ON)
  step(${CMAKE_COMMAND} --build ${build}/shared --target consumer)
  step(${build}/shared/consumer)
  shows_nothing(${build}/shared/_deps/inlay-build/libinlay_cpu.so
    "[A-Za-z] (std::|tl::|typeinfo|vtable)|[A-Za-z] [^\n]*inlay::cpu::(rms_norm|sum_of)|T [^\n]*inlay::allowed")
endif()

# The same prefix, moved, for programs that pkg-config alone tells of us.
find_program(PKG_CONFIG pkg-config)
if(installed AND PKG_CONFIG)
  file(RENAME ${prefix} ${prefix}_moved)
  file(GLOB_RECURSE file ${prefix}_moved/inlay-cpu.pc)
  get_filename_component(folder "${file}" DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  separate_arguments(own_flags UNIX_COMMAND "${FLAGS}")
  # with_pkg_config(PROGRAM "PACKAGES AND OPTIONS" SOURCE_OR_FLAG..): compiled, linked and run.
  function(with_pkg_config program packages)
    separate_arguments(packages)
    execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${packages} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE flags)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    step(${COMPILER} -std=c++20 ${own_flags} ${ARGN} ${flags} -o ${build}/${program})
    step(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${folder}/.. ${build}/${program})
  endfunction()
  if(name STREQUAL "package")
    with_pkg_config(cpu_only inlay-cpu ${CONSUMER}/cpu_only.cpp)
    # It needs none of what other components stand on.
    execute_process(COMMAND ldd ${build}/cpu_only COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE needed)
    if(needed MATCHES "protobuf|onnx|CLI11|pcre2|utf8proc|OpenCL")
      message(FATAL_ERROR "a program of CPU operators alone needs ${CMAKE_MATCH_0}:\n${needed}")
    endif()
    execute_process(COMMAND ${PKG_CONFIG} --variable=devices inlay-npu COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE devices
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    with_pkg_config(npu "inlay-npu inlay-reference" ${CONSUMER}/main.cpp ${CONSUMER}/tile_program.cpp "-DDEVICES=\"${devices}\"")
  elseif(name STREQUAL "opencl")
    with_pkg_config(cl inlay-cl ${CONSUMER}/main.cpp)
  elseif(name STREQUAL "exec")
    with_pkg_config(exec "--static inlay-exec" ${CONSUMER}/main.cpp "-DMODEL=\"${SOURCE}/models/stories.gguf\"")
  endif()
  file(REMOVE_RECURSE ${prefix}_moved)
endif()

# On a machine without AVX, where there is an emulator: the unit for it got no code of the others.
find_program(QEMU qemu-x86_64)
if(name STREQUAL "headers" AND QEMU AND CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
  step(${QEMU} -cpu Nehalem ${build}/consumer baseline)
endif()
