# Tests of the ways in from other languages, bindings/.

# What C sees, from C++: words, structs, threads.
inlay_add_test_of_parts(bindings_c bindings/refusals.cpp inlay_c)
inlay_compile(test_bindings_c bindings/backends.cpp bindings/introspection.cpp bindings/weights.cpp)
target_link_libraries(test_bindings_c PRIVATE inlay_reference inlay_cpu inlay_core)
inlay_unoptimized(bindings_c)
if(CMAKE_CXX_FLAGS MATCHES "undefined")  # as for inlay_c
  target_compile_options(test_bindings_c PRIVATE -fno-sanitize=function)
endif()

# Random calls, beside the same in C++.
inlay_add_test(bindings_fuzz bindings/fuzz.cpp inlay_c)
inlay_unoptimized(bindings_fuzz)

# A program in C. The compiler of C++ compiles it, so that the build needs no second one with a sanitizer of its own.
separate_arguments(c_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
set(c_compiler ${CMAKE_CXX_COMPILER} -x c -std=c11 -Wall -Wextra -Wpedantic -Werror -I${PROJECT_SOURCE_DIR}/bindings/c)
set(c_object ${CMAKE_CURRENT_BINARY_DIR}/bindings_program.o)
add_custom_command(OUTPUT ${c_object} VERBATIM
  DEPENDS ${PROJECT_SOURCE_DIR}/bindings/c/inlay.h ${CMAKE_CURRENT_SOURCE_DIR}/bindings/program.c
  COMMAND ${c_compiler} ${c_flags} -c ${CMAKE_CURRENT_SOURCE_DIR}/bindings/program.c -o ${c_object})
add_executable(test_bindings_program ${c_object})
set_source_files_properties(${c_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(test_bindings_program PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(test_bindings_program PRIVATE inlay_c m)
add_test(NAME bindings_program COMMAND test_bindings_program)
set_tests_properties(bindings_program PROPERTIES ENVIRONMENT "${test_environment}")

find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(bindings ${CMAKE_CURRENT_SOURCE_DIR}/bindings)
# What the header promises, and what the library shows.
find_program(INLAY_CLANG NAMES clang-15 clang clang-14)
foreach(mode check self-test)
  add_test(NAME bindings_abi_${mode} COMMAND ${Python3_EXECUTABLE} ${bindings}/abi.py --${mode} ${INLAY_CLANG} ${PROJECT_SOURCE_DIR}/bindings/c/inlay.h
    ${PROJECT_SOURCE_DIR}/bindings/c/abi.txt)
endforeach()
add_test(NAME bindings_header_in_cpp COMMAND ${CMAKE_CXX_COMPILER} -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only
  -include ${PROJECT_SOURCE_DIR}/bindings/c/inlay.h /dev/null)

# A sanitizer brings symbols of its own, and must be there before Python is.
if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize" AND NOT CMAKE_CROSSCOMPILING)
  add_test(NAME bindings_exports COMMAND ${Python3_EXECUTABLE} ${bindings}/exports.py $<TARGET_FILE:inlay_c> ${PROJECT_SOURCE_DIR}/bindings/c/inlay.h
    ${CMAKE_NM})
  set(scripts operators loading)
  if(TARGET inlay_exec)
    add_test(NAME bindings_model COMMAND ${Python3_EXECUTABLE} ${bindings}/model.py $<TARGET_FILE:inlay_c>
      ${PROJECT_SOURCE_DIR}/models/stories.gguf $<$<TARGET_EXISTS:inlay>:$<TARGET_FILE:inlay>>)
    set_tests_properties(bindings_model PROPERTIES ENVIRONMENT "${test_environment}")
    list(APPEND scripts docs)  # of models too
  endif()
  if(TARGET inlay)
    add_test(NAME bindings_kernels COMMAND ${Python3_EXECUTABLE} ${bindings}/kernels.py $<TARGET_FILE:inlay> $<TARGET_FILE:inlay_c>)
    set_tests_properties(bindings_kernels PROPERTIES ENVIRONMENT "${test_environment};INLAY_CXX=${CMAKE_CXX_COMPILER}")
  endif()
  if(TARGET inlay_exec AND INLAY_PYTHON)
    # The package of docs/python.md around this library. Skips where PyPI does not answer.
    add_test(NAME bindings_python COMMAND ${Python3_EXECUTABLE} ${bindings}/python/run.py --library $<TARGET_FILE:inlay_c>
      --model ${PROJECT_SOURCE_DIR}/models/stories.gguf $<$<TARGET_EXISTS:inlay>:--inlay=$<TARGET_FILE:inlay>>
      --environment ${PROJECT_SOURCE_DIR}/build/python_environment)
    # In that package. Skips where there is no PyTorch, which is far too large to be fetched.
    add_test(NAME bindings_torch COMMAND ${Python3_EXECUTABLE} ${bindings}/python/run_torch.py
      --environment ${PROJECT_SOURCE_DIR}/build/python_environment --torch ${PROJECT_SOURCE_DIR}/build/torch_venv)
    set_tests_properties(bindings_python PROPERTIES FIXTURES_SETUP python_package)
    set_tests_properties(bindings_torch PROPERTIES FIXTURES_REQUIRED python_package)
    set_tests_properties(bindings_python bindings_torch PROPERTIES ENVIRONMENT "${test_environment}" SKIP_RETURN_CODE 77)
  endif()
  foreach(script IN LISTS scripts)
    add_test(NAME bindings_${script} COMMAND ${Python3_EXECUTABLE} ${bindings}/${script}.py $<TARGET_FILE:inlay_c>)
    set_tests_properties(bindings_${script} PROPERTIES ENVIRONMENT "${test_environment};INLAY_CXX=${CMAKE_CXX_COMPILER}")
  endforeach()
endif()
