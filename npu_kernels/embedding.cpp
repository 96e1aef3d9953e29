// y[t,:] = scale * table[ids[t],:], times row_scale[ids[t]] of an i8 table; of GGUF blocks: embedding/blocks.hpp
//
//   scalar   ids[t]     load_vector   a row of the table for each     vector   one or two products     store   y
#include <inlay/ops/embedding.hpp>

#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/embedding/blocks.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

struct EmbeddingOperands {
  rows::Grid grid{};
  NdTensor table{}, row_scale{}, y{};
  Tensor ids{};
  bool scales = false;
  float scale = 1;
};

// Rows of `from` by id, one after another; elements of a column start at granules of their own, so they have two.
rows::Load rows_by_id(const EmbeddingOperands& op, const NdTensor& from) {
  return [ids = op.ids, from](Core& core, const Tensor& tile, const rows::Window& window) {
    const NdTensor row = from.slice(0, 0, 1);
    for (index r = 0; r < window.rows; ++r)
      core.copy_row(by_axes(tile.row_slice(r, 1)),
                    from.extent(1) == 1 ? row : row.slice(1, window.column, window.columns),
                    NamedRow::of(from, ids, window.row + r));
  };
}

void embedding(Core& core, const EmbeddingOperands& op) {
  const DType type = op.table.first.dtype;
  rows::Need need = rows::Need().input(type).output(op.y.first.dtype);
  need.columns = 64;  // row_scale, each of its elements at a granule
  const rows::TileIterator walk(core, op.grid, need);
  const auto all = [](const rows::Window& window) { return Shape{window.rows, window.columns}; };
  const auto one = [](const rows::Window& window) { return Shape{window.rows, 1}; };
  rows::Input table(core, "table", walk, type, walk.tile(), all, rows_by_id(op, op.table));
  std::optional<rows::Input> row_scale;
  if (op.scales)
    row_scale.emplace(core, "row_scale", walk, DType::f32, Shape{walk.tile().rows, 2}, one,
                      rows_by_id(op, op.row_scale));
  rows::Output y(core, "y", walk, op.y);

  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    const Tensor values = table.wide(), scaled = y.into(window, values);
    if (row_scale) {
      const Tensor scale = row_scale->wide();
      core.vscalar(VectorOp::mul, scale, scale, op.scale);
      core.vbinary(VectorOp::mul, scaled, values, scale);
      row_scale->done();
    } else {
      core.vscalar(VectorOp::mul, scaled, values, op.scale);
    }
    y.store(window);
    table.done();
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Embedding<Host>& op, const Choices&) {
  EmbeddingOperands operands{.grid = {.rows = op.y.extents[0], .columns = op.y.extents[1]},
                             .table = memory.bind("table", op.table),
                             .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                             .ids = memory.bind("ids", op.ids).matrix(),
                             .scales = op.row_scale.present(),
                             .scale = op.scale};
  if (operands.scales) operands.row_scale = memory.bind("row_scale", op.row_scale).split(0, 1);
  const index read = op.y.extents[0] * (byte_size(op.table.dtype, op.table.extents[1]) + (operands.scales ? 4 : 0));
  const BlockTable blocks{
      .table = operands.table, .y = operands.y.at(0, 0), .ids = operands.ids, .format = op.format, .scale = op.scale};
  const bool of_blocks = op.table.dtype == DType::u8;
  return {.body = [=](Core& core) { of_blocks ? embed_blocks(core, blocks) : embedding(core, operands); },
          .problem = {.bytes = static_cast<std::uint64_t>(read) + rows::bytes_of(op.ids, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Embedding<Host>>;

}  // namespace inlay::npu
