// Integer arithmetic of the vector unit: sums and products wrap, as a device's do.
#include "tile_machine/arithmetic/integers.hpp"

#include <type_traits>

namespace inlay::npu::tiles {

namespace {

// T is i8, u8 or i32. What wraps is formed without a sign.
template <class T> T combine(VectorOp op, T a, T b) {
  using Bits = std::make_unsigned_t<T>;
  const std::uint32_t x = static_cast<Bits>(a), y = static_cast<Bits>(b), shift = y % (8 * sizeof(T));
  switch (op) {
    case VectorOp::add: return static_cast<T>(x + y);
    case VectorOp::sub: return static_cast<T>(x - y);
    case VectorOp::mul: return static_cast<T>(x * y);
    case VectorOp::div: return b == 0 ? T{0} : static_cast<T>(std::int64_t{a} / b);
    case VectorOp::max: return a > b ? a : b;
    case VectorOp::min: return a < b ? a : b;
    case VectorOp::bit_and: return static_cast<T>(x & y);
    case VectorOp::bit_or: return static_cast<T>(x | y);
    case VectorOp::bit_xor: return static_cast<T>(x ^ y);
    case VectorOp::shift_left: return static_cast<T>(x << shift);
    default: return static_cast<T>(a >> shift);
  }
}

// The operator is chosen once for a piece, so that the loop over it vectorises.
template <class T> void combine_all(VectorOp op, index count, const T* a, const T* b, T* out) {
  const auto loop = [&](auto chosen) {
    for (index i = 0; i < count; ++i) out[i] = combine(chosen(), a[i], b[i]);
  };
  const auto is = [&]<VectorOp which>(std::integral_constant<VectorOp, which> constant) {
    if (op == which) loop(constant);
  };
  const auto all = [&]<VectorOp... each>(std::integral_constant<VectorOp, each>... constants) { (is(constants), ...); };
  all(std::integral_constant<VectorOp, VectorOp::add>{}, std::integral_constant<VectorOp, VectorOp::sub>{},
      std::integral_constant<VectorOp, VectorOp::mul>{}, std::integral_constant<VectorOp, VectorOp::div>{},
      std::integral_constant<VectorOp, VectorOp::max>{}, std::integral_constant<VectorOp, VectorOp::min>{},
      std::integral_constant<VectorOp, VectorOp::bit_and>{}, std::integral_constant<VectorOp, VectorOp::bit_or>{},
      std::integral_constant<VectorOp, VectorOp::bit_xor>{}, std::integral_constant<VectorOp, VectorOp::shift_left>{},
      std::integral_constant<VectorOp, VectorOp::shift_right>{});
}

template <class Body> void with_integer(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i8: return body(std::int8_t{});
    case DType::i32: return body(std::int32_t{});
    default: return body(std::uint8_t{});
  }
}

}  // namespace

void binary_integers(VectorOp op, const Tile& dst, const Tile& a, const Tile& b) {
  with_integer(dst.form.dtype, [&]<class T>(T) {
    T x[piece], y[piece];
    for_pieces(dst.form, [&](index row, index column, index count) {
      load_operand(a, row, column, count, x, load_as_they_lie);
      load_operand(b, row, column, count, y, load_as_they_lie);
      combine_all(op, count, x, y, x);
      store_bits(dst, row, column, count, x);
    });
  });
}

void scalar_integers(VectorOp op, const Tile& dst, const Tile& a, std::int32_t b) {
  with_integer(dst.form.dtype, [&]<class T>(T) {
    T x[piece], y[piece];
    std::fill(y, y + piece, static_cast<T>(b));
    for_pieces(dst.form, [&](index row, index column, index count) {
      load_bits(a, row, column, count, x);
      combine_all(op, count, x, y, x);
      store_bits(dst, row, column, count, x);
    });
  });
}

}  // namespace inlay::npu::tiles
