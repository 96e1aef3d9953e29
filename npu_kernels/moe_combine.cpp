// y[t,:] = sum_j weights[t,j] * x[rows[t,j],:] + sigmoid(shared_gate[t]) * shared[t,:]
//
//   scalar   rows[t,j]     load_vector   a row of x for each token, choice after choice     vector   sum += weight *
//   rows
//                          load_vector   weights, shared, shared_gate                       store    y
#include <inlay/ops/moe_combine.hpp>

#include <algorithm>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/sigmoid.hpp"
#include "npu_kernels/rows/tiles.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

struct CombineOperands {
  rows::Grid grid{};
  NdTensor x{}, rows{}, weights{}, shared{}, shared_gate{}, y{};
  bool shares = false, gates = false;
  index top_k = 1;

  rows::Need need() const {
    rows::Need all = rows::Need().input(x.first.dtype).output(y.first.dtype).spare();
    if (shares) all.input(x.first.dtype);
    all.columns = 2 * round_up(top_k, index{8}) + 48;
    return all;
  }
};

class Combine {
 public:
  Combine(Core& core, const CombineOperands& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid, op.need()),
        x_(core.ring("x", Space::vector, walk_.tile(), op.x.first.dtype,
                     {rows::slots, Pipe::load_vector, Pipe::vector})),
        wide_(core.alloc("x in f32", Space::vector, walk_.tile(), DType::f32)),
        sum_(core.alloc("sum", Space::vector, walk_.tile(), DType::f32)),
        weights_(core, "weights", walk_, DType::f32, Shape{walk_.tile().rows, std::max<index>(2, op.top_k)},
                 [&op](const rows::Window& w) { return op.weights.slice(0, w.row, w.rows); }),
        y_(core, "y", walk_, op.y) {
    if (op.shares) shared_.emplace(core, "shared", walk_, rows::planes_of(op.shared));
    if (op.gates) {
      gate_.emplace(core, "shared_gate", walk_, op.shared_gate.first.dtype, Shape{walk_.tile().rows, 1},
                    [&op](const rows::Window& w) { return op.shared_gate.slice(0, w.row, w.rows); });
      spare_ = core.alloc("1 + e", Space::vector, {walk_.tile().rows, 1}, DType::f32);
    }
  }

  void run() {
    for (index step = 0; step < walk_.steps(); ++step) {
      const rows::Window window = walk_.at(step);
      const Tensor weights = weights_.next(), sum = window.of(sum_);
      for (index j = 0; j < op_.top_k; ++j) {
        load(window, j);
        const Tensor x = window.of(x_.wait()), product = j == 0 ? sum : window.of(wide_);
        core_.vcast(product, x);
        x_.release();
        core_.vbinary(VectorOp::mul, product, product, weights.slice(0, window.rows, j, 1));
        if (j > 0) core_.vbinary(VectorOp::add, sum, sum, product);
      }
      weights_.done();
      if (shared_) add_shared(window, sum);
      y_.store(window, sum);
    }
  }

 private:
  void load(const rows::Window& window, index j) {
    const Tensor tile = window.of(x_.acquire());
    const NdTensor row = op_.x.slice(0, 0, 1).slice(1, window.column, window.columns);
    for (index r = 0; r < window.rows; ++r)
      core_.copy_row(by_axes(tile.row_slice(r, 1)), row,
                     NamedRow::of(op_.x, op_.rows.at(0, window.row + r).matrix(), j));
    x_.commit();
  }

  void add_shared(const rows::Window& window, const Tensor& sum) {
    const Tensor shared = shared_->wide();
    if (gate_) {
      const Tensor gate = gate_->wide();
      rows::sigmoid(core_, gate, window.column_of(spare_));
      core_.vbinary(VectorOp::mul, shared, shared, gate);
      gate_->done();
    }
    core_.vbinary(VectorOp::add, sum, sum, shared);
    shared_->done();
  }

  Core& core_;
  const CombineOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  Ring x_;
  const Tensor wide_, sum_;
  rows::Input weights_;
  rows::Output y_;
  std::optional<rows::Input> shared_, gate_;
  Tensor spare_;
};

}  // namespace

Program program(GlobalMemory& memory, const MoeCombine<Host>& op, const Choices&) {
  CombineOperands operands{.grid = {.rows = op.y.extents[0], .columns = op.y.extents[1]},
                           .x = memory.bind("x", op.x),
                           .rows = memory.bind("rows", op.rows),
                           .weights = memory.bind("weights", op.weights),
                           .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                           .shares = op.shared.present(),
                           .gates = op.shared_gate.present(),
                           .top_k = op.rows.extents[1]};
  if (operands.shares) operands.shared = memory.bind("shared", op.shared);
  if (operands.gates) operands.shared_gate = memory.bind("shared_gate", op.shared_gate);
  const auto read = static_cast<std::uint64_t>(byte_size(op.x.dtype, op.y.size() * operands.top_k));
  return {.body = [operands](Core& core) { Combine(core, operands).run(); },
          .problem = {.bytes = read + rows::bytes_of(op.rows, op.weights, op.shared, op.shared_gate, op.y)},
          .launch = {
              .cores = rows::cores_of(memory, {.rows = op.y.extents[0], .columns = op.y.extents[1] * operands.top_k})}};
}

template struct Operator<MoeCombine<Host>>;

}  // namespace inlay::npu
