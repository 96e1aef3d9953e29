// y = saturate(round(x / scale) + zero),   and the dynamic form, which takes the scale of a row from the row:
//
//   symmetric    scale = max|x| / 127
//   asymmetric   scale = (high - low) / 255, zero = saturate(round(lowest - low / scale))
//
//   load_vector   x, scale, zero     vector   (two reductions,) a quotient, two roundings     store   y
//
// A row that does not fit into the memory comes twice: for its scale, and for its codes.
#include <inlay/ops/quantize.hpp>

#include <limits>
#include <optional>
#include <utility>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/groups.hpp"

namespace inlay::npu {

namespace {

struct QuantizeOperands {
  rows::Grid grid{};
  NdTensor x{}, row_scale{};
  rows::Codes scale{}, zero{}, y{}, row_zero{};
  DType code{}, scales{};
  rows::Groups groups{};
  // There are zero points; codes of half a byte begin anywhere.
  bool dynamic = false, shifted = false, half = false;

  float steps() const { return bits(code) == 4 ? 15.0f : 255.0f; }
  float lowest() const { return code == DType::i8 ? -128.0f : code == DType::i4 ? -8.0f : 0.0f; }
  rows::Need need() const {
    rows::Need all = rows::Need().input(x.first.dtype).output(code);
    if (!dynamic) all.input(scales);
    if (shifted) all.input(code).spare(DType::i32);
    if (half) all.spare().spare().spare().spare().spare().spare().spare().spare();
    return all;
  }
};

// Codes on their way out: of whole bytes, or of half ones that begin anywhere.
class CodeOutput {
 public:
  CodeOutput(Core& core, std::string_view name, const rows::Codes& codes, DType code, Shape tile, rows::Part part,
             std::uint32_t depth = rows::slots_beside) {
    if (codes.half)
      half_.emplace(core, name, *codes.half, std::max<index>(2, tile.columns));
    else
      whole_.emplace(core, name, code, tile, std::move(part), depth);
  }
  void store(const rows::Window& window, const Tensor& values, index first) {
    half_ ? half_->store(first, values) : whole_->store(window, values);
  }

 private:
  std::optional<rows::Output> whole_;
  std::optional<rows::HalfByteOutput> half_;
};

CodeOutput codes_out(Core& core, const rows::TileIterator& walk, const QuantizeOperands& op) {
  return CodeOutput(
      core, "y", op.y, op.code, walk.tile(),
      [y = op.y.whole](const rows::Window& window) {
        return y.slice(0, window.row, window.rows).slice(1, window.column, window.columns);
      },
      rows::slots);
}
index first_of(const rows::Window& window, const rows::Codes& codes) {
  return codes.half ? window.row * codes.half->stride + window.column : 0;
}

// To whole numbers, NaN to zero; what is far outside of i32 is far outside of all codes.
void round(Core& core, const Tensor& x, const Tensor& whole) {
  core.vcast(whole, x);
  core.vcast(x, whole);
}

void quantize_static(Core& core, const QuantizeOperands& op) {
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const rows::TileIterator walk(core, op.grid, op.need(), rows::pattern_of(op.groups, op.half));
  rows::Input x(core, "x", walk, op.x);
  rows::GroupedInput scale(core, "scale", walk, op.scale, op.groups);
  std::optional<rows::GroupedInput> zero;
  CodeOutput y = codes_out(core, walk, op);
  Tensor whole;
  if (op.shifted) {
    zero.emplace(core, "zero", walk, op.zero, op.groups);
    whole = core.alloc("quotients", Space::vector, walk.tile(), DType::i32);
  }

  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    const Tensor values = x.wide();
    rows::combine(core, VectorOp::div, values, values, scale.wide(), op.groups);
    scale.done();
    if (zero) {
      round(core, values, window.of(whole));
      rows::combine(core, VectorOp::add, values, values, zero->wide(), op.groups);
      zero->done();
    }
    y.store(window, values, first_of(window, op.y));
    x.done();
  }
}

class DynamicQuantize {
 public:
  DynamicQuantize(Core& core, const QuantizeOperands& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid, need(op), pattern(op)),
        x_(core, "x", walk_, op.x),
        y_(codes_out(core, walk_, op)),
        row_scale_(core, "row_scale", DType::f32, {walk_.tile().rows, 1}, part(op.row_scale)),
        spare_(core.alloc("spare", Space::vector, walk_.tile(), DType::f32)),
        low_(column(DType::f32)),
        high_(column(DType::f32)),
        probe_(column(DType::f32)),
        scale_(column(DType::f32)),
        part_(column(DType::f32)),
        whole_column_(column(DType::i32)),
        none_(rows::constant(core, "zero", 0)) {
    if (!op.shifted) return;
    row_zero_.emplace(core, "row_zero", op.row_zero, op.code, Shape{walk_.tile().rows, 1}, part(op.row_zero.whole));
    whole_ = core.alloc("quotients", Space::vector, walk_.tile(), DType::i32);
  }

  void run() {
    for (step_ = 0; step_ < walk_.steps(); ++step_) {
      window_ = walk_.at(step_);
      const Tensor x = x_.wide();
      if (walk_.in(step_, 0)) {
        range(x);
        if (walk_.closes(step_)) op_.shifted ? take_zero() : take_scale();
      }
      if (walk_.in(step_, 1)) {
        core_.vbinary(VectorOp::div, x, x, of(scale_));
        if (op_.shifted) {
          round(core_, x, window_.of(whole_));
          core_.vbinary(VectorOp::add, x, x, of(low_));
        }
        y_.store(window_, x, first_of(window_, op_.y));
      }
      x_.done();
    }
  }

 private:
  static rows::Need need(const QuantizeOperands& op) {
    rows::Need all = op.need().spare();
    all.columns = 12;
    return all;
  }
  static rows::Pattern pattern(const QuantizeOperands& op) {
    rows::Pattern whole_rows{.sweeps = 2};
    if (op.half) whole_rows.max_rows = 1;
    return whole_rows;
  }
  static rows::Part part(const NdTensor& column) {
    return [column](const rows::Window& window) { return column.slice(0, window.row, window.rows); };
  }
  Tensor column(DType dtype) { return core_.alloc("statistics", Space::vector, {walk_.tile().rows, 1}, dtype); }
  Tensor of(const Tensor& statistics) const { return window_.column_of(statistics); }

  void reduce(VectorOp op, VectorOp merge, const Tensor& to, const Tensor& from) {
    if (walk_.opens(step_)) return core_.vreduce(op, of(to), from);
    core_.vreduce(op, of(part_), from);
    core_.vbinary(merge, of(to), of(to), of(part_));
  }

  // The probe: NaN and infinity times zero are NaN.
  void range(const Tensor& x) {
    const Tensor spare = window_.of(spare_);
    reduce(VectorOp::reduce_max, VectorOp::max, high_, x);
    reduce(VectorOp::reduce_min, VectorOp::min, low_, x);
    core_.vscalar(VectorOp::mul, spare, x, 0.0f);
    reduce(VectorOp::reduce_sum, VectorOp::add, probe_, spare);
    if (!walk_.closes(step_)) return;
    core_.vscalar(VectorOp::max, of(high_), of(high_), 0.0f);
    core_.vscalar(VectorOp::min, of(low_), of(low_), 0.0f);
  }

  void take_scale() {
    core_.vscalar(VectorOp::mul, of(low_), of(low_), -1.0f);
    core_.vbinary(VectorOp::max, of(high_), of(high_), of(low_));
    store_scale(bits(op_.code) == 4 ? 7.0f : 127.0f);
  }

  void store_scale(float steps) {
    core_.vscalar(VectorOp::div, of(scale_), of(high_), steps);
    store_scale();
  }
  void store_scale() {
    core_.vbinary(VectorOp::add, of(scale_), of(scale_), of(probe_));
    row_scale_.store(window_, of(scale_));
  }

  // (high - low) / steps, and where the span is beyond f32 the quotient of the halves.
  void span_scale() {
    const Tensor low = of(low_), high = of(high_), scale = of(scale_), halves = of(part_);
    core_.vscalar(VectorOp::mul, halves, high, 0.5f);
    core_.vscalar(VectorOp::mul, scale, low, 0.5f);
    core_.vbinary(VectorOp::sub, halves, halves, scale);
    core_.vscalar(VectorOp::div, halves, halves, op_.steps() / 2);
    core_.vbinary(VectorOp::sub, high, high, low);
    core_.vscalar(VectorOp::div, scale, high, op_.steps());
    core_.vcompare(Compare::less_equal, high, scale, std::numeric_limits<float>::max());
    core_.vselect(scale, high, scale, halves);
  }

  // low_ becomes the zero point; a row without a scale, or of zeros, has zero.
  void take_zero() {
    const Tensor low = of(low_), spare = of(part_);
    span_scale();
    store_scale();
    core_.vbinary(VectorOp::div, low, low, of(scale_));
    core_.vscalar(VectorOp::mul, low, low, -1.0f);
    core_.vscalar(VectorOp::add, low, low, op_.lowest());
    round(core_, low, of(whole_column_));
    core_.vscalar(VectorOp::max, low, low, op_.lowest());
    core_.vscalar(VectorOp::min, low, low, op_.lowest() + op_.steps());
    core_.vcompare(Compare::greater, spare, of(scale_), 0.0f);
    core_.vselect(low, spare, low, none_);
    row_zero_->store(window_, low, window_.row);
  }

  Core& core_;
  const QuantizeOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  rows::Input x_;
  CodeOutput y_;
  rows::Output row_scale_;
  std::optional<CodeOutput> row_zero_;
  const Tensor spare_, low_, high_, probe_, scale_, part_, whole_column_, none_;
  Tensor whole_;
  rows::Window window_;
  index step_ = 0;
};

}  // namespace

Program program(GlobalMemory& memory, const Quantize<Host>& op, const Choices&) {
  const bool shifted = op.zero.present() || op.row_zero.present();
  const bool half = bits(op.y.dtype) == 4 && (shifted || !rows::in_whole_bytes(op.y));
  QuantizeOperands operands{.grid = {.rows = op.x.extents[0], .columns = op.x.extents[1]},
                            .x = rows::planes_of(memory.bind("x", op.x)),
                            .y = rows::codes_of(memory, "y", op.y, half, Use::out),
                            .code = op.y.dtype,
                            .scales = op.scale.dtype,
                            .dynamic = op.row_scale.present(),
                            .shifted = shifted,
                            .half = half};
  if (!operands.dynamic) {
    operands.scale = rows::codes_of(memory, "scale", op.scale, false, Use::in);
    operands.groups = rows::groups_of(op.scale, op.row_group, op.column_group);
  }
  if (op.zero.present()) operands.zero = rows::codes_of(memory, "zero", op.zero, half, Use::in);
  if (operands.dynamic) operands.row_scale = memory.bind("row_scale", op.row_scale, Use::out).split(0, 1);
  if (op.row_zero.present()) {
    operands.row_zero = rows::codes_of(memory, "row_zero", op.row_zero, half, Use::out);
    if (!half) operands.row_zero.whole = operands.row_zero.whole.split(0, 1);
  }
  // Rows that share a byte are one worker's.
  const Launch launch =
      half ? Launch{.vectors = 1, .cores = 1} : Launch{.cores = rows::cores_of(memory, operands.grid)};
  const auto body = [operands](Core& core) {
    operands.dynamic ? DynamicQuantize(core, operands).run() : quantize_static(core, operands);
  };
  return {.body = body,
          .problem = {.bytes = rows::bytes_of(op.x, op.scale, op.zero, op.y, op.row_scale, op.row_zero)},
          .launch = launch};
}

template struct Operator<Quantize<Host>>;

}  // namespace inlay::npu
