// Rows of operators that compute every element from its peers are cut into pieces, one group each: a decode step has
// one long row, and all of the device is to work on it.
#pragma once

#include <inlay/core/view.hpp>

#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

struct PieceTunables {
  const ClParameter &lanes, &piece, &width;
};

// How y = f(x, up) is started, row by row: the kernel has the name of its program.
struct ByPieces {
  ProgramKey key;
  Grid grid;
  index piece;  // a multiple of every vector width

  ByPieces(const Cl& cl, const char* name, const PieceTunables& tunables, const ConstView<2, Cl>& x,
           const ConstView<2, Cl>& up, const View<2, Cl>& y)
      : key(name), piece(cl.runtime().tuned(tunables.piece)) {
    const int lanes = cl.runtime().lanes(tunables.lanes);
    key.number("LANES", lanes)
        .number("WIDTH", cl.runtime().tuned(tunables.width))
        .type("T", y.dtype)
        .flag("ALIGNED", aligned(cl, x, up, y));
    grid = {.groups = {y.extents[0], groups_of(y.extents[1], piece)}, .lanes = {lanes}};
  }
};

}  // namespace inlay::cl
