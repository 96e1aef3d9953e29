#include "npu_kernels/linear/epilogue.hpp"

#include <algorithm>
#include <limits>

namespace inlay::npu {

namespace {

bool is_one(const NdTensor& from) { return !from.present() || from.extent(0) == 1; }

DType dtype_of(const NdTensor& from) { return from.present() ? from.first.dtype : DType::f32; }

// Next to nothing where it is not there.
template <std::size_t N> std::array<TileForm, N> row_forms(const std::array<NdTensor, N>& from, index columns) {
  std::array<TileForm, N> forms;
  for (std::size_t i = 0; i < N; ++i)
    forms[i] = {"of channels", Space::vector, {1, is_one(from[i]) ? 2 : columns}, dtype_of(from[i])};
  return forms;
}
template <std::size_t N> std::array<TileForm, N> column_forms(const std::array<NdTensor, N>& from, index rows) {
  std::array<TileForm, N> forms;
  for (std::size_t i = 0; i < N; ++i)
    forms[i] = {"of rows", Space::vector, {from[i].present() ? rows : 1, 2}, dtype_of(from[i])};
  return forms;
}

template <std::size_t N> bool any(const std::array<NdTensor, N>& from) {
  return std::any_of(from.begin(), from.end(), [](const NdTensor& each) { return each.present(); });
}

}  // namespace

Addend::Addend(Core& core, const Tensor& all, Shape most)
    : core_(core),
      all_(all),
      tiles_(core.ring("addend", Space::vector, most, all.dtype, {2, Pipe::load_vector, Pipe::vector})) {}

void Addend::add(const Tensor& to, const Tensor& c, const Sums& sums) {
  const index m = c.rows(), n = c.columns();
  core_.copy(tiles_.acquire().slice(0, m, 0, n), all_.slice(sums.row, m, sums.column, n));
  tiles_.commit();
  core_.vbinary(VectorOp::add, to, c, tiles_.wait().slice(0, m, 0, n));
  tiles_.release();
}

Epilogue::Epilogue(Core& core, const LinearResult& to, Shape most, std::uint32_t ahead)
    : core_(core),
      y_(to.y),
      powers_(to.powers),
      from_channels_{to.row_shift.present() ? to.weight_sum : NdTensor(),
                     to.weight_zero,
                     to.column_scale,
                     to.bias,
                     to.y_scale,
                     to.y_zero},
      from_rows_{to.row_shift, to.row_rest, to.row_scale},
      out_(core.ring("y", Space::vector, most, to.y.first.dtype, {2, Pipe::vector, Pipe::store})) {
  const Flow flow{ahead, Pipe::load_vector, Pipe::vector};
  if (any(from_channels_))
    channels_.emplace(core.ring<of_channels>("of channels", row_forms(from_channels_, most.columns), flow));
  if (any(from_rows_)) rows_.emplace(core.ring<of_rows>("of rows", column_forms(from_rows_, most.rows), flow));
}

Epilogue::Epilogue(Core& core, Scratch& scratch, const LinearResult& to, const ProductPlan& plan, bool adds)
    : Epilogue(core, to, {plan.tiles.vector_m, plan.tiles.sum_n}, to.shadow.present() ? 1 : 2) {
  const Shape shape{plan.tiles.vector_m, plan.tiles.sum_n};
  steps_ = plan.products.steps();
  result_ = scratch.alloc("y, not rounded yet", shape, DType::f32);
  other_ = scratch.alloc("another operand", shape, DType::f32);
  if (has(weight_zero) || has(y_zero)) row_in_i32_ = scratch.alloc("a row in i32", {1, shape.columns}, DType::i32);
  if (to.shadow.present()) shadow_.emplace(core, to.shadow, shape);
  if (adds) so_far_.emplace(core, plan.so_far, shape);
  if (steps_ == 1) return;
  const Shape kept{kept_rows(core.vector_dim(), plan.tiles), shape.columns};
  pairs_ = plan.products.segments.size() == 1;
  if (pairs_) high_ = scratch.alloc("sums of the high halves", kept, DType::f32);
  rest_ = scratch.alloc(pairs_ ? "sums of the others" : "sums of segments", kept, plan.products.sum);
}

void Epilogue::load(index row, index rows, index column, index columns) {
  if (channels_) {
    const auto to = channels_->acquire();
    const auto window = [&](const Tensor& tile, std::size_t i) {
      return tile.slice(0, 1, 0, is_one(from_channels_[i]) ? 1 : columns);
    };
    for (std::size_t i = 0; i < of_channels; ++i) {
      const NdTensor& from = from_channels_[i];
      if (!from.present()) continue;
      core_.copy(by_axes(window(to[i], i)).at(0, 0), is_one(from) ? from : from.slice(0, column, columns));
    }
    channels_->commit();
    channel_ = channels_->wait();
    for (std::size_t i = 0; i < of_channels; ++i) channel_[i] = window(channel_[i], i);
  }
  if (!rows_) return;
  const auto to = rows_->acquire();
  for (std::size_t i = 0; i < of_rows; ++i)
    if (from_rows_[i].present())
      core_.copy(by_axes(to[i].slice(0, rows, 0, 1)).at(1, 0), one_each(from_rows_[i], row, rows));
  rows_->commit();
  row_ = rows_->wait();
  for (std::size_t i = 0; i < of_rows; ++i)
    if (from_rows_[i].present()) row_[i] = row_[i].slice(0, rows, 0, 1);
}

// All steps together, once the last one has come; before that nothing.
Tensor Epilogue::joined(const Sums& sums, const Tensor& y, const Tensor& other) {
  if (steps_ == 1) return sums.tile;
  const Tensor rest = rest_.slice(sums.at, y.rows(), 0, y.columns());
  const Tensor high = pairs_ ? high_.slice(sums.at, y.rows(), 0, y.columns()) : rest;
  if (sums.step < (pairs_ ? 2 : 1))
    core_.vcast(sums.step == 0 ? high : rest, sums.tile);
  else
    core_.vbinary(VectorOp::add, rest, rest, sums.tile);
  if (!sums.last) return {};
  if (!pairs_) return rest;
  core_.vunary(VectorOp::abs, other, high);
  core_.vcompare(Compare::less, other, other, std::numeric_limits<float>::infinity());
  core_.vbinary(VectorOp::add, rest, high, rest);
  core_.vselect(y, other, rest, high);
  return y;
}

Tensor Epilogue::shifted(Tensor c, const Tensor& work, const Tensor& acc) {
  const auto subtract = [&](const Tensor& of_channels_in_i32, const Tensor& of_rows_in_i32) {
    core_.vbroadcast_row(work, of_channels_in_i32);
    core_.vbinary(VectorOp::mul, work, work, of_rows_in_i32);
    core_.vbinary(VectorOp::sub, acc, c, work);
    c = acc;
  };
  if (has(row_shift)) subtract(channel_[weight_sum], row_[row_shift]);
  if (has(row_rest)) {
    const Tensor zero = row_in_i32_.slice(0, 1, 0, channel_[weight_zero].columns());
    core_.vcast(zero, channel_[weight_zero]);
    subtract(zero, row_[row_rest]);
  }
  return c;
}

// The product of two powers may overflow where a sum is zero: it stays finite.
Tensor Epilogue::scaled(const Tensor& c, const Tensor& y, const Tensor& other) {
  const bool both = has(row_scale) && has(column_scale);
  if (powers_) core_.vscalar(VectorOp::mul, y, c, both ? 1 / (half_scale * half_scale) : 1 / half_scale);
  const Tensor& from = powers_ ? y : c;
  if (both) {
    core_.vbroadcast_row(other, channel_[column_scale]);
    core_.vbinary(VectorOp::mul, other, other, row_[row_scale]);
    if (powers_) core_.vscalar(VectorOp::min, other, other, std::numeric_limits<float>::max());
  }
  core_.vbinary(VectorOp::mul, y, from, both ? other : has(row_scale) ? row_[row_scale] : channel_[column_scale]);
  return y;
}

Tensor Epilogue::quantized(const Tensor& c, const Tensor& y, const Tensor& whole) {
  constexpr std::int32_t far = 1 << 20;  // beyond all that saturates
  core_.vbinary(VectorOp::div, y, c, channel_[y_scale]);
  core_.vcast(whole, y);
  core_.vscalar(VectorOp::max, whole, whole, -far);
  core_.vscalar(VectorOp::min, whole, whole, far);
  if (!has(y_zero)) return whole;
  const Tensor zero = row_in_i32_.slice(0, 1, 0, channel_[y_zero].columns());
  core_.vcast(zero, channel_[y_zero]);
  core_.vbinary(VectorOp::add, whole, whole, zero);
  return whole;
}

void Epilogue::from_scale_on(Tensor c, const Tensor& y, const Tensor& other, index row, index column) {
  const index m = c.rows(), n = c.columns();
  if (has(row_scale) || has(column_scale)) c = scaled(c, y, other);
  if (has(bias)) {
    core_.vbinary(VectorOp::add, y, c, channel_[bias]);
    c = y;
  }
  if (has(y_scale)) c = quantized(c, y, as(other, DType::i32));
  if (channels_) channels_->release();
  if (rows_) rows_->release();
  core_.vcast(out_.acquire().slice(0, m, 0, n), c);
  out_.commit();
  core_.copy(y_.slice(0, row, m).slice(1, column, n), by_axes(out_.wait().slice(0, m, 0, n)));
  out_.release();
}

void Epilogue::operator()(const Sums& sums) {
  const index m = sums.tile.rows(), n = sums.tile.columns();
  const Tensor y = result_.slice(0, m, 0, n), other = other_.slice(0, m, 0, n);
  Tensor c = joined(sums, y, other);
  if (!sums.last) return;
  load(sums.row, m, sums.column, n);
  if (so_far_) {
    const Tensor to = c.dtype == DType::i32 ? as(other, DType::i32) : y;
    so_far_->add(to, c, sums);
    c = to;
  }
  if (c.dtype == DType::i32) c = shifted(c, as(y, DType::i32), as(other, DType::i32));
  if (c.dtype == DType::i32 && y_.first.dtype != DType::i32) {
    core_.vcast(y, c);
    c = y;
  }
  if (shadow_) {
    shadow_->add(y, c, sums);
    c = y;
  }
  from_scale_on(c, y, other, sums.row, sums.column);
}

void Epilogue::finish(const Tensor& y, index row, index column) {
  load(row, y.rows(), column, y.columns());
  from_scale_on(y, y, {}, row, column);
}

// The sums of a part of the depth that is not the last are its result. Each part's scratch ends with a barrier: a core
// finds in global memory what it has stored there.
void multiply_layer(Core& core, const Layer& layer, bool meets) {
  prepare(core, layer.left);
  prepare(core, layer.right);
  meets = meets || layer.left.before() || layer.right.before();
  const ProductPlan& plan = layer.plan;
  const std::vector<Segment>& segments = plan.products.segments;
  const std::size_t parts = plan.tiles.parts ? segments.size() : 1;
  for (std::size_t i = 0; i < parts; ++i) {
    ProductPlan part = plan;
    if (plan.tiles.parts) part.products.segments = {segments[i]};
    Scratch scratch(core);
    Epilogue epilogue(core, scratch, i + 1 == parts ? layer.result : LinearResult{.y = by_axes(plan.so_far)}, part,
                      i > 0);
    const AutoBarrier chain = core.auto_barrier(Pipe::vector);
    multiply(core, scratch, layer.right, part, std::ref(epilogue), i == 0 && meets);
  }
}

Program layer_program(const GlobalMemory& memory, const Layer& layer, index bytes, std::function<void(Core&)> body) {
  const Products& p = layer.plan.products;
  const ProductTiles& t = layer.plan.tiles;
  const index m = p.rows(), n = p.columns(), k = p.depth();
  const DType type = p.left.front().dtype;
  const index pieces = ceil_div(m, t.block_m) * ceil_div(n, t.block_n);
  return {.body = std::move(body),
          .problem = {static_cast<std::uint64_t>(bytes), {{type, p.sum, static_cast<std::uint64_t>(2 * m * n * k)}}},
          .launch = {.cores = cores_of_layer(memory, m, n, k, pieces)}};
}

}  // namespace inlay::npu
