# What holds of the project as a whole: of its sources, of the objects that are made of them, of its pages, and of projects that
# take it in.

# No ISA-specific body under a name that the baseline might link. Sanitizers keep small functions out
# of line; their builds are not for older machines.
list(JOIN INLAY_OPS "|" ops_or_limits)
string(APPEND ops_or_limits "|limits")
foreach(level IN LISTS INLAY_LEVELS)
  inlay_objects(objects "cpu_${level}_(${ops_or_limits})")
  if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
    add_test(NAME weak_symbols_${level}
      COMMAND ${CMAKE_COMMAND} -DLEVEL=${level} "-DOBJECTS=${objects}" -DNM=${CMAKE_NM}
              -P ${CMAKE_CURRENT_SOURCE_DIR}/core/weak_symbols.cmake)
  endif()
  if(TARGET inlay_npu_host_${level} AND NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
    add_test(NAME weak_symbols_npu_${level}
      COMMAND ${CMAKE_COMMAND} -DLEVEL=${level} "-DOBJECTS=$<TARGET_OBJECTS:inlay_npu_host_${level}>" -DNM=${CMAKE_NM}
              -P ${CMAKE_CURRENT_SOURCE_DIR}/core/weak_symbols.cmake)
  endif()
endforeach()

# A test that asks a kernel's template of a level gets it inline, or the linker may give it that level's instructions.
if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
  list(TRANSFORM INLAY_OPS REPLACE "(.+)" "$<TARGET_OBJECTS:test_\\1>" OUTPUT_VARIABLE objects)
  add_test(NAME weak_symbols_tests
    COMMAND ${CMAKE_COMMAND} -DLEVEL=tests "-DOBJECTS=${objects}" -DNM=${CMAKE_NM}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/core/weak_symbols.cmake)
endif()

# Who links us has nothing run before main(). (A sanitizer's objects have.)
if(NOT BUILD_SHARED_LIBS AND NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
  set(libraries "")
  foreach(part cpu reference files tile_machine npu cl text model exec)
    if(TARGET inlay_${part})
      list(APPEND libraries $<TARGET_FILE:inlay_${part}>)
    endif()
  endforeach()
  add_test(NAME initialisers
    COMMAND ${CMAKE_COMMAND} -DREADELF=${CMAKE_READELF} -DNM=${CMAKE_NM} "-DLIBRARIES=${libraries}"
            -P ${CMAKE_CURRENT_SOURCE_DIR}/core/initialisers.cmake)
endif()

# Each file must fail to compile, and its first line says why: "// must not compile: <error text>".
file(GLOB forbidden CONFIGURE_DEPENDS must_not_compile/*.cpp)
foreach(source IN LISTS forbidden)
  get_filename_component(stem ${source} NAME_WE)
  add_test(NAME must_not_compile_${stem}
    COMMAND ${CMAKE_COMMAND} -DCOMPILER=${CMAKE_CXX_COMPILER} -DSOURCE=${source} -DINCLUDE=${PROJECT_SOURCE_DIR}/include
            -P ${CMAKE_CURRENT_SOURCE_DIR}/must_not_compile/expect_error.cmake)
endforeach()

# Projects of users: three find the installed package, for operators, for a model and for OpenCL; one includes the headers
# and brings its threads; one takes the sources in, beside warnings of its own.
set(consumers "")
if(TARGET inlay_npu)  # its program is one of tiles too
  list(APPEND consumers package)
endif()
if(TARGET inlay_exec)
  list(APPEND consumers exec)
endif()
if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
  # Under a sanitizer: all kernels again, minutes of compiling that find nothing new.
  list(APPEND consumers headers fetched)
  if(TARGET inlay_cl)
    list(APPEND consumers opencl)  # .. and PoCL, which leaks
  endif()
endif()
foreach(consumer IN LISTS consumers)
  add_test(NAME consumer_${consumer}
    COMMAND ${CMAKE_COMMAND} -DCONSUMER=${CMAKE_CURRENT_SOURCE_DIR}/consumer/${consumer} -DBUILD=${PROJECT_BINARY_DIR}
            -DSOURCE=${PROJECT_SOURCE_DIR} -DCOMPILER=${CMAKE_CXX_COMPILER} "-DFLAGS=${CMAKE_CXX_FLAGS}"
            -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/build_and_run.cmake)
  set_tests_properties(consumer_${consumer} PROPERTIES ENVIRONMENT "${test_drivers}")
endforeach()

# The commands that docs/add_an_operator.md tells an author to run: they build a release of their own.
if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")
  add_test(NAME add_an_operator
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR} -DCOMPILER=${CMAKE_CXX_COMPILER}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/core/add_an_operator.cmake)
endif()

# Every file that an operator touches is on that page.
list(GET INLAY_OPS 0 latest)
add_test(NAME operator_files
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOPERATOR=${latest} -P ${CMAKE_CURRENT_SOURCE_DIR}/core/operator_files.cmake)

# What is switched off is not compiled.
if(CMAKE_GENERATOR STREQUAL "Ninja" AND NOT CMAKE_CXX_FLAGS MATCHES "fsanitize" AND NOT CMAKE_CROSSCOMPILING)
  set(others ${INLAY_OPS})
  list(REMOVE_ITEM others add)
  add_test(NAME switches COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
    -DCOMPILER=${CMAKE_CXX_COMPILER} -DNINJA=${CMAKE_MAKE_PROGRAM} "-DOPERATORS=add;${others}"
    -P ${CMAKE_CURRENT_SOURCE_DIR}/core/switches.cmake)
endif()

# The text that each planted bug replaces still stands. Whether the tests catch it: scripts/mutate.sh, by hand.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME mutants COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/mutate.py --check)
# The README's figures, docs/performance.md's and their picture are those of docs/performance.json.
add_test(NAME figures COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/peers/table.py --check)

# The rooms of the project know only those that they are built upon.
add_test(NAME include_edges
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -P ${CMAKE_CURRENT_SOURCE_DIR}/core/include_edges.cmake)

# A story links: scripts/run.sh builds the operators of a model alone.
if(TARGET inlay AND NOT INLAY_KERNELS AND NOT INLAY_PLAIN_BUILD)
  add_test(NAME story_operators
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/core/story_operators.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
endif()

# What run.sh builds compiles, whatever a command needs besides.
find_program(INLAY_CLANG clang++ DOC "Reads the command line's sources without the parts that a build may leave out")
if(TARGET inlay AND TARGET inlay_cl AND TARGET inlay_npu AND INLAY_CLANG AND CMAKE_EXPORT_COMPILE_COMMANDS AND NOT INLAY_PLAIN_BUILD)
  add_test(NAME switched_off
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/core/switched_off.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
endif()

# libFuzzer's build of the fuzz targets links, which nobody makes here. It is told by each source's own object.
if(TARGET inlay_engine_reference AND NOT INLAY_FUZZ AND NOT INLAY_TOGETHER AND NOT INLAY_PLAIN_BUILD)
  add_test(NAME fuzz_sources
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/core/fuzz_sources.py ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
endif()

add_test(NAME readme
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR} -DCOMPILER=${CMAKE_CXX_COMPILER}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/core/readme.cmake)

# One version everywhere.
add_test(NAME version COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} $<$<TARGET_EXISTS:inlay>:-DPROGRAM=$<TARGET_FILE:inlay>>
  -P ${CMAKE_CURRENT_SOURCE_DIR}/core/version.cmake)

# Every operator has the words of others.
add_test(NAME translated COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -P ${CMAKE_CURRENT_SOURCE_DIR}/core/translated.cmake)

# The programs of docs/recipes.md.
separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
add_test(NAME recipes COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/core/recipes.py ${CMAKE_CXX_COMPILER} ${flags}
  $<TARGET_FILE:inlay_cpu>)
set_tests_properties(recipes PROPERTIES ENVIRONMENT "${test_environment}")
