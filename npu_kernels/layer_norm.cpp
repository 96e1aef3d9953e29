// r = x + residual, rounded to their type, or x
// y = (r - m) / sqrt(v + eps) * weight + bias, m and v the mean and the variance of a row
//
//   load_vector   x, residual     vector   two sums for the mean, one for the variance, the result     store   y,
//   residual
//
// The mean is taken twice: of r, and of what is left of r without it, for the first sum of a row of large mean is off
// by more than its numbers differ. f32 and bf16 are divided in between by the largest that is left of their row, or by
// the root of eps where that is more: no square leaves f32 then, and the divided eps is at most 1. Halves of them are
// worked with, as their differences may be beyond f32, and where eps is next to nothing whole ones of rows that allow
// it: subnormal numbers have no halves.
//
// A row that fits into the memory is there from its load to its store. Of a longer one the pieces come again for each
// of the four sweeps.
#include <inlay/ops/layer_norm.hpp>

#include <cmath>
#include <limits>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

struct LayerNormOperands {
  rows::Grid grid{};
  NdTensor x{}, residual{}, weight{}, bias{}, y{};
  bool adds, weighs, shifts;
  float eps;

  // Of numbers in f16 no sum and no square leaves f32.
  bool divides() const { return x.first.dtype != DType::f16; }
  bool keeps_small() const { return divides() && eps < 0x1p-100f; }
  // Sweeps, of which f16 has none for the largest.
  int for_rest() const { return divides() ? 2 : 1; }
  int for_squares() const { return for_rest() + 1; }
  int for_store() const { return for_rest() + 2; }

  rows::Need need() const {
    const DType type = x.first.dtype;
    rows::Need all = rows::Need().input(type).output(type).spare();
    if (adds) all.input(type).output(type).spare(type);
    if (weighs) all.row(weight.first.dtype);
    if (shifts) all.row(bias.first.dtype);
    all.columns = 10;
    return all;
  }
};

class LayerNormProgram {
 public:
  LayerNormProgram(Core& core, const LayerNormOperands& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid, op.need(), {.sweeps = op.for_store() + 1}),
        x_(core, "x", walk_, op.x),
        y_(core, "y", walk_, op.y),
        spare_(core.alloc("squares", Space::vector, walk_.tile(), DType::f32)),
        center_(column("centers")),
        rest_(column("rests")),
        scale_(column("scales")),
        parts_(column("parts of sums")) {
    if (op.divides()) largest_ = column("largest"), eps_ = column("divided eps");
    if (op.keeps_small())
      half_ = column("halves"), fits_ = column("rows that fit"), one_ = rows::constant(core, "1", 1),
      one_half_ = rows::constant(core, "1/2", 0.5f);
    if (op.weighs) weight_.emplace(core, "weight", walk_, op.weight);
    if (op.shifts) bias_.emplace(core, "bias", walk_, op.bias);
    if (op.adds) {
      rounded_ = core.alloc("rounded", Space::vector, walk_.tile(), op.x.first.dtype);
      residual_.emplace(core, "residual", walk_, op.residual);
      total_.emplace(core, "x + residual", walk_, op.residual);
    }
  }

  void run() {
    for (step_ = 0; step_ < walk_.steps(); ++step_) {
      window_ = walk_.at(step_);
      const Tensor r = values();
      if (walk_.in(step_, 0)) take_center(r);
      if (reaches(1)) subtract_center(r);
      if (op_.divides() && walk_.in(step_, 1)) take_largest(r);
      if (op_.divides() && reaches(op_.for_rest())) core_.vbinary(VectorOp::div, r, r, of_rows(largest_));
      if (walk_.in(step_, op_.for_rest())) take_mean(rest_, r);
      if (reaches(op_.for_squares())) core_.vbinary(VectorOp::sub, r, r, of_rows(rest_));
      if (walk_.in(step_, op_.for_squares())) take_scale(r);
      if (stores()) store(r);
      x_.done();
    }
  }

 private:
  Tensor column(std::string_view name) { return core_.alloc(name, Space::vector, {walk_.tile().rows, 1}, DType::f32); }
  Tensor of_rows(const Tensor& column) const { return window_.column_of(column); }
  bool stores() const { return walk_.in(step_, op_.for_store()); }
  // Is the step in the sweep, or in one behind it, where the numbers have become what they do in this one?
  bool reaches(int sweep) const {
    bool reached = false;
    for (int each = sweep; each <= op_.for_store(); ++each) reached = reached || walk_.in(step_, each);
    return reached;
  }

  // The residual is replaced in the last sweep: those before it read what it was.
  Tensor values() {
    const Tensor r = x_.wide();
    if (!op_.adds) return r;
    core_.vbinary(VectorOp::add, r, r, residual_->wide());
    residual_->done();
    if (op_.x.first.dtype != DType::f32) {
      core_.vcast(window_.of(rounded_), r);
      core_.vcast(r, window_.of(rounded_));
    }
    if (stores()) total_->store(window_, r);
    return r;
  }

  // Of each row, piece after piece: `op` within a piece, `merge` between them.
  void reduce(VectorOp op, VectorOp merge, const Tensor& to, const Tensor& of) {
    if (walk_.opens(step_)) return core_.vreduce(op, of_rows(to), of);
    core_.vreduce(op, of_rows(parts_), of);
    core_.vbinary(merge, of_rows(to), of_rows(to), of_rows(parts_));
  }
  // Whether it is complete, and then divided.
  bool take_mean(const Tensor& to, const Tensor& of) {
    reduce(VectorOp::reduce_sum, VectorOp::add, to, of);
    if (!walk_.closes(step_)) return false;
    core_.vscalar(VectorOp::div, of_rows(to), of_rows(to), static_cast<float>(op_.grid.columns));
    return true;
  }

  void take_center(const Tensor& r) {
    if (!op_.divides()) return void(take_mean(center_, r));
    const Tensor spare = window_.of(spare_);
    core_.vscalar(VectorOp::mul, spare, r, 1 / static_cast<float>(op_.grid.columns));
    reduce(VectorOp::reduce_sum, VectorOp::add, center_, spare);
    if (op_.keeps_small()) {
      core_.vunary(VectorOp::abs, spare, r);
      reduce(VectorOp::reduce_max, VectorOp::max, fits_, spare);
    }
    if (!walk_.closes(step_)) return;
    if (!op_.keeps_small()) return core_.vscalar(VectorOp::mul, of_rows(center_), of_rows(center_), 0.5f);
    core_.vcompare(Compare::less, of_rows(fits_), of_rows(fits_), 0x1p126f);
    core_.vselect(of_rows(half_), of_rows(fits_), one_, one_half_);
    core_.vbinary(VectorOp::mul, of_rows(center_), of_rows(center_), of_rows(half_));
  }
  void subtract_center(const Tensor& r) {
    if (op_.keeps_small())
      core_.vbinary(VectorOp::mul, r, r, of_rows(half_));
    else if (op_.divides())
      core_.vscalar(VectorOp::mul, r, r, 0.5f);
    core_.vbinary(VectorOp::sub, r, r, of_rows(center_));
  }

  // The largest of a row, or the root of eps, as far as that was halved; and what eps is when it is divided.
  void take_largest(const Tensor& r) {
    const Tensor spare = window_.of(spare_), largest = of_rows(largest_), eps = of_rows(eps_);
    core_.vunary(VectorOp::abs, spare, r);
    reduce(VectorOp::reduce_max, VectorOp::max, largest_, spare);
    if (!walk_.closes(step_)) return;
    core_.vfill(eps, std::sqrt(op_.eps) * (op_.keeps_small() ? 1 : 0.5f));
    if (op_.keeps_small()) core_.vbinary(VectorOp::mul, eps, eps, of_rows(half_));
    core_.vbinary(VectorOp::max, largest, largest, eps);
    core_.vbinary(VectorOp::div, eps, eps, largest);
    core_.vbinary(VectorOp::mul, eps, eps, eps);
  }

  // 1 / sqrt(variance + eps), or NaN where the variance is not finite.
  void take_scale(const Tensor& r) {
    const Tensor squares = window_.of(spare_), scale = of_rows(scale_);
    core_.vbinary(VectorOp::mul, squares, r, r);
    if (!take_mean(scale_, squares)) return;
    if (op_.divides())
      core_.vbinary(VectorOp::add, scale, scale, of_rows(eps_));
    else
      core_.vscalar(VectorOp::add, scale, scale, op_.eps);
    core_.vunary(VectorOp::rsqrt, scale, scale);
  }

  void store(const Tensor& r) {
    core_.vbinary(VectorOp::mul, r, r, of_rows(scale_));
    if (weight_) core_.vbinary(VectorOp::mul, r, r, weight_->at(window_));
    if (bias_) core_.vbinary(VectorOp::add, r, r, bias_->at(window_));
    y_.store(window_, r);
  }

  Core& core_;
  const LayerNormOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  rows::Input x_;
  rows::Output y_;
  std::optional<rows::Input> residual_;
  std::optional<rows::Output> total_;
  std::optional<rows::SharedRow> weight_, bias_;
  const Tensor spare_, center_, rest_, scale_, parts_;
  Tensor rounded_, largest_, eps_, half_, fits_, one_, one_half_;
  rows::Window window_;
  index step_ = 0;
};

}  // namespace

Program program(GlobalMemory& memory, const LayerNorm<Host>& op, const Choices&) {
  LayerNormOperands operands{.grid = {.rows = op.x.extents[0], .columns = op.x.extents[1]},
                             .x = rows::planes_of(memory.bind("x", op.x)),
                             .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                             .adds = op.residual.present(),
                             .weighs = op.weight.present(),
                             .shifts = op.bias.present(),
                             .eps = op.eps};
  if (operands.adds) operands.residual = rows::planes_of(memory.bind("residual", op.residual));
  if (operands.weighs) operands.weight = memory.bind("weight", op.weight);
  if (operands.shifts) operands.bias = memory.bind("bias", op.bias);
  return {.body = [operands](Core& core) { LayerNormProgram(core, operands).run(); },
          .problem = {.bytes = rows::bytes_of(op.x, op.weight, op.bias, op.residual, op.residual, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<LayerNorm<Host>>;

}  // namespace inlay::npu
