# Which room includes which: a room is a folder, and an edge that no row below allows fails the test.
#
#   cmake -DSOURCE=<the project> -P include_edges.cmake
#
# Rows: a room, then the rooms that it may include besides itself. `face` are the headers right in
# include/inlay/; executor/<room> belongs to the room of its faces, include/inlay/<room>.
cmake_minimum_required(VERSION 3.22)
set(rows
  "core        |"
  "files       | core"
  "ops         | core"
  "weights     | core ops"
  "text        | core"
  "model       | core ops weights text files"
  "exec        | core ops weights text model face files"
  "face        | core ops weights cpu_kernels"
  "reference   | core ops"
  "cpu_kernels | core ops face"
  "cl_kernels  | core ops face files"
  "tile_machine | core files"
  "npu_kernels | core ops face cpu_kernels tile_machine"
  "bindings    | core ops weights text model exec face"
  "shapes      | core ops weights"
  "measure     | core ops face npu_kernels tile_machine shapes"
  "bench       | core ops weights text model exec face cpu_kernels npu_kernels tile_machine measure shapes"
  "tools       | core ops weights text model exec face measure cl_kernels npu_kernels tile_machine files shapes bindings"
  "tests       | core ops weights text model exec face cpu_kernels cl_kernels npu_kernels tile_machine measure tools files shapes bindings")

foreach(row IN LISTS rows)
  string(REGEX MATCHALL "[a-z_]+" names "${row}")
  list(POP_FRONT names room)
  list(APPEND rooms ${room})
  set(allowed_${room} ${room} ${names})
endforeach()

# The room of a path: of a file below SOURCE, or as an #include writes it.
function(room_of path result)
  string(REGEX REPLACE "^include/" "" path "${path}")
  if(path MATCHES "^inlay/[^/]*$")
    set(room face)
  elseif(path MATCHES "^tile_machine/tests/")
    set(room tests)
  else()
    string(REGEX REPLACE "^(inlay|executor)/" "" path "${path}")
    string(REGEX REPLACE "/.*" "" room "${path}")
  endif()
  set(${result} ${room} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE sources RELATIVE ${SOURCE}
  ${SOURCE}/include/*.hpp ${SOURCE}/executor/*.[hc]pp ${SOURCE}/reference/*.[hc]pp ${SOURCE}/files/*.[hc]pp ${SOURCE}/*_kernels/*.[hc]pp ${SOURCE}/tile_machine/*.[hc]pp
  ${SOURCE}/bindings/*.[hc]pp ${SOURCE}/shapes/*.hpp ${SOURCE}/measure/*.[hc]pp ${SOURCE}/bench/*.[hc]pp ${SOURCE}/tools/*.[hc]pp ${SOURCE}/tests/*.[hc]pp)
set(edges 0)
foreach(source IN LISTS sources)
  room_of(${source} room)
  if(NOT room IN_LIST rooms)
    message(SEND_ERROR "${source}: the room ${room} has no row in tests/core/include_edges.cmake")
    continue()
  endif()
  file(STRINGS ${SOURCE}/${source} lines REGEX "^ *#include [<\"][a-z_]+/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^ *#include [<\"]([^>\"]+).*" "\\1" included "${line}")
    room_of(${included} target)
    if(NOT target IN_LIST rooms)
      continue()  # sys/mman.h, benchmark/benchmark.h
    endif()
    math(EXPR edges "${edges} + 1")
    if(NOT target IN_LIST allowed_${room})
      string(JOIN " " allowed ${allowed_${room}})
      message(SEND_ERROR "${source} includes ${included}: ${room} may include ${allowed}")
    endif()
  endforeach()
endforeach()
if(edges LESS 500)
  message(SEND_ERROR "only ${edges} includes between rooms were found: the search is broken")
endif()
