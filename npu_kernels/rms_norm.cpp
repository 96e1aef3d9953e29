// r = x + residual, rounded to their type, or x
// y = cast(r / sqrt(mean(r^2) + eps)) * (weight + offset), for each head of a row; in int8 with a scale for each row
//
//   load_vector   x, residual     vector   the sum of squares, then the products     store   y, residual, y_scale
//
// A head that fits into the memory is there from its load to its store. Of a longer one the pieces come again for each
// sweep: one for the sum of squares, with int8 one for the largest, one for what is stored.
#include <inlay/ops/rms_norm.hpp>

#include <limits>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct RmsNormOperands {
  rows::Grid grid{};
  NdTensor x{}, residual{}, weight{}, y{}, y_scale{};
  bool adds, casts, int8, narrow;  // narrow: the product with the weights is of x's type, 16 bits
  float eps, offset;

  rows::Need need() const {
    const DType type = x.first.dtype;
    rows::Need all = rows::Need().input(type).output(y.first.dtype).row(weight.first.dtype).spare();
    if (adds) all.input(type).output(type);
    if (type != DType::f32) all.spare(type);
    all.columns = 6;
    return all;
  }
};

class RmsNormProgram {
 public:
  RmsNormProgram(Core& core, const RmsNormOperands& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid, op.need(), {.sweeps = op.int8 ? 3 : 2}),
        x_(core, "x", walk_, op.x),
        y_(core, "y", walk_, op.y),
        weight_(core, "weight", walk_, op.weight, op.narrow ? op.weight.first.dtype : DType::f32),
        narrow_(core.alloc("rounded", Space::vector, op.x.first.dtype == DType::f32 ? Shape{1, 2} : walk_.tile(),
                           op.x.first.dtype)),
        spare_(core.alloc("squares", Space::vector, walk_.tile(), DType::f32)),
        sums_(core.alloc("sums", Space::vector, {walk_.tile().rows, 1}, DType::f32)),
        parts_(core.alloc("parts of sums", Space::vector, {walk_.tile().rows, 1}, DType::f32)),
        finite_(core.alloc("finite", Space::vector, {walk_.tile().rows, 1}, DType::f32)),
        nan_(rows::constant(core, "nan", std::numeric_limits<float>::quiet_NaN())),
        infinity_(rows::constant(core, "infinity", infinity)) {
    if (op.adds) {
      residual_.emplace(core, "residual", walk_, op.residual);
      total_.emplace(core, "x + residual", walk_, op.residual);
    }
    if (op.int8)
      y_scale_.emplace(core, "y_scale", DType::f32, Shape{walk_.tile().rows, 1},
                       [&op](const rows::Window& window) { return op.y_scale.slice(0, window.row, window.rows); });
  }

  void run() {
    for (step_ = 0; step_ < walk_.steps(); ++step_) {
      window_ = walk_.at(step_);
      const Tensor r = values();
      if (walk_.in(step_, 0)) add_squares(r);
      if (walk_.in(step_, 1) || stores()) normalise(r);
      if (op_.int8 && walk_.in(step_, 1)) find_largest(r);
      if (stores()) store(r);
      x_.done();
    }
  }

 private:
  bool stores() const { return walk_.in(step_, op_.int8 ? 2 : 1); }
  Tensor column(const Tensor& tile) const { return window_.column_of(tile); }

  // To x's type and back.
  void round(const Tensor& r) {
    if (op_.x.first.dtype == DType::f32) return;
    core_.vcast(window_.of(narrow_), r);
    core_.vcast(r, window_.of(narrow_));
  }

  // The residual is replaced in the last sweep: those before it read what it was.
  Tensor values() {
    const Tensor r = x_.wide();
    if (!op_.adds) return r;
    core_.vbinary(VectorOp::add, r, r, residual_->wide());
    residual_->done();
    round(r);
    if (stores()) total_->store(window_, r);
    return r;
  }

  // Of each row, piece after piece: `op` within a piece, `merge` between them.
  void reduce(VectorOp op, VectorOp merge, const Tensor& to, const Tensor& of) {
    if (walk_.opens(step_)) return core_.vreduce(op, column(to), of);
    core_.vreduce(op, column(parts_), of);
    core_.vbinary(merge, column(to), column(to), column(parts_));
  }

  // sums_ becomes 1 / sqrt(mean + eps), or NaN where the sum is not finite.
  void add_squares(const Tensor& r) {
    core_.vbinary(VectorOp::mul, window_.of(spare_), r, r);
    reduce(VectorOp::reduce_sum, VectorOp::add, sums_, window_.of(spare_));
    if (!walk_.closes(step_)) return;
    const Tensor sum = column(sums_), finite = column(finite_);
    core_.vcompare(Compare::less, finite, sum, infinity);
    core_.vscalar(VectorOp::div, sum, sum, static_cast<float>(op_.grid.columns));
    core_.vscalar(VectorOp::add, sum, sum, op_.eps);
    core_.vunary(VectorOp::rsqrt, sum, sum);
    core_.vselect(sum, finite, sum, nan_);
  }

  // A row that is rounded to x's type is multiplied in it where the weights have it too: one rounding, as f32's product
  // of two 16-bit numbers is exact, and half the lanes.
  void normalise(const Tensor& r) {
    core_.vbinary(VectorOp::mul, r, r, column(sums_));
    if (op_.casts && !op_.narrow) round(r);
    if (op_.narrow) return core_.vcast(window_.of(narrow_), r);
    core_.vbinary(VectorOp::mul, r, r, weight_.at(window_, [&](const Tensor& weight) {
      if (op_.offset != 0) core_.vscalar(VectorOp::add, weight, weight, op_.offset);
    }));
  }

  // The scale of a row's codes, and NaN where anything of it is not finite: 0 * v is 0 for finite numbers only.
  void find_largest(const Tensor& v) {
    const Tensor spare = window_.of(spare_);
    if (walk_.opens(step_)) scale_ = y_scale_->into(window_, {});
    core_.vunary(VectorOp::abs, spare, v);
    reduce(VectorOp::reduce_max, VectorOp::max, scale_, spare);
    core_.vscalar(VectorOp::mul, spare, v, 0.0f);
    reduce(VectorOp::reduce_sum, VectorOp::add, finite_, spare);
    if (!walk_.closes(step_)) return;
    core_.vscalar(VectorOp::max, scale_, scale_, 0.0f);  // of no elements
    core_.vscalar(VectorOp::div, scale_, scale_, 127.0f);
    core_.vbinary(VectorOp::add, scale_, scale_, column(finite_));
    core_.vcompare(Compare::greater, column(finite_), scale_, 0.0f);
    core_.vselect(column(finite_), column(finite_), scale_, infinity_);  // a scale that is 0, or none: all codes are 0
  }

  void store(const Tensor& v) {
    if (op_.narrow) {
      core_.vbinary(VectorOp::mul, y_.open(window_), window_.of(narrow_), weight_.at(window_));
      return y_.close(window_);
    }
    if (op_.int8) core_.vbinary(VectorOp::div, v, v, column(finite_));
    y_.store(window_, v);
    if (op_.int8 && walk_.closes(step_)) y_scale_->store(window_);
  }

  Core& core_;
  const RmsNormOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  rows::Input x_;
  rows::Output y_;
  std::optional<rows::Input> residual_;
  std::optional<rows::Output> total_, y_scale_;
  rows::SharedRow weight_;
  const Tensor narrow_, spare_, sums_, parts_, finite_, nan_, infinity_;
  Tensor scale_;
  rows::Window window_;
  index step_ = 0;
};

}  // namespace

Program program(GlobalMemory& memory, const RmsNorm<Host>& op, const Choices&) {
  const index dim = op.weight.extents[0];
  const auto heads_of = [&](const NdTensor& rows) {
    return op.heads == 1 ? rows::planes_of(rows) : rows::planes_of(rows.split(1, dim));
  };
  RmsNormOperands operands{.x = heads_of(memory.bind("x", op.x)),
                           .weight = memory.bind("weight", op.weight),
                           .y = heads_of(memory.bind("y", op.y, Use::out)),
                           .adds = op.residual.present(),
                           .casts = op.weight_offset == 0 && op.y.dtype != DType::i8,
                           .int8 = op.y.dtype == DType::i8,
                           .narrow = op.weight_offset == 0 && op.y.dtype == op.weight.dtype && op.y.dtype != DType::f32,
                           .eps = op.eps,
                           .offset = op.weight_offset};
  operands.grid = {operands.x.extent(0), operands.x.extent(1), dim};
  if (operands.adds) operands.residual = heads_of(memory.bind("residual", op.residual));
  if (operands.int8) operands.y_scale = memory.bind("y_scale", op.y_scale, Use::out).split(0, 1);
  const std::uint64_t bytes = rows::bytes_of(op.x, op.weight, op.residual, op.residual, op.y, op.y_scale);
  return {.body = [operands](Core& core) { RmsNormProgram(core, operands).run(); },
          .problem = {.bytes = bytes},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<RmsNorm<Host>>;

}  // namespace inlay::npu
