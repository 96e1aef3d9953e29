# How the lists in CMakeLists.txt become targets.

# Every file that an operator must have. A missing one stops the configuration.
foreach(op IN LISTS INLAY_OPS)
  foreach(file include/inlay/ops/${op}.hpp reference/${op}.cpp cpu_kernels/${op}.hpp cpu_kernels/${op}.cpp
               cl_kernels/${op}.cl cl_kernels/${op}.cpp npu_kernels/${op}.cpp tests/${op}.cpp bench/${op}.cpp docs/ops/${op}.md)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${file})
      message(FATAL_ERROR "The operator ${op} of INLAY_OPS has no ${file}. See docs/add_an_operator.md.")
    endif()
  endforeach()
endforeach()

# The two headers that include every operator. The skeleton is there to be copied, not to be used.
file(READ ${PROJECT_SOURCE_DIR}/include/inlay/inlay.hpp public_header)
file(READ ${PROJECT_SOURCE_DIR}/include/inlay/cpu_inline.hpp inline_header)
foreach(op IN LISTS INLAY_OPS)
  string(FIND "${public_header}" "#include <inlay/ops/${op}.hpp>" in_public)
  string(FIND "${inline_header}" "#include \"cpu_kernels/${op}.hpp\"" in_inline)
  if(NOT op STREQUAL "skeleton" AND (in_public EQUAL -1 OR in_inline EQUAL -1))
    message(FATAL_ERROR "The operator ${op} is missing in include/inlay/inlay.hpp or include/inlay/cpu_inline.hpp.")
  endif()
endforeach()

# The same bits from every compiler and on every machine: no product and sum are fused that the source does not fuse. Both
# compilers would where there is an fma, as on Arm: the reference's penalties of sampling were not those of the kernels.
add_compile_options(-ffp-contract=off)

# The warnings of a project that takes this one in (add_subdirectory, FetchContent) are for its own sources. (-Wa, -Wl, and
# -Wp, are none.)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(inlay_warning "-W([^alp]|[alp][^,])[^ ]*")
  get_directory_property(options COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "^${inlay_warning}$")
  set_directory_properties(PROPERTIES COMPILE_OPTIONS "${options}")
  string(REGEX REPLACE "(^| )${inlay_warning}" "" CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS}")
endif()

# A symbol that g++ makes unique in its process keeps the library that has it in memory behind dlclose().
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fno-gnu-unique)
endif()

# GCC 12 reports `"literal" + std::string` as overlapping memcpy (GCC bug 105651), and where headers are precompiled as one
# out of bounds.
function(inlay_warnings target)
  set(precompiled -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic $<$<BOOL:${INLAY_WERROR}>:-Werror>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${INLAY_PRECOMPILE}>>:${precompiled}>")
endfunction()

# Half of what a file of a library takes g++ are its headers. Compilers' caches and those who edit them want it off, and so
# does who wants to see that each file includes what it needs (CI: clang). Not of an OBJECT library:
# to who links it, what was precompiled is an object.
option(INLAY_PRECOMPILE "Read the headers of a library once for all of its files" OFF)
if(INLAY_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ would collect its garbage among all that is precompiled, in a tenth of its time; it is done before there is 1 GB.
  add_compile_options(--param=ggc-min-heapsize=1000000)
endif()
function(inlay_precompile target)
  if(INLAY_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <inlay/inlay.hpp> <inlay/cpu.hpp>
      <algorithm> <array> <cmath> <fstream> <functional> <map> <memory> <optional> <span> <sstream> <string> <vector> ${ARGN})
  endif()
endfunction()

# Hides nothing: one header, and of a library's files those alone begin with it that include it themselves.
option(INLAY_PRECOMPILE_INCLUDED "Read a header once for those files of a library that include it" OFF)
function(inlay_precompile_included target header)
  if(NOT INLAY_PRECOMPILE_INCLUDED)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/included.py ${header} ${sources}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE others COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" others "${others}")
  set_source_files_properties(${others} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_precompile_headers(${target} PRIVATE <${header}>)
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
  set(found "")
  set(missing "")
  foreach(source IN LISTS ARGN)
    if(source MATCHES "^${PROJECT_BINARY_DIR}/")  # a made one
      file(RELATIVE_PATH path ${CMAKE_CURRENT_BINARY_DIR} ${source})
    else()
      file(REAL_PATH ${source} path)
      file(RELATIVE_PATH path ${CMAKE_CURRENT_SOURCE_DIR} ${path})
    endif()
    string(REPLACE "../" "__/" path ${path})
    set(object ${INLAY_PLAIN_BUILD}/${room}/CMakeFiles/${target}.dir/${path}.o)
    if(EXISTS ${object})
      list(APPEND found ${object})
    else()
      list(APPEND missing ${source})
    endif()
  endforeach()
  set(${objects} ${found} PARENT_SCOPE)
  set(${sources} ${missing} PARENT_SCOPE)
endfunction()

function(inlay_add_reference)
  list(TRANSFORM INLAY_OPS REPLACE "(.+)" "reference/\\1.cpp" OUTPUT_VARIABLE sources)
  add_library(inlay_reference STATIC)
  inlay_compile(inlay_reference ${sources})
  target_link_libraries(inlay_reference PUBLIC inlay_core)
  target_include_directories(inlay_reference PRIVATE ${PROJECT_SOURCE_DIR})
  inlay_precompile(inlay_reference)
  inlay_warnings(inlay_reference)
endfunction()

# The flags of each level. Order and names follow include/inlay/core/isa.hpp.
set(INLAY_LEVELS scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND INLAY_LEVELS avx2 avx512 avx512_vnni avx512_bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  list(APPEND INLAY_LEVELS neon neon_dotprod neon_i8mm)
endif()
set(inlay_flags_scalar)
# GCC's generic tuning spills addresses to vector registers, and on Zen 4 fetching them back waits in line
# behind the fma: 15% of decode attention. (Its tuning for Zen 3 does so too.)
set(inlay_flags_avx2 -mavx2 -mfma -mf16c $<$<CXX_COMPILER_ID:GNU>:-mtune=haswell>)
set(inlay_flags_avx512 ${inlay_flags_avx2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(inlay_flags_avx512_vnni ${inlay_flags_avx512} -mavx512vnni)
set(inlay_flags_avx512_bf16 ${inlay_flags_avx512_vnni} -mavx512bf16)
set(inlay_flags_neon)
set(inlay_flags_neon_dotprod -march=armv8.2-a+dotprod)
set(inlay_flags_neon_i8mm -march=armv8.2-a+dotprod+i8mm)

# Kernels in sanitizer builds, which took half of CI. What null and object-size look for, ASan sees when it happens;
# addresses are the same templates at every level, and watching their arithmetic takes longest. So are scalars that may
# lie where they should not, which AVX2 watches; a vector faults there by itself (linear_w4a16: 68 -> 45 s).
function(inlay_fewer_checks target level)
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize")
    target_compile_options(${target} PRIVATE -O1)
    target_compile_definitions(${target} PRIVATE INLAY_ROLLED)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "fsanitize=address,undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size)
    if(NOT level STREQUAL "scalar")
      target_compile_options(${target} PRIVATE -fno-sanitize=pointer-overflow)
    endif()
    if(level MATCHES "^avx512")
      target_compile_options(${target} PRIVATE -fno-sanitize=alignment)
    endif()
  endif()
endfunction()

function(inlay_add_cpu)
  add_library(inlay_cpu STATIC cpu_kernels/cpu.cpp cpu_kernels/threads/threads.cpp cpu_kernels/threads/allowed.cpp)
  target_link_libraries(inlay_cpu PUBLIC inlay_core PRIVATE Threads::Threads)
  target_include_directories(inlay_cpu PRIVATE ${PROJECT_SOURCE_DIR})
  inlay_warnings(inlay_cpu)
  foreach(level IN LISTS INLAY_LEVELS)
    set(ops ${INLAY_OPS})
    if(DEFINED INLAY_OPS_${level})
      set(ops ${INLAY_OPS_${level}})
    endif()
    if(INLAY_KERNELS)
      string(REPLACE ";" "|" wanted "${INLAY_KERNELS}")
      list(FILTER ops INCLUDE REGEX "^(${wanted})$")
    endif()
    list(TRANSFORM ops REPLACE "(.+)" "cpu_kernels/\\1.cpp" OUTPUT_VARIABLE sources)
    list(APPEND sources cpu_kernels/support/limits.cpp)
    inlay_plain_objects(objects sources inlay_cpu_${level} ${sources})
    target_sources(inlay_cpu PRIVATE ${objects})
    if(NOT sources)
      continue()
    endif()
    add_library(inlay_cpu_${level} OBJECT ${sources})
    target_link_libraries(inlay_cpu_${level} PRIVATE inlay_inline)
    target_compile_definitions(inlay_cpu_${level} PRIVATE INLAY_LEVEL=${level})
    # -O2 and no exceptions even in a debug build: an inline function that is left out of line here
    # would be an ISA-specific body for the whole program (tests/core/weak_symbols.cmake).
    target_compile_options(inlay_cpu_${level} PRIVATE
      ${inlay_flags_${level}} -O2 -fno-exceptions -fno-math-errno -fno-trapping-math)
    inlay_warnings(inlay_cpu_${level})
    inlay_fewer_checks(inlay_cpu_${level} ${level})
    target_sources(inlay_cpu PRIVATE $<TARGET_OBJECTS:inlay_cpu_${level}>)
  endforeach()
endfunction()

# inlay::cl: the OpenCL kernels, their text embedded, and what launches them.
function(inlay_add_cl)
  find_package(OpenCL REQUIRED)
  find_package(nlohmann_json REQUIRED)
  file(GLOB rooms RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS cl_kernels/*/*.cpp)
  list(TRANSFORM INLAY_OPS REPLACE "(.+)" "cl_kernels/\\1.cpp" OUTPUT_VARIABLE launchers)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS cl_kernels/*.clh)
  file(GLOB_RECURSE kernels RELATIVE ${PROJECT_SOURCE_DIR}/cl_kernels CONFIGURE_DEPENDS cl_kernels/*.cl)
  list(TRANSFORM kernels REPLACE "\\.cl$" "" OUTPUT_VARIABLE stems)
  list(TRANSFORM kernels PREPEND ${PROJECT_SOURCE_DIR}/cl_kernels/)
  set(embedded ${PROJECT_BINARY_DIR}/cl_sources.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_cl.cmake)
  add_custom_command(OUTPUT ${embedded} DEPENDS ${kernels} ${headers} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} "-DSTEMS=${stems}" -DOUTPUT=${embedded} -P ${script})
  add_library(inlay_cl STATIC)
  inlay_compile(inlay_cl cl_kernels/cl.cpp ${rooms} ${launchers})
  target_sources(inlay_cl PRIVATE ${embedded})  # another build may have other operators
  # The JSON library is headers, which a tuning file is read with: the package does without.
  target_link_libraries(inlay_cl PUBLIC inlay_core OpenCL::OpenCL PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  target_compile_definitions(inlay_cl PUBLIC CL_TARGET_OPENCL_VERSION=300 INLAY_HAS_CL PRIVATE CL_USE_DEPRECATED_OPENCL_1_2_APIS)
  target_include_directories(inlay_cl PRIVATE ${PROJECT_SOURCE_DIR})
  inlay_precompile(inlay_cl)
  inlay_warnings(inlay_cl)
endfunction()

# inlay::npu: the tile programs, over the tile machine. Its functional mode multiplies with the CPU's vectors.
function(inlay_add_npu)
  set(host npu_kernels/backend/host/product.cpp)
  file(GLOB_RECURSE sources RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS npu_kernels/*.cpp)
  list(REMOVE_ITEM sources ${host})
  file(GLOB devices CONFIGURE_DEPENDS tile_machine/devices/*.json)
  list(TRANSFORM devices REPLACE "^.*/(.+)\\.json$" "\\1" OUTPUT_VARIABLE names)
  set(embedded ${PROJECT_BINARY_DIR}/npu_descriptions.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_devices.cmake)
  add_custom_command(OUTPUT ${embedded} DEPENDS ${devices} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} "-DNAMES=${names}" -DOUTPUT=${embedded} -P ${script})
  add_library(inlay_npu STATIC)
  inlay_compile(inlay_npu ${sources} ${embedded})
  target_link_libraries(inlay_npu PUBLIC inlay_tile_machine PRIVATE inlay_cpu)
  inlay_precompile(inlay_npu <tile_machine/run/machine.hpp>)
  inlay_precompile_included(inlay_npu tile_machine/run/core.hpp)
  inlay_warnings(inlay_npu)
  foreach(level IN LISTS INLAY_LEVELS)
    # The products are f32: a level that adds instructions for some operators only has none of its own, and
    # without vectors the machine's plain loop does it (arithmetic/multiply_host.cpp).
    if(NOT DEFINED INLAY_OPS_${level} AND NOT level STREQUAL "scalar")
      add_library(inlay_npu_${level} OBJECT ${host})
      target_link_libraries(inlay_npu_${level} PRIVATE inlay_inline)
      target_compile_definitions(inlay_npu_${level} PRIVATE INLAY_LEVEL=${level})
      target_compile_options(inlay_npu_${level} PRIVATE
        ${inlay_flags_${level}} -O2 -fno-exceptions -fno-math-errno -fno-trapping-math)
      inlay_warnings(inlay_npu_${level})
      target_sources(inlay_npu PRIVATE $<TARGET_OBJECTS:inlay_npu_${level}>)
    endif()
  endforeach()
endfunction()

function(inlay_install)
  install(DIRECTORY include/inlay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
  install(DIRECTORY cpu_kernels DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/inlay_kernels FILES_MATCHING PATTERN "*.hpp")
  install(DIRECTORY npu_kernels tile_machine DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/inlay_kernels FILES_MATCHING PATTERN "*.hpp")
  install(DIRECTORY tile_machine/devices DESTINATION ${CMAKE_INSTALL_DATADIR}/inlay FILES_MATCHING PATTERN "*.json")
  set(targets inlay_core inlay_inline inlay_reference inlay_cpu inlay_tile_machine inlay_npu)
  if(TARGET inlay_cl)
    list(APPEND targets inlay_cl)
  endif()
  if(TARGET inlay_exec)
    list(APPEND targets inlay_text inlay_model inlay_exec)
  endif()
  foreach(target IN LISTS targets)
    string(REPLACE "inlay_" "" short ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${short})
    if(NOT PROJECT_IS_TOP_LEVEL)  # as an installed package's are: the headers of others
      get_target_property(headers ${target} INTERFACE_INCLUDE_DIRECTORIES)
      if(headers)
        set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${headers}")
      endif()
    endif()
  endforeach()
  install(TARGETS ${targets} EXPORT InlayTargets)
  install(EXPORT InlayTargets NAMESPACE inlay:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Inlay)
  include(CMakePackageConfigHelpers)
  configure_package_config_file(cmake/InlayConfig.cmake.in ${PROJECT_BINARY_DIR}/InlayConfig.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Inlay PATH_VARS CMAKE_INSTALL_DATADIR)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/InlayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/InlayConfig.cmake ${PROJECT_BINARY_DIR}/InlayConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Inlay)
endfunction()
