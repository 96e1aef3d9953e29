// Elements of a tile as f32: rows of any layout and type, widened exactly and narrowed once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tile_machine/arithmetic/tiles.hpp"

namespace inlay::npu::tiles {

// Vector operations work in pieces of a row, so that their operands stay on the stack.
inline constexpr index piece = 256;

// Bytes from the tile's first element to element (row, column), for types of whole bytes.
inline index element_offset(const Tensor& form, index row, index column) {
  if (form.flipped) std::swap(row, column);
  if (form.layout == Layout::nd) return row * form.pitch + column;
  return (column / form.block * form.pitch + row) * form.block + column % form.block;
}

template <class T> T* element(const Tile& tile, index row, index column) {
  return reinterpret_cast<T*>(tile.data) + element_offset(tile.form, row, column);
}

// Elements from (row, column) that lie side by side, up to `count`.
inline index adjacent(const Tensor& form, index column, index count) {
  if (form.flipped) return 1;
  return form.layout == Layout::nd ? count : std::min(count, form.block - column % form.block);
}

// Elements from one row of the layout to the next.
inline index row_stride(const Tensor& form) { return form.layout == Layout::nd ? form.pitch : form.block; }

// Calls body(T{}) with the storage type of `dtype`. i4 and u4 are not storage types of their own.
template <class Body> auto with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f16: return body(f16{});
    case DType::bf16: return body(bf16{});
    case DType::i8: return body(std::int8_t{});
    case DType::u8:
    case DType::boolean: return body(std::uint8_t{});
    case DType::i32: return body(std::int32_t{});
    default: return body(float{});
  }
}

template <class Number> Number round_to_integer(Number value, Round round) {
  switch (round) {
    case Round::floor: return std::floor(value);
    case Round::ceil: return std::ceil(value);
    case Round::zero: return std::trunc(value);
    default: return std::nearbyint(value);
  }
}

// Rounded, then saturated; NaN becomes 0. Of a double: rounded once.
template <class T, class Number> T narrow(Number value, Round round) {
  if constexpr (std::is_integral_v<T>) {
    const double rounded = round_to_integer(value, round);
    if (rounded != rounded) return 0;
    return static_cast<T>(std::clamp(rounded, static_cast<double>(std::numeric_limits<T>::min()),
                                     static_cast<double>(std::numeric_limits<T>::max())));
  } else if constexpr (std::is_same_v<Number, double> && !std::is_same_v<T, float>) {
    return static_cast<T>(round_to_odd(value));
  } else {
    return static_cast<T>(value);
  }
}

inline void load_nibbles(const Tile& tile, index row, index column, index count, float* to) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tile.data);
  for (index i = 0; i < count; ++i) {
    const index at = element_offset(tile.form, row, column + i);
    const int nibble = bytes[at / 2] >> (at % 2 * 4) & 15;
    to[i] = static_cast<float>(tile.form.dtype == DType::i4 && nibble > 7 ? nibble - 16 : nibble);
  }
}

inline void load(const Tile& tile, index row, index column, index count, float* to) {
  if (bits(tile.form.dtype) == 4) return load_nibbles(tile, row, column, count, to);
  with_type(tile.form.dtype, [&]<class T>(T) {
    for (index i = 0; i < count;) {
      const index run = adjacent(tile.form, column + i, count - i);
      const T* from = element<T>(tile, row, column + i);
      for (index j = 0; j < run; ++j) to[i + j] = static_cast<float>(from[j]);
      i += run;
    }
  });
}

// Rounded, then saturated to -8..7 or 0..15; the other half of a byte stays.
inline void store_nibbles(const Tile& tile, index row, index column, index count, const float* from, Round round) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(tile.data);
  const float low = tile.form.dtype == DType::i4 ? -8 : 0, high = low + 15;
  for (index i = 0; i < count; ++i) {
    const index at = element_offset(tile.form, row, column + i);
    const float rounded = round_to_integer(from[i], round);
    const int code = rounded != rounded ? 0 : static_cast<int>(std::clamp(rounded, low, high));
    const int shift = static_cast<int>(at % 2) * 4;
    bytes[at / 2] = static_cast<std::uint8_t>((bytes[at / 2] & ~(15 << shift)) | (code & 15) << shift);
  }
}

inline void store(const Tile& tile, index row, index column, index count, const float* from,
                  Round round = Round::nearest) {
  if (bits(tile.form.dtype) == 4) return store_nibbles(tile, row, column, count, from, round);
  with_type(tile.form.dtype, [&]<class T>(T) {
    for (index i = 0; i < count;) {
      const index run = adjacent(tile.form, column + i, count - i);
      T* to = element<T>(tile, row, column + i);
      for (index j = 0; j < run; ++j) to[j] = narrow<T>(from[i + j], round);
      i += run;
    }
  });
}

// Elements as they lie, of a type as wide as T.
template <class T> void load_bits(const Tile& tile, index row, index column, index count, T* to) {
  for (index i = 0; i < count;) {
    const index run = adjacent(tile.form, column + i, count - i);
    std::memcpy(to + i, element<T>(tile, row, column + i), static_cast<std::size_t>(run) * sizeof(T));
    i += run;
  }
}
template <class T> void store_bits(const Tile& tile, index row, index column, index count, const T* from) {
  for (index i = 0; i < count;) {
    const index run = adjacent(tile.form, column + i, count - i);
    std::memcpy(element<T>(tile, row, column + i), from + i, static_cast<std::size_t>(run) * sizeof(T));
    i += run;
  }
}

// Calls body(T{}) with an unsigned integer as wide as the elements, which are whole bytes.
template <class Body> void with_width(DType dtype, Body&& body) {
  switch (bits(dtype)) {
    case 8: return body(std::uint8_t{});
    case 16: return body(std::uint16_t{});
    case 64: return body(std::uint64_t{});
    default: return body(std::uint32_t{});
  }
}

// Row `row` of an operand that may have one row or one column only: load(tile, row, column, count, to).
template <class T, class Load>
void load_operand(const Tile& tile, index row, index column, index count, T* to, Load&& load) {
  if (tile.form.rows() == 1) row = 0;
  if (tile.form.columns() == 1 && count > 0) {
    load(tile, row, index{0}, index{1}, to);
    std::fill(to + 1, to + count, to[0]);
  } else {
    load(tile, row, column, count, to);
  }
}

inline constexpr auto load_floats = [](const Tile& tile, index row, index column, index count, float* to) {
  load(tile, row, column, count, to);
};
inline constexpr auto load_as_they_lie = [](const Tile& tile, index row, index column, index count, auto* to) {
  load_bits(tile, row, column, count, to);
};

// Short rows are worked through several at a time: what a row costs to find is then paid for a piece.
struct Block {
  index row, rows, column, columns;
  index count() const { return rows * columns; }
};

// body(block) over all blocks of a piece at most.
template <class Body> void for_blocks(const Tensor& form, Body&& body) {
  const index columns = form.shape.columns, together = columns < 1 ? 1 : std::max<index>(1, piece / columns);
  for (index row = 0; row < form.shape.rows; row += together)
    for (index column = 0; column < columns; column += piece)
      body(Block{row, std::min(together, form.shape.rows - row), column, std::min(piece, columns - column)});
}

// Row after row into `to`, with(from, to, count) for what lies side by side; and back, with(to, from, count).
template <class T, class With> void for_runs(const Tile& tile, const Block& block, With&& with) {
  const bool plain = tile.form.layout == Layout::nd && !tile.form.flipped;
  index done = 0;
  for (index row = block.row; row < block.row + block.rows; ++row) {
    if (plain) {
      with(element<T>(tile, row, block.column), done, block.columns);
      done += block.columns;
      continue;
    }
    for (index i = 0; i < block.columns;) {
      const index run = adjacent(tile.form, block.column + i, block.columns - i);
      with(element<T>(tile, row, block.column + i), done, run);
      done += run;
      i += run;
    }
  }
}

inline void load(const Tile& tile, const Block& block, float* to) {
  if (bits(tile.form.dtype) == 4) {
    for (index r = 0; r < block.rows; ++r)
      load_nibbles(tile, block.row + r, block.column, block.columns, to + r * block.columns);
    return;
  }
  with_type(tile.form.dtype, [&]<class T>(T) {
    for_runs<T>(tile, block, [&](const T* from, index at, index count) {
      for (index j = 0; j < count; ++j) to[at + j] = static_cast<float>(from[j]);
    });
  });
}

inline void store(const Tile& tile, const Block& block, const float* from, Round round = Round::nearest) {
  if (bits(tile.form.dtype) == 4) {
    for (index r = 0; r < block.rows; ++r)
      store_nibbles(tile, block.row + r, block.column, block.columns, from + r * block.columns, round);
    return;
  }
  with_type(tile.form.dtype, [&]<class T>(T) {
    for_runs<T>(tile, block, [&](T* to, index at, index count) {
      for (index j = 0; j < count; ++j) to[j] = narrow<T>(from[at + j], round);
    });
  });
}

template <class T> void load_bits(const Tile& tile, const Block& block, T* to) {
  for_runs<T>(tile, block, [&](const T* from, index at, index count) {
    std::memcpy(to + at, from, static_cast<std::size_t>(count) * sizeof(T));
  });
}
template <class T> void store_bits(const Tile& tile, const Block& block, const T* from) {
  for_runs<T>(tile, block, [&](T* to, index at, index count) {
    std::memcpy(to, from + at, static_cast<std::size_t>(count) * sizeof(T));
  });
}

// Of an operand that may have one row or one column only: load_values(tile, block, to).
template <class T, class Load> void load_operand(const Tile& tile, const Block& block, T* to, Load&& load_values) {
  const bool one_row = tile.form.rows() == 1, one_column = tile.form.columns() == 1 && block.columns > 0;
  if (!one_row && !one_column) return load_values(tile, block, to);
  for (index r = 0; r < block.rows; ++r) {
    T* const row = to + r * block.columns;
    const index from = one_row ? 0 : block.row + r;
    if (one_row && r > 0) {
      std::copy_n(to, block.columns, row);
    } else if (one_column) {
      load_values(tile, Block{from, 1, 0, 1}, row);
      std::fill(row + 1, row + block.columns, row[0]);
    } else {
      load_values(tile, Block{from, 1, block.column, block.columns}, row);
    }
  }
}

inline constexpr auto load_block = [](const Tile& tile, const Block& block, float* to) { load(tile, block, to); };
inline constexpr auto load_block_bits = [](const Tile& tile, const Block& block, auto* to) {
  load_bits(tile, block, to);
};

// body(row, column, count) over the pieces of all rows.
template <class Body> void for_pieces(const Tensor& form, Body&& body) {
  for (index row = 0; row < form.shape.rows; ++row)
    for (index column = 0; column < form.shape.columns; column += piece)
      body(row, column, std::min(piece, form.shape.columns - column));
}

}  // namespace inlay::npu::tiles
