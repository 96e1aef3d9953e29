// Rows and columns become one number each, or their largest.
#include <vector>

#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

template <class T> void merge(VectorOp op, index count, const T* a, const T* b, T* out) {
  const auto loop = [&](auto&& f) {
    for (index i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  };
  switch (op) {
    case VectorOp::reduce_max:
    case VectorOp::column_max: return loop([](T x, T y) { return x > y ? x : y; });
    case VectorOp::reduce_min: return loop([](T x, T y) { return x < y ? x : y; });
    default: break;
  }
  if constexpr (std::is_integral_v<T>)
    loop([](T x, T y) { return static_cast<T>(static_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(y)); });
  else
    loop([](T x, T y) { return x + y; });
}

template <class T> T neutral(VectorOp op) {
  using Limits = std::numeric_limits<T>;
  const bool most = op == VectorOp::reduce_max || op == VectorOp::column_max;
  if (!most && op != VectorOp::reduce_min) return T{0};
  if constexpr (std::is_integral_v<T>)
    return most ? Limits::min() : Limits::max();
  else
    return most ? -Limits::infinity() : Limits::infinity();
}

// Work space of the host, kept from one call to the next.
template <class T> std::vector<T>& lanes_of(int which) {
  static thread_local std::vector<T> space[2];
  return space[which];
}

template <class T, class Load, class Store>
void reduce_rows(VectorOp op, const Tile& dst, const Tile& a, index lanes, Load&& load_row, Store&& store_one) {
  std::vector<T>&partial = lanes_of<T>(0), &next = lanes_of<T>(1);
  // Lanes that no element comes to stay neutral: the halves of nothing else are met once, as meeting them again changes
  // no bit.
  index width = lanes;
  while (width / 2 >= std::max<index>(1, a.form.columns())) width /= 2;
  next.resize(static_cast<std::size_t>(width));
  for (index row = 0; row < a.form.rows(); ++row) {
    partial.assign(static_cast<std::size_t>(width), neutral<T>(op));
    for (index column = 0; column < a.form.columns(); column += width) {
      const index count = std::min(width, a.form.columns() - column);
      load_row(a, row, column, count, next.data());
      merge(op, count, partial.data(), next.data(), partial.data());
    }
    if (width < lanes) {
      next.assign(static_cast<std::size_t>(width), neutral<T>(op));
      merge(op, width, partial.data(), next.data(), partial.data());
    }
    for (index half = width / 2; half > 0; half /= 2)
      merge(op, half, partial.data(), partial.data() + half, partial.data());
    store_one(dst, row, index{0}, index{1}, partial.data());
  }
}

template <class T, class Load, class Store>
void reduce_rows_of_columns(VectorOp op, const Tile& dst, const Tile& a, Load&& load_row, Store&& store_row) {
  T sum[piece], next[piece];
  for (index column = 0; column < a.form.columns(); column += piece) {
    const index count = std::min(piece, a.form.columns() - column);
    std::fill(sum, sum + count, neutral<T>(op));
    for (index row = 0; row < a.form.rows(); ++row) {
      load_row(a, row, column, count, next);
      merge(op, count, sum, next, sum);
    }
    store_row(dst, index{0}, column, count, sum);
  }
}

constexpr auto store_floats = [](const Tile& to, index row, index column, index count, const float* from) {
  store(to, row, column, count, from);
};
constexpr auto store_as_they_lie = [](const Tile& to, index row, index column, index count, const auto* from) {
  store_bits(to, row, column, count, from);
};

bool whole(const Tile& dst, const Tile& a) { return dst.form.dtype == DType::i32 && a.form.dtype == DType::i32; }

}  // namespace

void reduce(VectorOp op, const Tile& dst, const Tile& a, std::uint32_t lanes) {
  if (whole(dst, a)) return reduce_rows<std::int32_t>(op, dst, a, lanes, load_as_they_lie, store_as_they_lie);
  reduce_rows<float>(op, dst, a, lanes, load_floats, store_floats);
}

void reduce_columns(VectorOp op, const Tile& dst, const Tile& a) {
  if (whole(dst, a)) return reduce_rows_of_columns<std::int32_t>(op, dst, a, load_as_they_lie, store_as_they_lie);
  reduce_rows_of_columns<float>(op, dst, a, load_floats, store_floats);
}

void largest(const Tile& values, const Tile& indices, const Tile& a) {
  const index columns = a.form.columns(), wanted = values.form.columns();
  std::vector<float>& row_values = lanes_of<float>(0);
  std::vector<std::int32_t>& order = lanes_of<std::int32_t>(0);
  row_values.resize(static_cast<std::size_t>(columns));
  order.resize(static_cast<std::size_t>(columns));
  const float* x = row_values.data();
  const auto before = [x](std::int32_t i, std::int32_t j) {
    if (x[i] != x[i] || x[j] != x[j]) return x[j] != x[j] && (x[i] == x[i] || i < j);  // NaN last
    return x[i] > x[j] || (x[i] == x[j] && i < j);
  };
  for (index row = 0; row < a.form.rows(); ++row) {
    load(a, row, 0, columns, row_values.data());
    for (index c = 0; c < columns; ++c) order[static_cast<std::size_t>(c)] = static_cast<std::int32_t>(c);
    if (wanted == 1)
      std::swap(order[0], *std::min_element(order.begin(), order.end(), before));
    else
      std::partial_sort(order.begin(), order.begin() + wanted, order.end(), before);
    for (index c = 0; c < wanted; ++c) {
      const std::int32_t from = order[static_cast<std::size_t>(c)];
      store(values, row, c, 1, x + from);
      *element<std::int32_t>(indices, row, c) = from;
    }
  }
}

}  // namespace inlay::npu::tiles
