# What a shared library shows (BUILD_SHARED_LIBS): what its headers declare, under the version's name, and nothing of what it
# was made with, std's templates among it. So two versions are apart in one process, whatever their symbols are called.

# inlay_exports(TARGET PATTERN..): demangled names; a space and an angle are a ?, since in quotes they were no pattern.
function(inlay_exports target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    return()
  endif()
  list(TRANSFORM ARGN PREPEND "      ")
  list(TRANSFORM ARGN APPEND "\;" OUTPUT_VARIABLE patterns)
  list(JOIN patterns "\n" patterns)
  set(map ${PROJECT_BINARY_DIR}/${target}.map)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/exports.map.in ${map} @ONLY)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

# A namespace whole: its functions, templates of any result, classes with virtual functions.
function(inlay_exports_namespace target namespace)
  inlay_exports(${target} "${namespace}::*" "*?${namespace}::*" "vtable?for?${namespace}::*" "typeinfo?*for?${namespace}::*"
    "VTT?for?${namespace}::*" "*thunk?to?${namespace}::*")
endfunction()

function(inlay_exports_of_libraries)
  inlay_exports(inlay_cpu "inlay::Cpu::*" "inlay::available_isa*" "inlay::threads*" "inlay::v[0-9]*::Threads::[!W]*"
    "inlay::default_width*" "inlay::cgroup_processors*" "inlay::read_once*" "inlay::spin_*"
    "*?inlay::cpu::compute?inlay::*" "*?inlay::cpu::scratch_bytes?inlay::*")
  inlay_exports(inlay_reference "*?inlay::reference::compute?inlay::*" "*?inlay::reference::scratch_bytes?inlay::*")
  foreach(part files tile_machine npu cl text model exec)
    if(TARGET inlay_${part})
      inlay_exports_namespace(inlay_${part} inlay)
    endif()
  endforeach()
endfunction()
