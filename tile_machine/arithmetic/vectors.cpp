// Arithmetic of the vector unit between two operands.
#include "tile_machine/arithmetic/elements.hpp"
#include "tile_machine/arithmetic/integers.hpp"

namespace inlay::npu::tiles {

namespace {

// The operator is chosen once for a piece, so that the loop over it vectorises.
void combine_all(VectorOp op, index count, const float* a, const float* b, float* out) {
  const auto loop = [&](auto&& f) {
    for (index i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  };
  switch (op) {
    case VectorOp::add: return loop([](float x, float y) { return x + y; });
    case VectorOp::sub: return loop([](float x, float y) { return x - y; });
    case VectorOp::mul: return loop([](float x, float y) { return x * y; });
    case VectorOp::div: return loop([](float x, float y) { return x / y; });
    case VectorOp::max: return loop([](float x, float y) { return x > y ? x : y; });
    default: return loop([](float x, float y) { return x < y ? x : y; });
  }
}

}  // namespace

void binary(VectorOp op, const Tile& dst, const Tile& a, const Tile& b) {
  if (works_on_integers(op, dst.form.dtype, a.form.dtype)) return binary_integers(op, dst, a, b);
  float x[piece], y[piece];
  for_blocks(dst.form, [&](const Block& block) {
    load_operand(a, block, x, load_block);
    load_operand(b, block, y, load_block);
    combine_all(op, block.count(), x, y, x);
    store(dst, block, x);
  });
}

void scalar(VectorOp op, const Tile& dst, const Tile& a, Scalar b) {
  if (b.whole && works_on_integers(op, dst.form.dtype, a.form.dtype))
    return scalar_integers(op, dst, a, static_cast<std::int32_t>(b.value));
  float x[piece], y[piece];
  std::fill(y, y + piece, static_cast<float>(b.value));
  for_blocks(dst.form, [&](const Block& block) {
    load(a, block, x);
    combine_all(op, block.count(), x, y, x);
    store(dst, block, x);
  });
}

void grouped(VectorOp op, const Tile& dst, const Tile& a, const Tile& b, index group) {
  float x[piece], y[piece], scales[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load(a, row, column, count, x);
    const index first = column / group, last = (column + count - 1) / group;
    load(b, b.form.rows() == 1 ? 0 : row, first, last - first + 1, scales);
    for (index i = 0, g = first; i < count; ++g) {
      const index end = std::min(count, (g + 1) * group - column);
      std::fill(y + i, y + end, scales[g - first]);
      i = end;
    }
    combine_all(op, count, x, y, x);
    store(dst, row, column, count, x);
  });
}

void select(const Tile& dst, const Tile& mask, const Tile& yes, const Tile& no) {
  float m[piece];
  const auto choose = [&](auto* x, auto* y, auto&& load_values, auto&& store_values) {
    for_blocks(dst.form, [&](const Block& block) {
      load_operand(mask, block, m, load_block);
      load_operand(yes, block, x, load_values);
      load_operand(no, block, y, load_values);
      for (index i = 0; i < block.count(); ++i) x[i] = m[i] != 0 ? x[i] : y[i];
      store_values(dst, block, x);
    });
  };
  if (dst.form.dtype == yes.form.dtype && dst.form.dtype == no.form.dtype)
    return with_width(dst.form.dtype, [&]<class T>(T) {
      T x[piece], y[piece];
      choose(x, y, load_block_bits, [](auto&&... to) { store_bits(to...); });
    });
  float x[piece], y[piece];
  choose(x, y, load_block, [](auto&&... to) { store(to...); });
}

void broadcast_row(const Tile& dst, const Tile& a) {
  float x[piece];
  for_blocks(dst.form, [&](const Block& block) {
    load_operand(a, block, x, load_block);
    store(dst, block, x);
  });
}

void fill(const Tile& dst, float value) {
  float x[piece];
  std::fill(x, x + piece, value);
  for_blocks(dst.form, [&](const Block& block) { store(dst, block, x); });
}

}  // namespace inlay::npu::tiles
