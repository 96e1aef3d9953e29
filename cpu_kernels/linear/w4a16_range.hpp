// Rows of x for exact_float: a row is multiplied by a power of two of its own, and each x by the power that
// the form of its code takes out (simd/int4.hpp). Both are exact, and the results are multiplied back:
//
//   y[n] = 2^-power * sum_s (x[s] * 2^(power - exponent of s)) * (q[n,s] * 2^(exponent of s))
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu_kernels/linear/w4a16_weight.hpp"

namespace inlay::cpu {

// The largest |x| of a row, as far as slots name it.
template <class Level, class T> float w4_largest(const W4Weight& w, const T* x) {
  using F = simd::Floats<Level>;
  float most = 0;
  if (w.perm) {
    for (index s = 0; s < w.slots; ++s) {
      const float value = w.perm[s] < 0 ? 0 : std::abs(static_cast<float>(x[w.perm[s]]));
      if (value > most) most = value;
    }
    return most;
  }
  F largest;
  for (index s = 0; s < w.slots; s += F::size) {
    const index n = w.slots - s;
    largest = max(largest, abs(n < F::size ? F::load(x + s, n) : F::load(x + s)));
  }
  return reduce_max(largest);
}

// What is taken out of x: for each code of a word the power of its form. Whatever codes a weight has, x is prepared by
// one function, which reads these.
struct W4Powers {
  int least;                    // of f32 numbers as codes are read: simd::min_exponent
  index period;                 // codes of a word
  int place[w4_step_slots(4)];  // of a code's lowest bit

  template <simd::CodeForm Form, simd::Codes Kind> static constexpr W4Powers of() {
    W4Powers powers{simd::min_exponent<Form>, simd::codes_of_word<Kind>, {}};
    for (index i = 0; i < powers.period; ++i) powers.place[i] = simd::code_place<Form, Kind>(i);
    return powers;
  }
};

// The power brings the row's largest below 2^-22. From there what a code takes out of x (up to 2^-149) is in
// the range of f32, and products are far from its ends.
template <class Level> struct W4Range {
  static constexpr index lanes = simd::Floats<Level>::size;
  int power;
  // An x is multiplied twice, since the codes' power and the row's together may exceed the range.
  float first, second[w4_step_slots(4) + lanes];

  W4Range() = default;
  W4Range(const W4Powers& powers, float largest) {
    constexpr int to = -23, least = -125, most = 101;
    const int exponent = static_cast<int>(std::bit_cast<std::uint32_t>(largest) >> 23 & 255) - 127;
    power = std::clamp(to - exponent, least, most);
    const int together = power - powers.least;
    first = power_of_two(together / 2);
    for (index i = 0; i < powers.period + lanes; ++i)
      second[i] = power_of_two(together - together / 2 - powers.place[i % powers.period]);
  }
  float into() const { return power_of_two(power); }
  float back() const { return power_of_two(-power); }

 private:
  static float power_of_two(int n) { return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23); }
};

// Slots s .. stop of a row of x as the codes' form wants them into values[0 ..]; returns their sum. A
// slot without input is 0.
template <class Level, class T>
float w4_prepare(const T* x, const W4Range<Level>& range, index period, const std::int32_t* perm, index s, index stop,
                 float* values) {
  using F = simd::Floats<Level>;
  if (perm)
    for (index i = s; i < stop; ++i) values[i - s] = perm[i] < 0 ? 0 : static_cast<float>(x[perm[i]]);
  const F first(range.first);
  F sum;
  for (index i = 0; i < stop - s; i += F::size) {
    const index n = min(stop - s - i, F::size);
    const F value = perm ? F::load(values + i, n) : n == F::size ? F::load(x + s + i) : F::load(x + s + i, n);
    sum = sum + value;
    (value * first * F::load(range.second + (i & (period - 1)))).store(values + i, n);
  }
  return reduce_sum(sum) * range.into();
}

// Tile `t`: the rows t * R .. of x side by side, R of them. Rows beyond the last are zero. back [R].
template <class Level>
void w4_prepare_tile(const LinearW4a16<Host>& op, const W4Weight& w, const W4Powers& powers, index t, index R, float* x,
                     float* sums, float* back) {
  constexpr index most = w4_tile_rows(simd::Floats<Level>::size);
  const index have = min(op.x.extents[0] - t * R, R);
  float values[most][w4_block] = {};
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    const auto row = [&](index r) { return op.x.as<T>() + (t * R + r) * op.x.strides[0]; };
    W4Range<Level> ranges[most];
    for (index r = 0; r < have; ++r) {
      ranges[r] = W4Range<Level>(powers, w4_largest<Level>(w, row(r)));
      back[r] = ranges[r].back();
    }
    for (index begin = 0; begin < w.slots; begin += w4_block)
      for_each_segment(begin, w.block_end(begin), w.group, [&](index s, index stop, index) {
        if (R == 1) {
          *sums++ = w4_prepare(row(0), ranges[0], powers.period, w.perm, s, stop, x);
          x += stop - s;
          return;
        }
        for (index r = 0; r < have; ++r)
          sums[r] = w4_prepare(row(r), ranges[r], powers.period, w.perm, s, stop, values[r]);
        for (index r = have; r < R; ++r) sums[r] = 0;
        for (index i = 0; i < stop - s; ++i)
          for (index r = 0; r < R; ++r) *x++ = values[r][i];
        sums += R;
      });
  });
}

}  // namespace inlay::cpu
