// r = x + residual, rounded to their type, or x
// y = cast(r / sqrt(mean(r^2) + eps)) * (weight + offset), for each head of a row; in int8 with a scale for each row
//
//   load_vector   x, residual     vector   the sum of squares, then the products     store   y, residual, y_scale
//
// Squares of f32 and bf16 may be beyond f32 or, beside an eps that is next to nothing, below what it holds. Their sum
// is taken again, of row * 2^-80 and row * 2^96, and each row has the one that is within. The scalar unit asks for it
// once a tile, and seldom; rows in pieces always pay it, as the sum is complete when the last piece has come and gone.
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
// Below it a mean may have lost squares that are too small for f32.
constexpr float least_square = 0x1p-100f;

struct RmsNormOperands {
  rows::Grid grid{};
  NdTensor x{}, residual{}, weight{}, y{}, y_scale{};
  bool adds, casts, int8, narrow;  // narrow: the product with the weights is of x's type, 16 bits
  float eps, offset;

  // Of numbers in f16 no square leaves f32. None is too small beside an eps that is not.
  bool may_be_large() const { return x.first.dtype != DType::f16; }
  bool may_be_small() const { return may_be_large() && eps < least_square; }

  rows::Need need() const {
    const DType type = x.first.dtype;
    rows::Need all = rows::Need().input(type).output(y.first.dtype).row(weight.first.dtype).spare();
    if (adds) all.input(type).output(type);
    if (type != DType::f32) all.spare(type);
    all.columns = may_be_large() ? 9 : 6;
    return all;
  }
};

// The squares of row * root^2: of a row whose own are not within f32.
struct ScaledSquares {
  float root;
  Tensor factor, sums;
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
    const auto column = [&](std::string_view name) {
      return core.alloc(name, Space::vector, {walk_.tile().rows, 1}, DType::f32);
    };
    if (op.may_be_large()) {
      roots_ = column("roots"), one_ = rows::constant(core, "1", 1);
      count_ = core.alloc("infinite means", Space::vector, {1, 2}, DType::f32).slice(0, 1, 0, 1);
      large_ = {0x1p-40f, rows::constant(core, "root of large rows", 0x1p-40f), column("sums of large rows")};
    }
    if (op.may_be_small())
      small_ = {0x1p48f, rows::constant(core, "root of small rows", 0x1p48f), column("sums of small rows")};
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

  // The mean of (r * power)^2, plus eps.
  void add_squares(const Tensor& r, const Tensor& sums, float power) {
    const Tensor squares = window_.of(spare_);
    if (power != 1) core_.vscalar(VectorOp::mul, squares, r, power);
    const Tensor& scaled = power != 1 ? squares : r;
    core_.vbinary(VectorOp::mul, squares, scaled, scaled);
    reduce(VectorOp::reduce_sum, VectorOp::add, sums, squares);
    if (!walk_.closes(step_)) return;
    core_.vscalar(VectorOp::div, column(sums), column(sums), static_cast<float>(op_.grid.columns));
    core_.vscalar(VectorOp::add, column(sums), column(sums), op_.eps * power * power);
  }
  void add_squares(const Tensor& r) {
    add_squares(r, sums_, 1);
    rescales_ = small_ || (large_ && (walk_.pieces() > 1 || any_is_infinite()));
    if (rescales_) add_squares(r, large_->sums, large_->root * large_->root);
    if (small_) add_squares(r, small_->sums, small_->root * small_->root);
    if (walk_.closes(step_)) take_scale();
  }

  // How many rows of the tile have an infinite mean: most often none, so that a log of the program holds.
  bool any_is_infinite() {
    core_.vcompare(Compare::greater_equal, column(finite_), column(sums_), infinity);
    core_.vreduce_columns(VectorOp::column_sum, count_, column(finite_));
    core_.set(Pipe::vector, Pipe::scalar, 0);
    core_.wait(Pipe::vector, Pipe::scalar, 0);
    return core_.scalar_read(count_, 0, 0) > 0;
  }

  // Where a mean is not `within` its bound, the other one.
  void replace(Compare within, float bound, const Tensor& roots, const ScaledSquares& by) {
    const Tensor mean = column(sums_), fits = column(finite_);
    core_.vcompare(within, fits, mean, bound);
    core_.vselect(mean, fits, mean, column(by.sums));
    core_.vselect(column(roots_), fits, roots, by.factor);
  }

  // sums_ becomes 1 / sqrt(mean + eps), or NaN where the mean is not finite.
  void take_scale() {
    if (rescales_) replace(Compare::less, infinity, one_, *large_);
    if (small_) replace(Compare::greater_equal, least_square, column(roots_), *small_);
    const Tensor mean = column(sums_), finite = column(finite_);
    core_.vcompare(Compare::less, finite, mean, infinity);
    core_.vunary(VectorOp::rsqrt, mean, mean);
    core_.vselect(mean, finite, mean, nan_);
    if (rescales_) core_.vbinary(VectorOp::mul, mean, mean, column(roots_));
  }

  // A row that is rounded to x's type is multiplied in it where the weights have it too: one rounding, as f32's product
  // of two 16-bit numbers is exact, and half the lanes.
  void normalise(const Tensor& r) {
    if (rescales_) core_.vbinary(VectorOp::mul, r, r, column(roots_));
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
  Tensor roots_, one_, count_, scale_;
  std::optional<ScaledSquares> large_, small_;
  rows::Window window_;
  index step_ = 0;
  bool rescales_ = false;
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
