# What makes CI faster, and is off for everybody else: headers that are read once, and objects of another build.

# Half of what a file of a library takes g++ are its headers. Compilers' caches and those who edit them want it off, and so
# does who wants to see that each file includes what it needs (CI: clang). Objects reuse those of a library that is nothing
# else: to who links them, what they precompile themselves were an object.
option(INLAY_PRECOMPILE "Read the headers of a library once for all of its files" OFF)
if(INLAY_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ would collect its garbage among all that is precompiled, in a tenth of its time; it is done before there is 1 GB.
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()
function(inlay_precompile target)
  if(INLAY_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <inlay/inlay.hpp> <inlay/cpu.hpp> ${inlay_checked}
      <algorithm> <array> <cmath> <fstream> <functional> <map> <memory> <optional> <span> <sstream> <string> <vector> ${ARGN})
  endif()
endfunction()

# A third of what g++ does for a program of many operators are their checks, the same in every program. Here they are in one
# object, inlay_checks, and who includes checks_once.hpp compiles none. Users have headers that are whole.
option(INLAY_CHECK_ONCE "Compile the checks of operators once" OFF)
if(INLAY_CHECK_ONCE)
  set(inlay_checked ${PROJECT_BINARY_DIR}/checks_once.hpp)
  set(inlay_checked_all ${PROJECT_BINARY_DIR}/checks_once_all.hpp)  # OpenCL's too, which no precompiled header may ask for
endif()
function(inlay_add_checks)
  if(NOT INLAY_CHECK_ONCE)
    return()
  endif()
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/inlay/ops/*.hpp)
  set(check "template <class Space> Status check\\(const ([A-Za-z0-9]+)<Space>& op\\).*")
  foreach(header IN LISTS headers)
    string(APPEND text "#include <${header}>\n")
    file(STRINGS ${PROJECT_SOURCE_DIR}/include/${header} lines REGEX "^${check}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "${check}" "\\1" op "${line}")
      foreach(function "Status check" "bool writes_nothing")
        foreach(space Host Cl Planned)
          string(APPEND in${space} "INLAY_ONCE template ${function}(const ${op}<${space}>&);\n")
        endforeach()
      endforeach()
    endforeach()
  endforeach()
  string(REPLACE "<Planned>" "<exec::Planned>" inPlanned "${inPlanned}")
  set(once "#ifndef INLAY_ONCE\n#define INLAY_ONCE extern\n#endif\n")
  file(CONFIGURE OUTPUT ${inlay_checked}
       CONTENT "#pragma once\n${text}${once}namespace inlay::exec {\nstruct Planned;\n}\nnamespace inlay {\n${inHost}${inPlanned}}\n")
  set(with_cl "#ifdef INLAY_HAS_CL\n#include <inlay/cl.hpp>\nnamespace inlay {\n${inCl}}\n#endif\n")
  file(CONFIGURE OUTPUT ${inlay_checked_all} CONTENT "#pragma once\n#include \"${inlay_checked}\"\n${with_cl}")
  set(source ${PROJECT_BINARY_DIR}/checks_once.cpp)
  file(CONFIGURE OUTPUT ${source}
       CONTENT "#include <inlay/exec/plan/recorder.hpp>\n#define INLAY_ONCE\n#include \"${inlay_checked_all}\"\n")
  inlay_part(checks ${source})
  inlay_part_of(checks "" inlay_core)
  if(INLAY_CL AND TARGET inlay_checks)
    target_link_libraries(inlay_checks PRIVATE OpenCL::OpenCL)
    target_compile_definitions(inlay_checks PRIVATE INLAY_HAS_CL CL_TARGET_OPENCL_VERSION=300)
  endif()
endfunction()
# For a target whose headers are not precompiled.
function(inlay_check_once target)
  if(INLAY_CHECK_ONCE AND TARGET ${target})
    target_compile_options(${target} PRIVATE "SHELL:-include ${inlay_checked_all}")
  endif()
endfunction()

# The files of a folder, eight at a time, are one to the compiler, which compiles what they share once: twelve of the
# tokenizers take 8 s of g++'s time and not 16. What each includes itself it does not see; scripts/clang_reads.py does.
option(INLAY_TOGETHER "Compile a folder's files together" OFF)
# inlay_together(TARGET [FILE..]): but for files that have names in common with others of their folder, or parts of their own.
function(inlay_together target)
  if(NOT INLAY_TOGETHER OR NOT TARGET ${target})
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    file(REAL_PATH ${source} path)
    file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${path})
    if(NOT path IN_LIST ARGN AND NOT source MATCHES "^${PROJECT_BINARY_DIR}/")
      get_filename_component(folder ./${path} DIRECTORY)
      string(REGEX REPLACE "[./]+" "_" folder "${folder}")
      list(APPEND of${folder} ${path})
      list(LENGTH of${folder} count)
      math(EXPR number "(${count} - 1) / 8")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "of${folder}_${number}")
    endif()
  endforeach()
endfunction()

# What is no kernel: g++ builds it with -O1 in 0.7 of the time of -O3. That is how tools and steps are built for everybody; a
# model of 250 MB would be loaded in 1.40 s in place of 0.95.
option(INLAY_QUICK "Compile tokenizers, what reads files and the C functions with -O1" OFF)
function(inlay_quick target)
  if(INLAY_QUICK)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# inlay_headers(NAME LIBRARY [HEADER..]): what parts of a library read first, inlay_headers_<name>.
function(inlay_headers name library)
  if(INLAY_PRECOMPILE)
    file(WRITE ${PROJECT_BINARY_DIR}/inlay_headers_${name}.cpp "")
    add_library(inlay_headers_${name} STATIC ${PROJECT_BINARY_DIR}/inlay_headers_${name}.cpp)
    target_link_libraries(inlay_headers_${name} PRIVATE ${library})
    target_include_directories(inlay_headers_${name} PRIVATE ${PROJECT_SOURCE_DIR})
    inlay_warnings(inlay_headers_${name})
    inlay_precompile(inlay_headers_${name} ${ARGN})
  endif()
endfunction()
function(inlay_reuse_headers target name)
  if(TARGET inlay_headers_${name})
    target_precompile_headers(${target} REUSE_FROM inlay_headers_${name})
  endif()
endfunction()

# inlay_compile(TARGET SOURCES..): target_sources, or the objects that INLAY_PLAIN_BUILD has of them.
#
# A sanitizer's build instruments what it is there to watch. Sweeps of tests are most of what there is to compile, and
# with a sanitizer they take twice as long: they, and libraries that have nothing to watch, are linked as another build,
# which is there already, has compiled them.
set(INLAY_PLAIN_BUILD "" CACHE PATH "A build of the same sources whose objects are linked here")
set(INLAY_PLAIN "" CACHE STRING "A regular expression: the targets whose objects come from INLAY_PLAIN_BUILD")
function(inlay_compile target)
  inlay_plain_objects(objects sources ${target} ${ARGN})
  target_sources(${target} PRIVATE ${objects} ${sources})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# Of a target's sources, where it is one of those: the objects that are there, and the sources of the others; else all.
function(inlay_plain_objects objects sources target)
  set(${objects} "" PARENT_SCOPE)
  set(${sources} ${ARGN} PARENT_SCOPE)
  if(NOT INLAY_PLAIN_BUILD OR NOT target MATCHES "^(${INLAY_PLAIN})$")
    return()
  endif()
  file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(missing "")
  # Those that were compiled together, and what they hold.
  file(GLOB units ${INLAY_PLAIN_BUILD}/${room}/CMakeFiles/${target}.dir/Unity/*.cxx)
  set(found ${units})
  list(TRANSFORM found APPEND .o)
  set(together "")
  foreach(unit IN LISTS units)
    file(READ ${unit} text)
    string(APPEND together "${text}")
  endforeach()
  foreach(source IN LISTS ARGN)
    if(source MATCHES "^${PROJECT_BINARY_DIR}/")  # a made one
      file(RELATIVE_PATH path ${CMAKE_CURRENT_BINARY_DIR} ${source})
    else()
      file(REAL_PATH ${source} path)
      file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${path})
    endif()
    string(REPLACE "../" "__/" path ${path})
    set(object ${INLAY_PLAIN_BUILD}/${room}/CMakeFiles/${target}.dir/${path}.o)
    if("${together}" MATCHES "/${path}\"")
      continue()  # whatever lies there of a time when it was compiled alone
    elseif(EXISTS ${object})
      list(APPEND found ${object})
    else()
      list(APPEND missing ${source})
    endif()
  endforeach()
  set(${objects} ${found} PARENT_SCOPE)
  set(${sources} ${missing} PARENT_SCOPE)
endfunction()

# With sanitizers clang takes a third to a quarter of the time for what it does not optimize (a decoder 105 -> 23 s), and
# most of a program runs once. What computes for long is optimized.
function(inlay_optimized target)
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize" AND TARGET ${target})
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# Kernels in sanitizer builds, which took half of CI. Vectors are watched for what they touch, the scalar level for its
# arithmetic: indices and addresses are the same templates at every level, and both at once take four times as long as
# either (exact_float of linear_w4a16 199 s, 36 and 52 s). What null and object-size look for ASan sees when it happens.
function(inlay_fewer_checks target level)
  inlay_optimized(${target})
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize")
    target_compile_definitions(${target} PRIVATE INLAY_ROLLED)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize=address,undefined")
    if(level STREQUAL "scalar")
      target_compile_options(${target} PRIVATE -fno-sanitize=address,null,object-size)
    else()
      target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
  endif()
endfunction()
