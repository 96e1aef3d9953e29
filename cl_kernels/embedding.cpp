#include <inlay/ops/embedding.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Embedding<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Embedding<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(Tunable::embedding_lanes);
  const bool blocks = op.table.dtype == DType::u8;
  const index vocab = op.table.extents[0], dim = op.y.extents[1];
  const Grid grid{.groups = {op.y.extents[0]}, .lanes = {lanes}};
  const bool wide = op.ids.dtype == DType::i64;
  const Place place = place_of_entry<Embedding<Cl>>(cl, "ids", vocab);
  Variant variant("embedding");
  variant.number("LANES", lanes).type("Y", op.y.dtype);
  if (blocks) {
    variant.flag("BLOCKS", true).flag("ALIGNED", aligned(cl, op.y));
    return launch(cl, variant, "embedding_blocks", grid, op.table, op.table.strides[0], static_cast<int>(op.format),
                  op.ids, wide, vocab, place, op.y, op.y.strides[0], dim, op.scale);
  }
  variant.type("T", op.table.dtype).flag("ALIGNED", aligned(cl, op.table, op.y));
  return launch(cl, variant, "embedding", grid, op.table, op.table.strides[0], op.row_scale, op.ids, wide, vocab, place,
                op.y, op.y.strides[0], dim, op.scale);
}

}  // namespace inlay::cl
