# Writes one C++ file that holds tile_machine/devices/*.json, in parts that every compiler takes for a literal.
#
#   cmake -DROOT=<project> "-DNAMES=<a;b>" -DOUTPUT=<file> -P embed_devices.cmake

cmake_minimum_required(VERSION 3.22)

set(all "// Made by cmake/embed_devices.cmake.\n#include \"npu_kernels/backend/descriptions.hpp\"\n\n")
string(APPEND all "namespace inlay::npu {\n\nstd::span<const Description> descriptions() {\n")
string(APPEND all "  static constexpr Description table[] = {\n")
foreach(name IN LISTS NAMES)
  file(READ ${ROOT}/tile_machine/devices/${name}.json text)
  string(LENGTH "${text}" length)
  set(literals "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} 8000 part)
    string(APPEND literals "\n R\"json(${part})json\"")
    math(EXPR begin "${begin} + 8000")
  endwhile()
  string(APPEND all "      {\"${name}\",${literals}},\n")
endforeach()
string(APPEND all "  };\n  return table;\n}\n\n}  // namespace inlay::npu\n")
file(WRITE ${OUTPUT} "${all}")
