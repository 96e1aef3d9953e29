// How dot products of bytes are taken on a device: the ways of cl_kernels/linear/dot_*.clh.
#pragma once

#include <vector>

#include "cl_kernels/runtime/variant.hpp"

namespace inlay::cl {

class Runtime;

struct Dot {
  const char* name = "";      // what programs define to take this way
  int value = 0;              // of the definition
  int code_bytes = 4;         // of an input, in the cpu shape
  int rows = 12, panels = 2;  // of its register tile

  Variant& define(Variant& variant) const { return *name != '\0' ? variant.number(name, value) : variant; }
};

// The ways that probes confirm, the best one first; the last is what every OpenCL C has, and the only one where options
// say so.
std::vector<Dot> dot_ways(Runtime& runtime);
// The first of them: the others are not probed.
Dot best_dot(Runtime& runtime);

}  // namespace inlay::cl
