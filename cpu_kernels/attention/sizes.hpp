// The numbers by which attention is cut. Tests derive their lengths from them.
#pragma once

#include <inlay/core/view.hpp>

namespace inlay::cpu {

// Keys are taken in tiles that begin at multiples of key_tile counted from the first key of the
// sequence, whatever the chunk: with that, a row's arithmetic does not depend on its neighbours.
inline constexpr index key_tile = 64;
inline constexpr index lane_pad = 16;  // scratch rows are padded to the widest register
// (query, head) pairs that share a tile of keys. Zen 5, 2048 queries of 32:8 x 64: 96 327, 192 341, 288 340 GFLOP/s.
inline constexpr index max_rows = 192;
inline constexpr index part_rows = 24;  // of a unit, that are multiplied with as many keys of a tile as their last sees
inline constexpr index shared_unit_rows = 48;  // of a kv head: up to here memory is the limit, and heads share a unit

// Keys after which a partial result is merged into the whole.
inline constexpr index decode_split =
    1024;  // a split begins cold: with 512 keys 5% slower (Zen 4, 32:8 x 128, 4096 keys)
inline constexpr index prompt_split = 2048;  // a partial result costs what 96 keys of its rows cost to read back

// Keys come in eights where scores are summed over lanes: four are what one reduction takes, and one head alone needs
// eight chains of fma.
inline constexpr index row_tile = 8;
inline constexpr index kv_chunk_bytes = 64 << 10;  // of K, that decode reads of all its heads before the next
inline constexpr index max_square_rows = 16;       // up to here K is transposed in registers, where there are 32
inline constexpr int column_rows = 8;              // that share a square of it
inline constexpr int max_x4_rows = 8;              // rows over which four keys side by side pass
inline constexpr index min_x4_rows = 5;            // the fewest rows that pay: with four it is 0.9 times as fast
inline constexpr index max_x4_elements = 896;      // of q: four times that is what L1 holds beside K

}  // namespace inlay::cpu
