// The vector unit's arithmetic.
#include <vector>

#include "cpu_kernels/simd/floats.hpp"
#include "npu_kernels/machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

template <class T> T combine(VectorOp op, T a, T b) {
  switch (op) {
    case VectorOp::add: return a + b;
    case VectorOp::sub: return a - b;
    case VectorOp::mul: return a * b;
    case VectorOp::div: return b == 0 && std::is_integral_v<T> ? T{0} : a / b;
    case VectorOp::max: return a > b ? a : b;
    default: return a < b ? a : b;
  }
}

// The operator is chosen once for a piece, so that the loop over it vectorises.
template <class T> void combine_all(VectorOp op, index count, const T* a, const T* b, T* out) {
  const auto loop = [&](auto&& f) {
    for (index i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  };
  switch (op) {
    case VectorOp::add: return loop([](T x, T y) { return combine(VectorOp::add, x, y); });
    case VectorOp::sub: return loop([](T x, T y) { return combine(VectorOp::sub, x, y); });
    case VectorOp::mul: return loop([](T x, T y) { return combine(VectorOp::mul, x, y); });
    case VectorOp::div: return loop([](T x, T y) { return combine(VectorOp::div, x, y); });
    case VectorOp::max: return loop([](T x, T y) { return combine(VectorOp::max, x, y); });
    default: return loop([](T x, T y) { return combine(VectorOp::min, x, y); });
  }
}

// Row `row` of an operand that may have one row or one column only.
template <class Load> void load_operand(const Tile& tile, index row, index column, index count, auto* to, Load&& load) {
  if (tile.form.rows() == 1) row = 0;
  if (tile.form.columns() == 1 && count > 0) {
    load(tile, row, index{0}, index{1}, to);
    std::fill(to + 1, to + count, to[0]);
  } else {
    load(tile, row, column, count, to);
  }
}

constexpr auto load_floats = [](const Tile& tile, index row, index column, index count, float* to) {
  load(tile, row, column, count, to);
};
// Unsigned: the sums of a device wrap.
constexpr auto load_ints = [](const Tile& tile, index row, index column, index count, std::uint32_t* to) {
  for (index i = 0; i < count; ++i) to[i] = *element<std::uint32_t>(tile, row, column + i);
};

void binary_ints(VectorOp op, const Tile& dst, const Tile& a, const Tile& b) {
  std::uint32_t x[piece], y[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load_operand(a, row, column, count, x, load_ints);
    load_operand(b, row, column, count, y, load_ints);
    for (index i = 0; i < count; ++i) {
      const bool wraps = op == VectorOp::add || op == VectorOp::sub || op == VectorOp::mul;
      *element<std::uint32_t>(dst, row, column + i) =
          wraps ? combine(op, x[i], y[i])
                : static_cast<std::uint32_t>(combine(op, static_cast<std::int64_t>(static_cast<std::int32_t>(x[i])),
                                                     static_cast<std::int64_t>(static_cast<std::int32_t>(y[i]))));
    }
  });
}

}  // namespace

void binary(VectorOp op, const Tile& dst, const Tile& a, const Tile& b) {
  if (dst.form.dtype == DType::i32 && a.form.dtype == DType::i32 && b.form.dtype == DType::i32)
    return binary_ints(op, dst, a, b);
  float x[piece], y[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load_operand(a, row, column, count, x, load_floats);
    load_operand(b, row, column, count, y, load_floats);
    combine_all(op, count, x, y, x);
    store(dst, row, column, count, x);
  });
}

void scalar(VectorOp op, const Tile& dst, const Tile& a, float b) {
  float x[piece], y[piece];
  std::fill(y, y + piece, b);
  for_pieces(dst.form, [&](index row, index column, index count) {
    load(a, row, column, count, x);
    combine_all(op, count, x, y, x);
    store(dst, row, column, count, x);
  });
}

void unary(VectorOp op, const Tile& dst, const Tile& a) {
  using One = simd::Floats<isa::scalar>;
  float x[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load(a, row, column, count, x);
    if (op == VectorOp::exp)
      for (index i = 0; i < count; ++i) x[i] = exp(One(x[i])).v;
    if (op == VectorOp::rsqrt)
      for (index i = 0; i < count; ++i) x[i] = 1 / std::sqrt(x[i]);
    if (op == VectorOp::recip)
      for (index i = 0; i < count; ++i) x[i] = 1 / x[i];
    store(dst, row, column, count, x);
  });
}

void reduce(VectorOp op, const Tile& dst, const Tile& a, std::uint32_t lanes) {
  const VectorOp merge = op == VectorOp::reduce_max ? VectorOp::max : VectorOp::add;
  const float neutral = merge == VectorOp::max ? -std::numeric_limits<float>::infinity() : 0.0f;
  const index width = lanes, columns = a.form.columns();
  std::vector<float> partial(lanes), next(lanes);
  for (index row = 0; row < a.form.rows(); ++row) {
    std::fill(partial.begin(), partial.end(), neutral);
    for (index column = 0; column < columns; column += width) {
      const index count = std::min(width, columns - column);
      load(a, row, column, count, next.data());
      combine_all(merge, count, partial.data(), next.data(), partial.data());
    }
    for (index half = width / 2; half > 0; half /= 2)
      combine_all(merge, half, partial.data(), partial.data() + half, partial.data());
    store(dst, row, 0, 1, partial.data());
  }
}

void broadcast_row(const Tile& dst, const Tile& a) {
  float x[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load_operand(a, row, column, count, x, load_floats);
    store(dst, row, column, count, x);
  });
}

void cast(const Tile& dst, const Tile& a, Round round) {
  float x[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load(a, row, column, count, x);
    store(dst, row, column, count, x, round);
  });
}

void select(const Tile& dst, const Tile& mask, const Tile& yes, const Tile& no) {
  float m[piece], x[piece], y[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load_operand(mask, row, column, count, m, load_floats);
    load_operand(yes, row, column, count, x, load_floats);
    load_operand(no, row, column, count, y, load_floats);
    for (index i = 0; i < count; ++i) x[i] = m[i] != 0 ? x[i] : y[i];
    store(dst, row, column, count, x);
  });
}

void unpack4(const Tile& dst, const Tile& a) { cast(dst, a, Round::nearest); }

void shuffle(const Tile& dst, const Tile& a, const Tile& columns) {
  float x = 0;
  for (index row = 0; row < dst.form.rows(); ++row)
    for (index column = 0; column < dst.form.columns(); ++column) {
      const index from = *element<std::int32_t>(columns, 0, column);
      x = 0;
      if (from >= 0 && from < a.form.columns()) load(a, row, from, 1, &x);
      store(dst, row, column, 1, &x);
    }
}

void fill(const Tile& dst, float value) {
  float x[piece];
  std::fill(x, x + piece, value);
  for_pieces(dst.form, [&](index row, index column, index count) { store(dst, row, column, count, x); });
}

}  // namespace inlay::npu::tiles
