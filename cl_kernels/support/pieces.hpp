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

inline Pieces pieces_of(const Cl& cl, Tunable piece, index dim) {
  const index length = cl.runtime().tuned(piece);
  return {length, groups_of(dim, length)};
}

}  // namespace inlay::cl
