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
    all.columns = 48;
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
        column_{walk_.tile().rows, 1},
        granules_{walk_.tile().rows, 2},
        rows_(core.ring<2>("rows", {form("rows of x", walk_.tile(), op.x.first.dtype), form("weights", granules_)},
                           {rows::slots, Pipe::load_vector, Pipe::vector})),
        wide_(core.alloc("x in f32", Space::vector, walk_.tile(), DType::f32)),
        sum_(core.alloc("sum", Space::vector, walk_.tile(), DType::f32)),
        y_(core, "y", walk_, op.y) {
    if (op.shares)
      shared_.emplace(core.ring<2>("shared",
                                   {form("shared", walk_.tile(), op.x.first.dtype),
                                    form("shared_gate", granules_, op.gates ? op.shared_gate.first.dtype : DType::f32)},
                                   {rows::slots_beside, Pipe::load_vector, Pipe::vector}));
    if (op.gates)
      gate_ = core.alloc("gate in f32", Space::vector, column_, DType::f32),
      sigmoid_ = core.alloc("sigmoid", Space::vector, column_, DType::f32),
      spare_ = core.alloc("1 + e", Space::vector, column_, DType::f32);
  }

  void run() {
    for (index step = 0; step < walk_.steps(); ++step) {
      const rows::Window window = walk_.at(step);
      const Tensor sum = window.of(sum_);
      for (index j = 0; j < op_.top_k; ++j) {
        load_until(step * op_.top_k + j + rows::slots);
        const auto [x, weights] = rows_.wait();
        const Tensor product = j == 0 ? sum : window.of(wide_);
        core_.vcast(product, window.of(x));
        core_.vbinary(VectorOp::mul, product, product, window.column_of(weights));
        rows_.release();
        if (j > 0) core_.vbinary(VectorOp::add, sum, sum, product);
      }
      if (shared_) add_shared(window, sum);
      y_.store(window, sum);
    }
  }

 private:
  static TileForm form(std::string_view name, Shape shape, DType dtype = DType::f32) {
    return {name, Space::vector, shape, dtype, Layout::nd};
  }

  // Choices are under way before they are waited for: those of one step, then of the next.
  void load_until(index end) {
    for (; loaded_ < std::min(end, walk_.steps() * op_.top_k); ++loaded_) {
      const rows::Window window = walk_.at(loaded_ / op_.top_k);
      const index j = loaded_ % op_.top_k;
      const auto [tile, weights] = rows_.acquire();
      const NdTensor row = op_.x.slice(0, 0, 1).slice(1, window.column, window.columns);
      for (index r = 0; r < window.rows; ++r)
        core_.copy_row(by_axes(window.of(tile).row_slice(r, 1)), row,
                       NamedRow::of(op_.x, op_.rows.at(0, window.row + r).matrix(), j));
      core_.copy(by_axes(window.column_of(weights)), op_.weights.slice(0, window.row, window.rows).slice(1, j, 1));
      rows_.commit();
    }
  }

  void add_shared(const rows::Window& window, const Tensor& sum) {
    const auto [to, gates] = shared_->acquire();
    core_.copy(by_axes(window.of(to)),
               op_.shared.slice(0, window.row, window.rows).slice(1, window.column, window.columns));
    if (op_.gates) core_.copy(by_axes(window.column_of(gates)), op_.shared_gate.slice(0, window.row, window.rows));
    shared_->commit();
    const auto [from, logits] = shared_->wait();
    const Tensor shared = window.of(wide_);
    core_.vcast(shared, window.of(from));
    if (op_.gates) {
      const Tensor gate = window.column_of(gate_), sigmoid = window.column_of(sigmoid_);
      core_.vcast(gate, window.column_of(logits));
      core_.vcast(sigmoid, gate);
      rows::sigmoid(core_, sigmoid, window.column_of(spare_));
      core_.vcompare(Compare::equal, window.column_of(spare_), gate, gate);  // a NaN, which sigmoid loses
      core_.vselect(sigmoid, window.column_of(spare_), sigmoid, gate);
      core_.vbinary(VectorOp::mul, shared, shared, sigmoid);
    }
    shared_->release();
    core_.vbinary(VectorOp::add, sum, sum, shared);
  }

  Core& core_;
  const CombineOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  const Shape column_, granules_;  // what is loaded one by one has a granule each
  TupleRing<2> rows_;
  const Tensor wide_, sum_;
  rows::Output y_;
  std::optional<TupleRing<2>> shared_;
  Tensor gate_, sigmoid_, spare_;
  index loaded_ = 0;
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
