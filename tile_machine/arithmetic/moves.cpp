// Moves: copies between layouts, the accumulator's drain, atomic addition.
#include <array>
#include <type_traits>

#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

// Zeros behind the last column of a fractal tile, up to the end of its block.
void fill_tail(const Tile& to) {
  const Tensor& form = to.form;
  const index rows = form.flipped ? form.columns() : form.rows(), columns = form.flipped ? form.rows() : form.columns();
  const index tail = form.layout == Layout::nz ? columns % form.block : 0;
  if (tail == 0) return;
  const auto bytes = static_cast<std::size_t>(bits(form.dtype) / 8);
  Tile plain = to;
  plain.form.flipped = false;
  for (index row = 0; row < rows; ++row)
    std::memset(to.data + static_cast<std::size_t>(element_offset(plain.form, row, columns)) * bytes, 0,
                static_cast<std::size_t>(form.block - tail) * bytes);
}

// The fractal blocks of 16-bit types: bounds that the compiler knows.
constexpr std::integral_constant<index, 16> square;

template <class T, class Rows, class Columns>
void turn(Rows rows, Columns columns, T* to, index to_step, const T* from, index from_step) {
  for (index r = 0; r < rows; ++r)
    for (index c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
}

// One of the two is flipped: where their fractal blocks meet, a rectangle of elements is turned.
template <class T> void copy_turned(const Tile& to, const Tile& from) {
  Tile plain = to, turned = from;
  if (to.form.flipped) {
    plain.form = to.form.transposed();
    turned.form = from.form.transposed();
  }
  const Tensor source = turned.form.transposed();  // as it lies: element (r, c) of `plain` is its (c, r)
  const index rows = plain.form.rows(), columns = plain.form.columns();
  const index to_step = row_stride(plain.form), from_step = row_stride(source);
  for (index row = 0; row < rows;) {
    const index height = adjacent(source, row, rows - row);
    for (index column = 0; column < columns;) {
      const index width = adjacent(plain.form, column, columns - column);
      T* into = element<T>(plain, row, column);
      const T* out_of = element<T>(turned, row, column);
      if (height == square && width == square)
        turn(square, square, into, to_step, out_of, from_step);
      else
        turn(height, width, into, to_step, out_of, from_step);
      column += width;
    }
    row += height;
  }
}

template <class T> void copy_elements(const Tile& to, const Tile& from) {
  if (to.form.flipped != from.form.flipped) return copy_turned<T>(to, from);
  if (to.form.flipped) {
    const Tile plain_to{to.form.transposed(), to.data}, plain_from{from.form.transposed(), from.data};
    return copy_elements<T>(plain_to, plain_from);
  }
  const index rows = to.form.rows(), columns = to.form.columns();
  const index to_step = row_stride(to.form), from_step = row_stride(from.form);
  for (index column = 0; column < columns;) {
    const index run =
        std::min(adjacent(to.form, column, columns - column), adjacent(from.form, column, columns - column));
    T* into = element<T>(to, 0, column);
    const T* out_of = element<T>(from, 0, column);
    constexpr index fractal = 32 / sizeof(T);  // a row of the commonest block: one copy without a call
    if (run == fractal)
      for (index row = 0; row < rows; ++row)
        std::memcpy(into + row * to_step, out_of + row * from_step, fractal * sizeof(T));
    else
      for (index row = 0; row < rows; ++row)
        std::memcpy(into + row * to_step, out_of + row * from_step, static_cast<std::size_t>(run) * sizeof(T));
    column += run;
  }
}

// Two elements to a byte, in rows of whole bytes: a tile of bytes with half the columns.
Tile halved(const Tile& tile) {
  Tile bytes = tile;
  bytes.form.dtype = DType::u8;
  bytes.form.shape.columns = (tile.form.columns() + 1) / 2;
  if (tile.form.layout == Layout::nd)
    bytes.form.pitch = tile.form.pitch / 2;
  else
    bytes.form.block = tile.form.block / 2;
  return bytes;
}

// One by one: what is turned, or cut in mid-byte.
void copy_nibbles(const Tile& to, const Tile& from) {
  float values[piece];
  for_pieces(to.form, [&](index row, index column, index count) {
    load(from, row, column, count, values);
    store(to, row, column, count, values);
  });
}

}  // namespace

void copy(const Tile& to, const Tile& from) {
  const int width = bits(to.form.dtype);
  if (width == 4) {
    if (to.form.flipped || from.form.flipped) return copy_nibbles(to, from);
    return copy(halved(to), halved(from));
  }
  if (width == 8) copy_elements<std::uint8_t>(to, from);
  if (width == 16) copy_elements<std::uint16_t>(to, from);
  if (width == 32) copy_elements<std::uint32_t>(to, from);
  if (width == 64) copy_elements<std::uint64_t>(to, from);
  fill_tail(to);
}

void copy_by_axes(const NdTensor& to, std::byte* into, const NdTensor& from, const std::byte* out_of) {
  const index run = common_run(to, from);
  const int width = bits(to.first.dtype);
  // Odometer over the axes outside of the run, the innermost one in a loop of its own.
  int outer = to.rank;
  for (index inside = 1; outer > 0 && inside < run; --outer) inside *= to.extent(outer - 1);
  while (outer > 0 && to.extent(outer - 1) == 1) --outer;
  const index count = outer > 0 ? to.extent(outer - 1) : 1;
  const index to_step = outer > 0 ? to.stride(outer - 1) * width / 8 : 0;
  const index from_step = outer > 0 ? from.stride(outer - 1) * width / 8 : 0;
  const auto bytes = static_cast<std::size_t>(byte_size(to.first.dtype, run));
  const auto line = [&](std::byte* a, const std::byte* b) {
    const auto move = [&](auto fixed) {
      for (index i = 0; i < count; ++i) std::memcpy(a + i * to_step, b + i * from_step, fixed);
    };
    switch (bytes) {  // sizes that are one instruction
      case 1: return move(std::integral_constant<std::size_t, 1>{});
      case 2: return move(std::integral_constant<std::size_t, 2>{});
      case 4: return move(std::integral_constant<std::size_t, 4>{});
      case 16: return move(std::integral_constant<std::size_t, 16>{});
      default: return move(bytes);
    }
  };
  std::array<index, NdTensor::max_rank> at{};
  for (;;) {
    index to_at = 0, from_at = 0;
    for (int a = 0; a < outer - 1; ++a) {
      to_at += at[static_cast<std::size_t>(a)] * to.stride(a);
      from_at += at[static_cast<std::size_t>(a)] * from.stride(a);
    }
    line(into + to_at * width / 8, out_of + from_at * width / 8);
    int axis = outer - 2;
    while (axis >= 0 && ++at[static_cast<std::size_t>(axis)] == to.extent(axis))
      at[static_cast<std::size_t>(axis--)] = 0;
    if (axis < 0) return;
  }
}

void drain(const Tile& to, const Tile& acc, const DrainOptions& options, const Tile& scales, const Tile& bias) {
  if (to.form.dtype == DType::i32 && acc.form.dtype == DType::i32) {
    std::int32_t sums[piece];
    for_pieces(to.form, [&](index row, index column, index count) {
      load_bits(acc, row, column, count, sums);
      if (options.relu)
        for (index i = 0; i < count; ++i) sums[i] = std::max(0, sums[i]);
      store_bits(to, row, column, count, sums);
    });
    return fill_tail(to);
  }
  float values[piece], of_columns[piece];
  for_pieces(to.form, [&](index row, index column, index count) {
    load(acc, row, column, count, values);
    if (options.scale != 1)
      for (index i = 0; i < count; ++i) values[i] *= options.scale;
    if (scales.data != nullptr) {
      load(scales, 0, column, count, of_columns);
      for (index i = 0; i < count; ++i) values[i] *= of_columns[i];
    }
    if (bias.data != nullptr) {
      load(bias, 0, column, count, of_columns);
      for (index i = 0; i < count; ++i) values[i] += of_columns[i];
    }
    if (options.relu)
      for (index i = 0; i < count; ++i) values[i] = values[i] < 0 ? 0 : values[i];
    if (options.zero != 0)  // after the rounding
      for (index i = 0; i < count; ++i) values[i] = std::nearbyint(values[i]) + static_cast<float>(options.zero);
    store(to, row, column, count, values);
  });
  fill_tail(to);
}

void atomic_add(const Tile& to, const Tile& from) {
  if (to.form.dtype == DType::i32) return binary(VectorOp::add, to, to, from);
  float sum[piece], addend[piece];
  for_pieces(to.form, [&](index row, index column, index count) {
    load(to, row, column, count, sum);
    load(from, row, column, count, addend);
    for (index i = 0; i < count; ++i) sum[i] += addend[i];
    store(to, row, column, count, sum);
  });
}

double read(const Tile& tile, index row, index column) {
  if (tile.form.dtype == DType::i32) return *element<std::int32_t>(tile, row, column);
  if (tile.form.dtype == DType::i64) return static_cast<double>(*element<std::int64_t>(tile, row, column));
  float value = 0;
  load(tile, row, column, 1, &value);
  return value;
}

void write(const Tile& tile, index row, index column, double value) {
  if (tile.form.dtype == DType::i32) {
    *element<std::int32_t>(tile, row, column) = narrow<std::int32_t>(value, Round::nearest);
  } else if (tile.form.dtype == DType::i64) {
    *element<std::int64_t>(tile, row, column) = std::llrint(value);
  } else if (tile.form.dtype == DType::f32) {
    *element<float>(tile, row, column) = static_cast<float>(value);
  } else {
    const float rounded = round_to_odd(value);  // so that the next rounding is as if there had been one
    store(tile, row, column, 1, &rounded);
  }
}

}  // namespace inlay::npu::tiles
