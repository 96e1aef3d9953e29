#include "npu_kernels/attention/results.hpp"

#include <algorithm>

#include "npu_kernels/attention/online_softmax.hpp"

namespace inlay::npu {

namespace {

TileForm form(const char* name, Shape shape, DType dtype = DType::f32) {
  return {name, Space::vector, {std::max<index>(shape.rows, 2), std::max<index>(shape.columns, 2)}, dtype, Layout::nd};
}

}  // namespace

Results::Results(Core& core, const Outputs& to, index rows, index block, index columns, std::uint32_t blocks)
    : core_(core),
      to_(to),
      block_(block),
      stored_(core.ring<2>("results", {form("out", {block, columns}, to.out.first.dtype), form("lse", {block, 1})},
                           {block < rows ? blocks : 1u, Pipe::vector, Pipe::store})) {
  const auto column = [&](const char* name) { return core.alloc(name, Space::vector, {rows, 1}, DType::f32); };
  zero_ = core.alloc("zero", Space::vector, {1, 1}, DType::f32);
  none_ = column("none seen");
  factor_ = column("factor");
  top_ = column("maximum with the sink");
  core.vfill(zero_, 0);
  if (!to.sinks.present() && !coded()) return;
  const auto coefficients = [&](const char* name, const NdTensor& tensor) {
    if (!tensor.present()) return form(name, {1, 1});
    return form(name, {rows, tensor.extent(1) > 1 ? columns : 1});
  };
  loaded_.emplace(core.ring<3>("of the heads",
                               {form("sinks", {rows, 1}), coefficients("scales of out", to.out_scale),
                                coefficients("offsets of out", to.out_offset)},
                               {1, Pipe::load_vector, Pipe::vector}));
}

// [head|1, n] as [row, head, n].
NdTensor Results::of_heads(const NdTensor& list, const RowWindow& window) const {
  const NdTensor heads = list.extent(0) > 1 ? list.slice(0, window.head, window.heads) : spread(list, 0, window.heads);
  return spread(heads.split(0, window.heads), 0, window.rows);
}

Tensor Results::coefficient(const Tensor& slot, const NdTensor& from, const RowWindow& window) const {
  return slot.slice(0, window.count(), 0, from.extent(1) > 1 ? window.columns : 1);
}

void Results::load(const RowWindow& window) {
  const auto slots = loaded_->acquire();
  const auto rows = [&](const Tensor& tile) { return by_axes(tile).split(0, window.heads); };
  if (to_.sinks.present())
    core_.copy(rows(slots[0].slice(0, window.count(), 0, 1)), of_heads(to_.sinks.split(0, 1), window));
  const auto copy = [&](const Tensor& slot, const NdTensor& from) {
    if (!from.present()) return;
    const NdTensor of_rows = of_heads(from, window);
    core_.copy(rows(coefficient(slot, from, window)),
               from.extent(1) > 1 ? of_rows.slice(2, window.column, window.columns) : of_rows);
  };
  copy(slots[1], to_.out_scale);
  copy(slots[2], to_.out_offset);
  loaded_->commit();
}

void Results::add_sinks(const Tensor& sinks, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  const Tensor top = top_.row_slice(0, total.rows()), factor = factor_.row_slice(0, total.rows());
  core_.vbinary(VectorOp::max, top, maximum, sinks);
  core_.vbinary(VectorOp::sub, factor, maximum, top);
  core_.vunary(VectorOp::exp, factor, factor);
  core_.vbinary(VectorOp::mul, total, total, factor);
  core_.vbinary(VectorOp::mul, sum, sum, factor);
  core_.vbinary(VectorOp::sub, factor, sinks, top);
  core_.vunary(VectorOp::exp, factor, factor);
  core_.vbinary(VectorOp::add, total, total, factor);
  core_.vcast(maximum, top);
}

void Results::begin(const RowWindow& window, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
  std::array<Tensor, 3> loaded;
  if (loaded_) load(window), loaded = loaded_->wait();
  const Tensor factor = factor_.row_slice(0, window.count());
  window_ = window, stored_rows_ = 0;
  sum_ = sum, lse_ = top_.row_slice(0, window.count());
  if (to_.sinks.present()) add_sinks(loaded[0].slice(0, window.count(), 0, 1), sum, total, maximum);
  if (with_lse(window)) {
    core_.vunary(VectorOp::log, lse_, total);
    core_.vbinary(VectorOp::add, lse_, lse_, maximum);
  }
  if (window.columns > 0) {
    inverse_of(core_, factor, total, none_.row_slice(0, window.count()), zero_);
    if (to_.factor != 1) core_.vscalar(VectorOp::mul, factor, factor, to_.factor);
  }
  if (coded()) coefficients_[0] = coefficient(loaded[1], to_.out_scale, window);
  if (to_.out_offset.present()) coefficients_[1] = coefficient(loaded[2], to_.out_offset, window);
  if (loaded_ && !coded()) loaded_->release();
}

// Whole queries, or heads of one.
void Results::advance() {
  const index first = stored_rows_, heads = window_.heads;
  if (first == window_.count()) return;
  const index step = window_.rows > 1 ? std::max<index>(1, block_ / heads) * heads : block_;
  const index rows = std::min(step, window_.count() - first);
  RowWindow part = window_;
  if (window_.rows > 1)
    part.row += first / heads, part.rows = rows / heads;
  else
    part.head += first, part.heads = rows;
  const auto of = [&](const Tensor& tensor) { return tensor.row_slice(first, rows); };
  std::array<Tensor, 2> coefficients;
  if (coded()) coefficients[0] = of(coefficients_[0]);
  if (to_.out_offset.present()) coefficients[1] = of(coefficients_[1]);
  store_part(part, of(sum_), of(factor_), of(lse_), coefficients);
  stored_rows_ += rows;
  if (loaded_ && coded() && stored_rows_ == window_.count()) loaded_->release();
}

void Results::store_part(const RowWindow& window, const Tensor& sum, const Tensor& factor, const Tensor& lse,
                         const std::array<Tensor, 2>& coefficients) {
  const auto slots = stored_.acquire();
  const Tensor out = slots[0].slice(0, window.count(), 0, window.columns);
  if (with_lse(window)) core_.vcast(slots[1].slice(0, window.count(), 0, 1), lse);
  if (window.columns > 0) {
    core_.vbinary(VectorOp::mul, coded() ? sum : out, sum, factor);
    if (coded()) {
      core_.vbinary(VectorOp::mul, sum, sum, coefficients[0]);
      if (to_.out_offset.present()) {
        // Codes have no NaN: it counts as 0, and the code is the offset.
        core_.vbinary(VectorOp::add, sum, sum, coefficients[1]);
        core_.vcompare(Compare::equal, out, sum, sum);
        core_.vselect(sum, out, sum, coefficients[1]);
      }
      core_.vcast(out, sum);
    }
  }
  stored_.commit();
  const auto filled = stored_.wait();
  const auto rows = [&](const Tensor& tile) { return by_axes(tile).split(0, window.heads); };
  if (window.columns > 0)
    core_.copy(window.of(to_.out).slice(2, window.column, window.columns),
               rows(filled[0].slice(0, window.count(), 0, window.columns)));
  if (with_lse(window)) core_.copy(window.of(to_.lse).split(1, 1), rows(filled[1].slice(0, window.count(), 0, 1)));
  stored_.release();
}

}  // namespace inlay::npu
