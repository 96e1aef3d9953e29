#include "npu_kernels/attention/softmax.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

constexpr index far = index{1} << 20;  // beyond every row and column
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

}  // namespace

ScoreRules::ScoreRules(Core& core, const AttentionCall& problem, index rows, index tokens, index seen)
    : core_(core), problem_(problem), rows_(rows), tokens_(tokens) {
  const auto column = [&](const char* name, DType dtype) { return core.alloc(name, Space::vector, {rows, 1}, dtype); };
  const auto row = [&](const char* name) { return core.alloc(name, Space::vector, {1, tokens}, DType::i32); };
  if (problem.hides) {
    seen_ = core.alloc("seen", Space::vector, {std::max<index>(rows, 2), std::max<index>(seen, 2)}, DType::u8);
    if (!one_rule(problem)) more_ = full("seen by one rule", DType::u8);
  }
  hidden_ = core.alloc("hidden", Space::vector, {1, 1}, DType::f32);
  column_ = core.alloc("keys", Space::vector, {1, tokens}, DType::f32);
  query_ = column("query", DType::f32);
  whole_query_ = column("query in i32", DType::i32);
  bound_ = column("bound", DType::f32);
  core.vfill(hidden_, minus_infinity);
  core.viota(column_, {});
  if (problem.biased()) bias_ = full("bias in f32");
  if (problem.alibi_slopes.present()) distance_ = full("distance");
  if (problem.packed_mask.present()) {
    places_ = row("bits"), shifts_ = row("shifts"), bits_ = row("seen bits");
    bytes_ = core.alloc("bytes", Space::vector, {1, tokens}, DType::u8);
  }
  if (!problem.bias.present() && !problem.mask.present() && !problem.packed_mask.present()) return;
  const auto form = [&](const char* name, const NdTensor& tensor, index columns) {
    const Shape shape = tensor.present() ? Shape{std::max<index>(rows, 2), std::max<index>(columns, 2)} : Shape{1, 2};
    return TileForm{name, Space::vector, shape, tensor.present() ? tensor.first.dtype : DType::f32, Layout::nd};
  };
  loaded_.emplace(core.ring<3>("rules of a tile",
                               {form("bias", problem.bound.bias, tokens), form("mask", problem.bound.mask, tokens),
                                form("packed mask", problem.bound.packed_mask, tokens / 8 + 2)},
                               {1, Pipe::load_vector, Pipe::vector}));
}

bool ScoreRules::concern(const QueryTile& unit, const KeyTile& tile) const {
  if (problem_.biased() || problem_.softcap > 0 || problem_.mask.present() || problem_.packed_mask.present())
    return true;
  const auto [of_first, of_last] = problem_.ends(unit);
  return std::max(of_first.begin, of_last.begin) > tile.first ||
         std::min(of_first.end, of_last.end) < tile.first + tile.count;
}

void ScoreRules::begin(const QueryTile& unit, const Tensor& slopes) {
  unit_ = unit;
  slopes_ = slopes;
  if (unit.heads == of_heads_ && unit.rows() <= of_rows_) return;
  of_heads_ = unit.heads, of_rows_ = unit.rows();
  const Tensor query = query_.row_slice(0, unit.rows()), whole = whole_query_.row_slice(0, unit.rows());
  const double heads = static_cast<double>(unit.heads);
  core_.viota(query, {.first = 0.5 / heads, .column_step = 0, .row_step = 1 / heads});
  core_.vcast(whole, query, Round::floor);
  core_.vcast(query, whole);
}

// [sequence|1, head|1, query|1, key] as [query, head, key] of the unit's rows.
void ScoreRules::load_rows(const Tensor& slot, const NdTensor& from, const KeyTile& tile) {
  const NdTensor of_sequence = from.at(0, from.extent(0) > 1 ? unit_.sequence : 0);
  const auto part = [](const NdTensor& tensor, int axis, index first, index count) {
    return tensor.extent(axis) > 1 ? tensor.slice(axis, first, count) : spread(tensor, axis, count);
  };
  const NdTensor rows = part(part(of_sequence, 0, unit_.head, unit_.heads), 1, unit_.query, unit_.queries);
  const index column = problem_.sequence(unit_).column + tile.first;
  core_.copy(by_axes(slot.slice(0, unit_.rows(), 0, tile.count)).split(0, unit_.heads),
             rows.slice(2, column, tile.count).permuted({1, 0, 2}));
}

index ScoreRules::first_bit(index query, const KeyTile& tile) const {
  const AttentionSequence& s = problem_.sequence(unit_);
  return s.packed * 8 + (unit_.query + query) * s.keys + tile.first;
}

void ScoreRules::load_bits(const Tensor& slot, const KeyTile& tile) {
  for (index i = 0; i < unit_.queries; ++i) {
    const index bit = first_bit(i, tile), bytes = (bit % 8 + tile.count + 7) / 8;
    core_.copy(by_axes(slot.slice(i, 1, 0, bytes)).at(0, 0), problem_.bound.packed_mask.slice(0, bit / 8, bytes));
  }
}

void ScoreRules::load(const KeyTile& tile) {
  const auto slots = loaded_->acquire();
  if (problem_.bias.present()) load_rows(slots[0], problem_.bound.bias, tile);
  if (problem_.mask.present()) load_rows(slots[1], problem_.bound.mask, tile);
  if (problem_.packed_mask.present()) load_bits(slots[2], tile);
  loaded_->commit();
}

template <class Write> void ScoreRules::demand(const Tensor& used, Write&& write) {
  const auto part = [&](const Tensor& tile) { return tile.slice(0, used.rows(), 0, used.columns()); };
  write(part(partial_ ? more_ : seen_));
  if (partial_) core_.vbinary(VectorOp::mul, part(seen_), part(seen_), part(more_));
  partial_ = true;
}

// Column c is seen from first[r] = position(r) - left - key 0 on, and before end[r] = position(r) + right + 1 - key 0.
void ScoreRules::demand_window(const Tensor& used, const KeyTile& tile) {
  const auto [of_first, of_last] = problem_.ends(unit_);
  const Tensor bound = bound_.row_slice(0, used.rows()), keys = column_.slice(0, 1, 0, used.columns());
  const auto bounded = [&](Compare how, index of_first_query) {
    demand(used, [&](const Tensor& to) {
      const index local = std::clamp(of_first_query - tile.first, -far, far);
      core_.vscalar(VectorOp::add, bound, query_.row_slice(0, used.rows()), static_cast<float>(local));
      core_.vcompare(how, to, keys, bound);
    });
  };
  const index position = problem_.sequence(unit_).position + unit_.query, end = tile.first + tile.count;
  // Where a window begins before key 0, or ends behind the last key, there is nothing to compare with.
  if (problem_.window_left >= 0 && std::max(of_first.begin, of_last.begin) > tile.first)
    bounded(Compare::greater_equal, position - std::min(problem_.window_left, 2 * farthest_position));
  if (problem_.window_right >= 0 && std::min(of_first.end, of_last.end) < end)
    bounded(Compare::less, position + std::min(problem_.window_right, 2 * farthest_position) + 1);
}

void ScoreRules::hide_ends(const Tensor& scores, const KeyTile& tile) {
  const index columns = scores.columns(), align = index{core_.device().vector.align};
  const index end =
      std::clamp<index>(problem_.visible(problem_.sequence(unit_), unit_.query).end - tile.first, 0, columns);
  const index from = end / align * align, count = columns - from;
  if (count == 0) return;
  const Tensor behind = scores.slice(0, scores.rows(), from, count);
  partial_ = false;
  demand_window(behind, {tile.first + from, count, tile.last});
  if (partial_) core_.vselect(behind, seen_.slice(0, scores.rows(), 0, count), behind, hidden_);
}

// slope * (key - position of the row): exact as far as f32 counts.
void ScoreRules::add_slopes(const Tensor& bias, const KeyTile& tile) {
  const AttentionSequence& s = problem_.sequence(unit_);
  const Tensor distance = problem_.bias.present() ? distance_.slice(0, bias.rows(), 0, bias.columns()) : bias;
  core_.viota(distance, {.first = static_cast<double>(tile.first - s.position - unit_.query)});
  core_.vbinary(VectorOp::sub, distance, distance, query_.row_slice(0, bias.rows()));
  core_.vbinary(VectorOp::mul, distance, distance, slopes_);
  if (problem_.bias.present()) core_.vbinary(VectorOp::add, bias, bias, distance);
}

void ScoreRules::unpack(const Tensor& to, const Tensor& bytes, const KeyTile& tile) {
  const auto row = [&](const Tensor& tensor) { return tensor.slice(0, 1, 0, tile.count); };
  for (index i = 0; i < unit_.queries; ++i) {
    const index bit = first_bit(i, tile) % 8, used = (bit + tile.count + 7) / 8;
    core_.viota(row(shifts_), {.first = static_cast<double>(bit)});
    core_.vscalar(VectorOp::shift_right, row(places_), row(shifts_), 3);
    core_.vscalar(VectorOp::bit_and, row(shifts_), row(shifts_), 7);
    core_.vgather(row(bytes_), bytes.slice(i, 1, 0, used), row(places_));
    core_.vcast(row(bits_), row(bytes_));
    core_.vbinary(VectorOp::shift_right, row(bits_), row(bits_), row(shifts_));
    core_.vscalar(VectorOp::bit_and, row(bits_), row(bits_), 1);
    core_.vbroadcast_row(to.row_slice(i * unit_.heads, unit_.heads), row(bits_));
  }
}

void ScoreRules::softcap(const Tensor& scores) {
  if (problem_.softcap <= 0) return;
  core_.vscalar(VectorOp::div, scores, scores, problem_.softcap);
  core_.vunary(VectorOp::tanh, scores, scores);
  core_.vscalar(VectorOp::mul, scores, scores, problem_.softcap);
}

bool ScoreRules::apply(const Tensor& scores, const KeyTile& tile) {
  const auto used = [&](const Tensor& full) { return full.slice(0, scores.rows(), 0, scores.columns()); };
  partial_ = false;
  demand_window(scores, tile);
  std::array<Tensor, 3> loaded;
  if (loaded_) load(tile), loaded = loaded_->wait();
  if (problem_.mask.present())
    demand(scores, [&](const Tensor& to) { core_.vcompare(Compare::equal, to, used(loaded[1]), 0.0f); });
  if (problem_.packed_mask.present()) demand(scores, [&](const Tensor& to) { unpack(to, loaded[2], tile); });
  if (!problem_.biased()) {
    if (loaded_) loaded_->release();
    softcap(scores);
  } else {
    const Tensor bias = used(bias_);
    if (problem_.bias.present()) {
      core_.vcast(bias, used(loaded[0]));
      demand(scores, [&](const Tensor& to) { core_.vcompare(Compare::not_equal, to, bias, minus_infinity); });
    }
    if (loaded_) loaded_->release();
    if (problem_.alibi_slopes.present()) add_slopes(bias, tile);
    const bool behind = problem_.bias_order == BiasOrder::scale_softcap_bias;
    if (behind) softcap(scores);
    if (problem_.bias_order == BiasOrder::bias_scale_softcap) core_.vscalar(VectorOp::mul, bias, bias, problem_.scale);
    core_.vbinary(VectorOp::add, scores, scores, bias);
    if (!behind && problem_.softcap > 0) {
      softcap(scores);  // makes a bias of -inf finite, which it stays
      core_.vcompare(Compare::equal, bias, bias, minus_infinity);
      core_.vselect(scores, bias, hidden_, scores);
    }
  }
  if (partial_) core_.vselect(scores, used(seen_), scores, hidden_);
  return partial_;
}

void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero) {
  core.vcompare(Compare::equal, none, total, 0.0f);
  core.vunary(VectorOp::recip, inverse, total);
  core.vselect(inverse, none, zero, inverse);
}

OnlineSoftmax::OnlineSoftmax(Core& core, index rows, DType scores, float scale) : core_(core), scale_(scale) {
  const auto column = [&](const char* name, DType dtype = DType::f32) {
    return core.alloc(name, Space::vector, {rows, 1}, dtype);
  };
  maximum_ = column("maximum");
  total_ = column("total");
  fresh_maximum_ = column("fresh maximum");
  tile_maximum_ = column("maximum of a tile", scores);
  tile_total_ = column("total of a tile");
}

void OnlineSoftmax::begin() {
  core_.vfill(maximum_, lowest_score);
  core_.vfill(total_, 0);
}

void OnlineSoftmax::weigh(const Tensor& s, const Tensor& weights, index first) {
  const auto used = [&](const Tensor& column) { return column.row_slice(first, s.rows()); };
  const Tensor fresh = used(fresh_maximum_);
  core_.vreduce(VectorOp::reduce_max, used(tile_maximum_), s);
  core_.vbinary(VectorOp::max, fresh, used(maximum_), used(tile_maximum_));
  core_.vbinary(VectorOp::sub, s, s, fresh);
  if (scale_ != 1) core_.vscalar(VectorOp::mul, s, s, scale_);
  core_.vunary(VectorOp::exp, weights, s);
}

void OnlineSoftmax::sum(const Tensor& weights, index first) {
  core_.vreduce(VectorOp::reduce_sum, tile_total_.row_slice(first, weights.rows()), weights);
}

// Where columns end early the others are what they would be: 0 was to be added to them.
void OnlineSoftmax::fold_and_sum(const Tensor& weights, index first, index columns) {
  const index rows = weights.rows();
  index count = weights.columns();
  for (int fold = 0; fold < 2; ++fold) {
    columns /= 2;
    if (count <= columns) continue;
    const Tensor front = weights.slice(0, rows, 0, count - columns);
    core_.vbinary(VectorOp::add, front, front, weights.slice(0, rows, columns, count - columns));
    count = columns;
  }
  sum(weights.slice(0, rows, 0, count), first);
}

void OnlineSoftmax::finish(const Tensor& alpha) {
  const auto used = [&](const Tensor& column) { return column.row_slice(0, alpha.rows()); };
  const Tensor maximum = used(maximum_), total = used(total_), fresh = used(fresh_maximum_);
  core_.vbinary(VectorOp::sub, alpha, maximum, fresh);
  core_.vcast(maximum, fresh);
  if (scale_ != 1) core_.vscalar(VectorOp::mul, alpha, alpha, scale_);
  core_.vunary(VectorOp::exp, alpha, alpha);
  core_.vbinary(VectorOp::mul, total, total, alpha);
  core_.vbinary(VectorOp::add, total, total, used(tile_total_));
}

void OnlineSoftmax::tile(const Tensor& s, const Tensor& alpha) {
  weigh(s, s, 0);
  sum(s, 0);
  finish(alpha.row_slice(0, s.rows()));
}

}  // namespace inlay::npu
