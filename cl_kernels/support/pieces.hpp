// Rows of operators that compute every element from its peers are cut into pieces, one group each: a decode step has
// one long row, and all of the device is to work on it.
#pragma once

#include <inlay/core/view.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

struct PieceTunables {
  Tunable lanes, piece, width;
};

// y = f(x, up), row by row: the kernel `name` of the program of that name. `more`: its arguments behind these.
template <class... More>
Status launch_by_pieces(Cl& cl, const char* name, const PieceTunables& tunables, const ConstView<2, Cl>& x,
                        const ConstView<2, Cl>& up, const View<2, Cl>& y, const More&... more) {
  const Runtime& runtime = cl.runtime();
  const int lanes = runtime.lanes(tunables.lanes);
  const index dim = y.extents[1], piece = runtime.tuned(tunables.piece);  // a multiple of every vector width
  const Variant variant = Variant(name)
                              .number("LANES", lanes)
                              .number("WIDTH", runtime.tuned(tunables.width))
                              .type("T", y.dtype)
                              .flag("ALIGNED", aligned(cl, x, up, y));
  return launch(cl, variant, name, {.groups = {y.extents[0], groups_of(dim, piece)}, .lanes = {lanes}}, x, x.strides[0],
                up, up.strides[0], y, y.strides[0], dim, piece, more...);
}

}  // namespace inlay::cl
