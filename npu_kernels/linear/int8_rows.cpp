#include "npu_kernels/linear/int8_rows.hpp"

#include <algorithm>
#include <limits>

#include "npu_kernels/linear/layout.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// One tile of rows after the other, on one vector unit.
class RowQuantizer {
 public:
  RowQuantizer(Core& core, const Int8Rows& to, Scratch& scratch)
      : core_(core),
        to_(to),
        tile_(tile_of(core, to)),
        block_(core.device().fractal_block(DType::i8)),
        reader_(core, scratch, {.rows = to.x, .dtype = to.dtype, .count = to.rows, .depth = to.depth}, tile_.rows,
                tile_.depth),
        x_(scratch.alloc("x", to.floats() ? shape() : Shape{1, 2}, DType::f32)),
        wide_(scratch.alloc("integers, or finite", to.floats() || to.with_rest ? shape() : Shape{1, 2}, DType::f32)),
        q_(scratch.alloc("q", shape(), DType::i8)),
        low_(scratch.alloc("smallest", of_rows(), DType::f32)),
        high_(scratch.alloc("largest", of_rows(), DType::f32)),
        finite_(scratch.alloc("finite", of_rows(), DType::f32)),
        chunk_(scratch.alloc("of a chunk", of_rows(), DType::f32)),
        scale_(scratch.alloc("scale", of_rows(), DType::f32)),
        zero_(scratch.alloc("zero", of_rows(), DType::i32)),
        rest_(scratch.alloc("rest", of_rows(), DType::i32)),
        narrow_(scratch.alloc("zero in eight bits", of_rows(), DType::i8)),
        given_(core.ring("given", Space::vector, of_rows(), DType::f32, {1, Pipe::load_vector, Pipe::vector})),
        given_zero_(core.ring("given zero", Space::vector, of_rows(), to.dtype == DType::u8 ? DType::u8 : DType::i8,
                              {1, Pipe::load_vector, Pipe::vector})),
        out_(core.ring("q blocks", Space::vector, shape(), DType::i8, {2, Pipe::vector, Pipe::store}, Layout::nz)),
        columns_(core.ring("of rows", Space::vector, of_rows(), DType::i32, {2, Pipe::vector, Pipe::store})),
        clips_(core.ring("clipped", Space::vector, !to.clipped.present() ? Shape{1, 2} : shape(), DType::f32,
                         {2, Pipe::vector, Pipe::store})) {}

  void rows(index row) {
    row_ = row;
    count_ = std::min(tile_.rows, to_.rows - row);
    core_.vfill(column(zero_), 0);
    if (to_.x_zero.present()) load_zero();
    if (to_.dtype == DType::u8) core_.vscalar(VectorOp::add, column(zero_), column(zero_), std::int32_t{-128});
    if (to_.floats()) {
      if (to_.x_scale.present()) load_scale();
      measure();
      if (to_.scale.present()) store(to_.scale, as(column(scale_), DType::i32));
    }
    if (to_.shift.present()) store(to_.shift, column(zero_));
    if (!to_.reads_x()) return;
    core_.vfill(column(rest_), 0);
    for (index k = 0; k < to_.depth; k += tile_.depth) quantize(k);
    if (!to_.with_rest) return;
    const Tensor of_shift = as(column(chunk_), DType::i32);
    core_.vscalar(VectorOp::mul, of_shift, column(zero_), static_cast<std::int32_t>(to_.depth));
    core_.vbinary(VectorOp::sub, column(rest_), column(rest_), of_shift);
    store(to_.rest, column(rest_));
  }
  index step() const { return tile_.rows; }

 private:
  static RowTile tile_of(const Core& core, const Int8Rows& to) {
    if (!to.reads_x()) return {8 * panel_rows, 1};
    RowTile tile = row_tile(core.device(), DType::i8, to.depth, to.floats() || to.with_rest ? 32 : 6);
    tile.rows = rows_at_once(core, to.rows);
    return tile;
  }
  Shape shape() const { return {tile_.rows, tile_.depth}; }
  Shape of_rows() const { return {tile_.rows, 2}; }
  Tensor column(const Tensor& tile) const { return tile.slice(0, count_, 0, 1); }
  Tensor window(const Tensor& tile, index depth) const { return tile.slice(0, count_, 0, depth); }

  // One for all rows, or one for each.
  void load(Ring& ring, const NdTensor& from) {
    core_.copy(by_axes(column(ring.acquire())).at(1, 0), one_each(from, row_, count_));
    ring.commit();
  }
  void load_zero() {
    load(given_zero_, to_.x_zero);
    core_.vcast(column(zero_), column(given_zero_.wait()));
    given_zero_.release();
  }
  void load_scale() {
    load(given_, to_.x_scale);
    core_.vcast(column(scale_), column(given_.wait()));
    given_.release();
  }
  void store(const NdTensor& to, const Tensor& from) {
    core_.vcast(column(columns_.acquire()), from);
    columns_.commit();
    NdTensor target = to.slice(0, row_, count_);
    target.first.dtype = DType::i32;
    core_.copy(target, by_axes(column(columns_.wait())).at(1, 0));
    columns_.release();
  }

  // (high - low) / 255, and where the span is beyond f32 the quotient of the halves. `high` is used up.
  void span_scale(const Tensor& scale, const Tensor& low, const Tensor& high) {
    const Tensor halves = column(chunk_);
    core_.vscalar(VectorOp::mul, halves, high, 0.5f);
    core_.vscalar(VectorOp::mul, scale, low, 0.5f);
    core_.vbinary(VectorOp::sub, halves, halves, scale);
    core_.vscalar(VectorOp::div, halves, halves, 127.5f);
    core_.vbinary(VectorOp::sub, high, high, low);
    core_.vscalar(VectorOp::div, scale, high, 255.0f);
    core_.vcompare(Compare::less_equal, high, scale, std::numeric_limits<float>::max());
    core_.vselect(scale, high, scale, halves);
  }

  // Scale and zero point of rows of floats, from the rows themselves where they are not given.
  void measure() {
    for (const Tensor& edge : {low_, high_}) core_.vfill(column(edge), 0);
    core_.vfill(column(finite_), 1);
    for (index k = 0; k < to_.depth; k += tile_.depth) {
      const index depth = std::min(tile_.depth, to_.depth - k);
      const Tensor x = window(x_, depth), finite = window(wide_, depth);
      core_.vcast(x, reader_.read(row_, count_, k, depth));
      reader_.release();
      const auto fold = [&](VectorOp reduce, VectorOp join, const Tensor& into, const Tensor& from) {
        core_.vreduce(reduce, column(chunk_), from);
        core_.vbinary(join, column(into), column(into), column(chunk_));
      };
      core_.vunary(VectorOp::abs, finite, x);
      core_.vcompare(Compare::less, finite, finite, std::numeric_limits<float>::infinity());
      fold(VectorOp::reduce_min, VectorOp::min, finite_, finite);
      if (to_.x_scale.present()) continue;
      fold(VectorOp::reduce_min, VectorOp::min, low_, x);
      fold(VectorOp::reduce_max, VectorOp::max, high_, x);
    }
    const Tensor scale = column(scale_), low = column(low_), high = column(high_);
    if (!to_.x_scale.present() && !to_.asymmetric) {
      core_.vscalar(VectorOp::mul, low, low, -1.0f);
      core_.vbinary(VectorOp::max, high, high, low);
      core_.vscalar(VectorOp::div, scale, high, 127.0f);
    } else if (!to_.x_scale.present()) {
      span_scale(scale, low, high);
      core_.vbinary(VectorOp::div, low, low, scale);  // 0 / 0: NaN, which becomes 0
      core_.vscalar(VectorOp::mul, low, low, -1.0f);
      core_.vscalar(VectorOp::sub, low, low, 128.0f);
      core_.vcast(column(narrow_), low);
      core_.vcast(column(zero_), column(narrow_));
    }
    core_.vbinary(VectorOp::div, column(finite_), column(finite_), column(finite_));  // 1, or NaN
    core_.vbinary(VectorOp::mul, scale, scale, column(finite_));
  }

  // r = round(x / scale) + zero, q = saturate(r), clipped = r - q.
  void quantize(index k) {
    const index depth = std::min(tile_.depth, to_.depth - k), padded = round_up(depth, block_);
    const Tensor q = window(q_, depth), whole = as(window(wide_, depth), DType::i32), x = window(x_, depth);
    if (padded > depth) core_.vfill(window(q_, padded), 0);
    const Tensor from = reader_.read(row_, count_, k, depth);
    if (!to_.floats()) {
      core_.vcast(q, as(from, DType::i8));
      if (to_.dtype == DType::u8) core_.vscalar(VectorOp::bit_xor, q, q, std::int32_t{-128});
    } else {
      core_.vcast(x, from);
      core_.vbinary(VectorOp::div, x, x, column(scale_));
      core_.vcast(whole, x);
      core_.vscalar(VectorOp::max, whole, whole, -far);
      core_.vscalar(VectorOp::min, whole, whole, far);
      core_.vbinary(VectorOp::add, whole, whole, column(zero_));
      core_.vcast(q, whole);
    }
    reader_.release();
    if (to_.clipped.present()) clip(x, q, k);
    if (to_.with_rest) {
      core_.vcast(whole, q);
      core_.vreduce(VectorOp::reduce_sum, as(column(chunk_), DType::i32), whole);
      core_.vbinary(VectorOp::add, column(rest_), column(rest_), as(column(chunk_), DType::i32));
    }
    if (!to_.in_blocks) return;
    core_.vpack_nz(window(out_.acquire(), padded), window(q_, padded));
    out_.commit();
    store_blocks(core_, to_.q, window(out_.wait(), padded), row_, k);
    out_.release();
  }

  // From 2^23 on every float is whole; below, integers round it. Of 0 / 0 nothing is clipped.
  void clip(const Tensor& quotient, const Tensor& q, index k) {
    const index depth = quotient.columns();
    const Tensor rounded = window(clips_.acquire(), depth), mask = window(wide_, depth);
    core_.vcast(as(mask, DType::i32), quotient);
    core_.vcast(rounded, as(mask, DType::i32));
    core_.vunary(VectorOp::abs, mask, quotient);
    core_.vcompare(Compare::greater_equal, mask, mask, 0x1p23f);
    core_.vselect(rounded, mask, quotient, rounded);
    core_.vcast(column(chunk_), column(zero_));
    core_.vbinary(VectorOp::add, rounded, rounded, column(chunk_));
    core_.vbinary(VectorOp::sub, rounded, rounded, q);
    clips_.commit();
    core_.copy(by_axes(to_.clipped.slice(row_, count_, k, depth)), by_axes(window(clips_.wait(), depth)));
    clips_.release();
  }

  static constexpr std::int32_t far = 1 << 20;  // beyond all that saturates
  Core& core_;
  const Int8Rows& to_;
  RowTile tile_;
  index block_;
  RowReader reader_;
  Tensor x_, wide_, q_, low_, high_, finite_, chunk_, scale_, zero_, rest_, narrow_;
  Ring given_, given_zero_, out_, columns_, clips_;
  index row_ = 0, count_ = 0;
};

}  // namespace

Int8Rows int8_rows(GlobalMemory& memory, const LinearInt8<Host>& op) {
  Int8Rows rows{.x = memory.bind("x", op.x),
                .x_scale = memory.bind_optional("x_scale", op.x_scale),
                .x_zero = memory.bind_optional("x_zero", op.x_zero),
                .dtype = op.x.dtype,
                .rows = op.x.extents[0],
                .depth = op.x.extents[1],
                .asymmetric = op.asymmetric,
                .with_rest = op.weight_zero.present()};
  rows.in_blocks = op.x.dtype != DType::i8 || !loads_as_rows(rows.x) ||
                   blocks_pay(memory.device(), op.y.extents[1] / 256);  // q is not x
  rows.q = rows.in_blocks ? blocked_operand(memory, "q", rows.rows, rows.depth, DType::i8) : rows_operand(rows.x);
  const auto of_rows = [&](const char* name, DType dtype) {
    return by_axes(memory.workspace(name, {1, rows.rows}, dtype)).at(0, 0);
  };
  if (op.y.dtype != DType::i32) rows.scale = rows.floats() ? of_rows("scales", DType::f32) : rows.x_scale;
  if (rows.shifts()) rows.shift = of_rows("shifts", DType::i32);
  if (rows.with_rest) rows.rest = of_rows("rests", DType::i32);
  if (op.shadow_outliers) rows.clipped = memory.workspace("clipped", {rows.rows, rows.depth}, DType::f32);
  return rows;
}

void make_int8_rows(Core& core, const Int8Rows& to) {
  Scratch scratch(core);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  RowQuantizer quantizer(core, to, scratch);
  const index step = quantizer.step();
  for (index row = core.vector_worker() * step; row < to.rows; row += core.vector_workers() * step) quantizer.rows(row);
}

}  // namespace inlay::npu
