// Casts of the vector unit: rounded once, then saturated.
#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

// i32 has more digits than f32: it is rounded to the type that it becomes, and not to f32 before.
void cast_whole(const Tile& dst, const Tile& a) {
  std::int32_t x[piece];
  for_pieces(dst.form, [&](index row, index column, index count) {
    load_bits(a, row, column, count, x);
    if (bits(dst.form.dtype) == 4) {  // what f32 rounds lies far outside of four bits
      float y[piece];
      for (index i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
      return store(dst, row, column, count, y);
    }
    with_type(dst.form.dtype, [&]<class T>(T) {
      T y[piece];
      for (index i = 0; i < count; ++i) y[i] = narrow<T>(static_cast<double>(x[i]), Round::nearest);
      store_bits(dst, row, column, count, y);
    });
  });
}

}  // namespace

void cast(const Tile& dst, const Tile& a, Round round) {
  if (dst.form.dtype == a.form.dtype) return copy(dst, a);
  if (a.form.dtype == DType::i32) return cast_whole(dst, a);
  float x[piece];
  for_blocks(dst.form, [&](const Block& block) {
    load(a, block, x);
    store(dst, block, x, round);
  });
}

}  // namespace inlay::npu::tiles
