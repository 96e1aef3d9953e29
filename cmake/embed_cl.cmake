# Writes one C++ file that holds every OpenCL source, each with its includes in their places and #line directives, so that
# a compiler's message names the file and line that a person edits. A program is a list of literals that ends one at each
# #line: compilers need not take a literal beyond 65536 bytes, and the linker keeps one copy of equal ones.
#
# A program may bring the declarations of the functions that it names (tests/cl/builtins_of_pocl.py):
# -D INLAY_CL_DECLARATIONS=<FILE>.
#
#   cmake -DROOT=<project> -DSTEMS=<a;b/c> -DOUTPUT=<file> -P embed_cl.cmake

cmake_minimum_required(VERSION 3.22)

# What a list of CMake would take for its own.
string(ASCII 1 open)
string(ASCII 2 close)
string(ASCII 3 semicolon)
string(ASCII 4 backslash)
set(next_part ")cl\", R\"cl(")

# Appends the lines of `file` to `text`. A header is taken once a program.
function(flatten file)
  get_property(seen GLOBAL PROPERTY seen)
  if(file IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY seen ${file})
  file(READ ${ROOT}/${file} content)
  string(REPLACE "[" "${open}" content "${content}")
  string(REPLACE "]" "${close}" content "${content}")
  string(REPLACE ";" "${semicolon}" content "${content}")
  string(REPLACE "\\" "${backslash}" content "${content}")
  string(REPLACE "\n" ";" lines "${content}")
  set_property(GLOBAL APPEND_STRING PROPERTY text "${next_part}#line 1 \"${file}\"\n")
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(line MATCHES "^#include \"([^\"]+)\"")
      flatten(${CMAKE_MATCH_1})
      math(EXPR next "${number} + 1")
      set_property(GLOBAL APPEND_STRING PROPERTY text "${next_part}#line ${next} \"${file}\"\n")
    elseif(NOT line MATCHES "^#pragma once")
      set_property(GLOBAL APPEND_STRING PROPERTY text "${line}\n")
    else()
      set_property(GLOBAL APPEND_STRING PROPERTY text "\n")
    endif()
  endforeach()
endfunction()

set(declarations "#ifdef INLAY_CL_DECLARATIONS\n#include INLAY_CL_DECLARATIONS\n#endif\n")

set(all "// Made by cmake/embed_cl.cmake.\n#include \"cl_kernels/runtime/sources.hpp\"\n\n#include <initializer_list>\n\n")
string(APPEND all "namespace inlay::cl {\n\n")
string(APPEND all "std::string source(std::string_view stem) {\n")
string(APPEND all "  std::string all;\n")
string(APPEND all "  const auto join = [&](std::initializer_list<std::string_view> parts) {\n")
string(APPEND all "    for (const std::string_view part : parts) all += part;\n")
string(APPEND all "  };\n")
foreach(stem IN LISTS STEMS)
  set_property(GLOBAL PROPERTY seen "")
  set_property(GLOBAL PROPERTY text "")
  flatten(cl_kernels/${stem}.cl)
  get_property(text GLOBAL PROPERTY text)
  string(REPLACE "${open}" "[" text "${text}")
  string(REPLACE "${close}" "]" text "${text}")
  string(REPLACE "${semicolon}" ";" text "${text}")
  string(REPLACE "${backslash}" "\\" text "${text}")
  string(APPEND all "  if (stem == \"${stem}\") join({R\"cl(${declarations}${text})cl\"});\n")
endforeach()
string(APPEND all "  return all;\n}\n\n}  // namespace inlay::cl\n")
file(WRITE ${OUTPUT} "${all}")
