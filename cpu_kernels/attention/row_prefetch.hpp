// Rows of K or V that will be read next, asked for while others are multiplied.
//
// Each head asks for its share of what the unit reads, in the order in which it lies, a token's heads side by side.
// Where it asked for its own rows and skipped from token to token, memory gave a tenth less (Zen 5, two threads, 8 kv
// heads of 128 in f16: 31 of 36 GB/s).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu_kernels/simd/prefetch.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

// Kv head `at` of those that a unit takes through a chunk.
struct UnitHeads {
  index first, count, at;
};

struct RowPrefetch {
  const std::byte* cache = nullptr;  // of the unit's first head
  const index* row = nullptr;        // of the token that is asked for next
  index element = 0;                 // bytes
  index count = 0, bytes = 0;        // rows that are left, of all tokens and heads; bytes of one
  index heads = 1, head_stride = 0;
  index head = 0;  // of the row that is asked for next

  // Asks for the next n. (With a division for each row instead of a place that moves on they took a sixth of what
  // decode of 14:2 x 64 executes, AVX2.)
  INLAY_INLINE void ask(index n) {
    n = min(n, count);
    count -= n;
    for (; n > 0; --n) {
      simd::prefetch_lines(cache + *row * element + head * head_stride, bytes);
      if (++head == heads) head = 0, ++row;
    }
  }
  // Of `all` equal parts of them those from `begin` to `end`.
  INLAY_INLINE RowPrefetch share(index begin, index end, index all) const {
    const index skipped = count * begin / all;
    const std::uint32_t place = static_cast<std::uint32_t>(head + skipped), unit = static_cast<std::uint32_t>(heads);
    RowPrefetch some = *this;
    some.row += place / unit;
    some.head = place % unit;
    some.count = count * end / all - skipped;
    return some;
  }
};

}  // namespace inlay::cpu
