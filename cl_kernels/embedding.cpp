#include <inlay/ops/embedding.hpp>

#include "cl_kernels/embedding.clh"
#include "cl_kernels/embedding_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

template <> std::size_t scratch_bytes(Cl&, const Embedding<Cl>&) { return 0; }

template <> Status compute(Cl& cl, const Embedding<Cl>& op, const SpaceWorkspace<Cl>&) {
  const int lanes = cl.runtime().lanes(embedding_lanes);
  const bool blocks = op.table.dtype == DType::u8;
  const index vocab = op.table.extents[0], dim = op.y.extents[1];
  const Grid grid{.groups = {op.y.extents[0]}, .lanes = {lanes}};
  const bool wide = op.ids.dtype == DType::i64;
  const FaultSlot fault = entry_fault_slot<Embedding<Cl>>(cl, "ids", vocab);
  ProgramKey key("embedding");
  key.number("LANES", lanes).type("Y", op.y.dtype);
  if (blocks) {
    key.flag("BLOCKS", true).flag("OF_256", ggml_format(op.format).block == 256).flag("ALIGNED", aligned(cl, op.y));
    return launch(cl, key, "embedding_blocks", grid,
                  EmbeddingBlocksArguments{.table_stride = op.table.strides[0],
                                           .vocab = vocab,
                                           .y_stride = op.y.strides[0],
                                           .dim = dim,
                                           .format = static_cast<Int>(op.format),
                                           .wide = wide,
                                           .fault = fault,
                                           .scale = op.scale},
                  {{"table", op.table}, {"ids", op.ids}, {"y", op.y}, faults_of(cl)});
  }
  key.type("T", op.table.dtype).flag("ALIGNED", aligned(cl, op.table, op.y));
  return launch(cl, key, "embedding", grid,
                EmbeddingArguments{.table_stride = op.table.strides[0],
                                   .vocab = vocab,
                                   .y_stride = op.y.strides[0],
                                   .dim = dim,
                                   .wide = wide,
                                   .fault = fault,
                                   .scale = op.scale},
                {{"table", op.table}, {"row_scale", op.row_scale}, {"ids", op.ids}, {"y", op.y}, faults_of(cl)});
}

}  // namespace inlay::cl
