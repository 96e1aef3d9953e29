// How dot products of bytes are taken on a device: the ways of cl_kernels/linear/dot_*.clh.
#pragma once

#include <vector>

#include "cl_kernels/runtime/program_key.hpp"

namespace inlay::cl {

class Runtime;

struct Dot {
  const char* name = "";      // what programs define to take this way
  int value = 0;              // of the definition
  int code_bytes = 4;         // of an input, in the per-item shape
  int rows = 12, panels = 2;  // of its register tile

  // How kernels spell an input, in the per-item shape.
  const char* code_name() const { return code_bytes == 1 ? "char" : code_bytes == 2 ? "short" : "float"; }
  ProgramKey& define(ProgramKey& key) const { return *name != '\0' ? key.number(name, value) : key; }
};

// The ways that probes confirm, the best one first; the last is what every OpenCL C has, and the only one where options
// say so.
std::vector<Dot> dot_ways(Runtime& runtime);
// The first of them: the others are not probed.
Dot best_dot(Runtime& runtime);

}  // namespace inlay::cl
