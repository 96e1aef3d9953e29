// Rows of operators that compute every element from its peers are cut into pieces, one group each: a decode step has
// one long row, and all of the device is to work on it.
#pragma once

#include <inlay/core/view.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

struct Pieces {
  index length;  // a multiple of every vector width
  index count;   // of a row
};

inline Pieces pieces_of(const Cl& cl, index dim) {
  // Some microseconds of memory traffic for a thread of a CPU; two vectors of eight for each of 128 work-items.
  const index length = cl.runtime().cpu_shape() ? 16384 : 2048;
  return {length, groups_of(dim, length)};
}

}  // namespace inlay::cl
