// Elements by their place: comparisons, sequences, and what is picked by an index.
#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

template <class T> void compare_all(Compare how, index count, const T* a, const T* b, float* out) {
  const auto loop = [&](auto&& f) {
    for (index i = 0; i < count; ++i) out[i] = f(a[i], b[i]) ? 1.0f : 0.0f;
  };
  switch (how) {
    case Compare::less: return loop([](T x, T y) { return x < y; });
    case Compare::less_equal: return loop([](T x, T y) { return x <= y; });
    case Compare::greater: return loop([](T x, T y) { return x > y; });
    case Compare::greater_equal: return loop([](T x, T y) { return x >= y; });
    case Compare::equal: return loop([](T x, T y) { return x == y; });
    default: return loop([](T x, T y) { return x != y; });
  }
}

template <class T, class Load, class Second>
void compare_with(Compare how, const Tile& dst, const Tile& a, Load&& load_values, Second&& second) {
  T x[piece], y[piece];
  float mask[piece];
  for_blocks(dst.form, [&](const Block& block) {
    load_operand(a, block, x, load_values);
    second(block, y);
    compare_all(how, block.count(), x, y, mask);
    store(dst, block, mask);
  });
}

// Picks element `at(row, column)` of each row of a; -1 gives 0.
template <class At> void pick(const Tile& dst, const Tile& a, At&& at) {
  const auto rows = [&](auto* x, auto&& load_one, auto&& store_all) {
    for_pieces(dst.form, [&](index row, index column, index count) {
      for (index i = 0; i < count; ++i) {
        const index from = at(row, column + i);
        x[i] = {};
        if (from >= 0 && from < a.form.columns()) load_one(a, a.form.rows() == 1 ? 0 : row, from, index{1}, x + i);
      }
      store_all(dst, row, column, count, x);
    });
  };
  if (dst.form.dtype == a.form.dtype)
    return with_width(dst.form.dtype, [&]<class T>(T) {
      T x[piece];
      rows(x, load_as_they_lie, [](auto&&... to) { store_bits(to...); });
    });
  float x[piece];
  rows(x, load_floats, [](auto&&... to) { store(to...); });
}

}  // namespace

void compare(Compare how, const Tile& dst, const Tile& a, const Tile& b) {
  if (a.form.dtype == DType::i32 && b.form.dtype == DType::i32)
    return compare_with<std::int32_t>(how, dst, a, load_block_bits, [&](const Block& block, std::int32_t* to) {
      load_operand(b, block, to, load_block_bits);
    });
  compare_with<float>(how, dst, a, load_block,
                      [&](const Block& block, float* to) { load_operand(b, block, to, load_block); });
}

void compare(Compare how, const Tile& dst, const Tile& a, Scalar b) {
  if (b.whole && a.form.dtype == DType::i32)
    return compare_with<std::int32_t>(how, dst, a, load_block_bits, [&](const Block& block, std::int32_t* to) {
      std::fill(to, to + block.count(), static_cast<std::int32_t>(b.value));
    });
  compare_with<float>(how, dst, a, load_block, [&](const Block& block, float* to) {
    std::fill(to, to + block.count(), static_cast<float>(b.value));
  });
}

void iota(const Tile& dst, const Iota& sequence) {
  with_type(dst.form.dtype, [&]<class T>(T) {
    T x[piece];
    for_pieces(dst.form, [&](index row, index column, index count) {
      const double start = sequence.first + static_cast<double>(row) * sequence.row_step;
      for (index i = 0; i < count; ++i)
        x[i] = narrow<T>(start + static_cast<double>(column + i) * sequence.column_step, Round::nearest);
      store_bits(dst, row, column, count, x);
    });
  });
}

void shuffle(const Tile& dst, const Tile& a, const Tile& columns) {
  pick(dst, a, [&](index, index column) { return index{*element<std::int32_t>(columns, 0, column)}; });
}

void gather(const Tile& dst, const Tile& a, const Tile& indices) {
  pick(dst, a, [&](index row, index column) {
    return index{*element<std::int32_t>(indices, indices.form.rows() == 1 ? 0 : row, column)};
  });
}

}  // namespace inlay::npu::tiles
