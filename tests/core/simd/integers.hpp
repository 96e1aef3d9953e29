// Integer lanes, pairs of 16-bit numbers and dot products, all exact: against the same sums one by one.
#pragma once

#include <algorithm>

#include "cpu_kernels/simd/dot_bf16.hpp"
#include "cpu_kernels/simd/dot_i8.hpp"
#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/ints.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "tests/core/simd/lanes.hpp"

namespace inlay {
namespace {

using Ints = simd::Ints<Level>;

std::array<std::int32_t, N> int_lanes(Ints v) {
  std::array<std::int32_t, N> out;
  v.store(out.data());
  return out;
}

TEST(simd, integer_lanes) {
  std::mt19937 rng(1);
  std::vector<std::int32_t> a, b;
  const std::int32_t special[] = {0,
                                  1,
                                  -1,
                                  127,
                                  -128,
                                  128,
                                  1 << 24,
                                  (1 << 24) + 1,
                                  (1 << 24) + 3,
                                  33554435,
                                  2147483647,
                                  -2147483647 - 1,
                                  -16777219,
                                  0x01020304,
                                  -2139062144};
  for (std::int32_t x : special)
    for (std::int32_t y : special) a.push_back(x), b.push_back(y);
  while (a.size() < 4000 || a.size() % N != 0)
    a.push_back(static_cast<std::int32_t>(rng())), b.push_back(static_cast<std::int32_t>(rng()));
  for (std::size_t k = 0; k < a.size(); k += N) {
    const Ints x = Ints::load(&a[k]), y = Ints::load(&b[k]);
    const auto less = int_lanes(x - y), times = int_lanes(x * y);
    const Lanes wide = lanes(x.floats());
    for (index i = 0; i < N; ++i) {
      const auto p = static_cast<std::uint32_t>(a[k + i]), q = static_cast<std::uint32_t>(b[k + i]);
      ASSERT_EQ(static_cast<std::uint32_t>(less[i]), p - q);
      ASSERT_EQ(static_cast<std::uint32_t>(times[i]), p * q);
      ASSERT_EQ(wide[i], static_cast<float>(static_cast<double>(a[k + i]))) << a[k + i];
    }
    for (int j = 0; j < 4; ++j) {
      const auto bytes = int_lanes(x.byte(j));
      for (index i = 0; i < N; ++i)
        ASSERT_EQ(bytes[i], static_cast<std::int8_t>(static_cast<std::uint32_t>(a[k + i]) >> 8 * j & 255)) << j;
    }
  }
  for (std::int32_t lane : int_lanes(Ints())) EXPECT_EQ(lane, 0);
  for (std::int32_t lane : int_lanes(Ints(-7))) EXPECT_EQ(lane, -7);
}

TEST(simd, integer_lanes_in_part) {
  Page page;
  for (index n = 1; n <= N; ++n) {
    auto* p = page.before_the_end<std::int32_t>(n);
    for (index i = 0; i < n; ++i) p[i] = static_cast<std::int32_t>(i + 1);
    const auto got = int_lanes(Ints::load(p, n));
    for (index i = 0; i < N; ++i) ASSERT_EQ(got[i], i < n ? i + 1 : 0) << n;
    Ints(5).store(p, n);
    std::array<std::int32_t, N + 1> guarded;
    guarded.fill(9);
    Ints(5).store(guarded.data(), n);
    for (index i = 0; i <= N; ++i) ASSERT_EQ(guarded[i], i < n ? 5 : 9) << n;
  }
}

// Every number in both places.
template <class T> void pairs_come_apart() {
  using Pairs = simd::Pairs<Level, T>;
  for (unsigned k = 0; k < 65536; k += N) {
    T in[2 * N];
    for (index i = 0; i < N; ++i) {
      in[2 * i] = T::from_bits(static_cast<std::uint16_t>(k + static_cast<unsigned>(i)));
      in[2 * i + 1] = T::from_bits(static_cast<std::uint16_t>(~(k + static_cast<unsigned>(i))));
    }
    const Pairs pairs = Pairs::load(in);
    const Lanes even = lanes(pairs.even()), odd = lanes(pairs.odd()), again = lanes(Pairs::of(pairs.bits()).odd());
    for (index i = 0; i < N; ++i) {
      ASSERT_EQ(bits_of(even[i]), bits_of(static_cast<float>(in[2 * i])));
      ASSERT_EQ(bits_of(odd[i]), bits_of(static_cast<float>(in[2 * i + 1])));
      ASSERT_EQ(bits_of(again[i]), bits_of(odd[i]));
    }
  }
  Page page;
  for (index n = 1; n <= 2 * N; ++n) {
    T* p = page.before_the_end<T>(n);
    for (index i = 0; i < n; ++i) p[i] = T(static_cast<float>(i + 1));
    const Pairs pairs = n == 2 * N ? Pairs::load(p) : Pairs::load(p, n);
    const Lanes even = lanes(pairs.even()), odd = lanes(pairs.odd());
    for (index i = 0; i < N; ++i) {
      ASSERT_EQ(bits_of(even[i]), bits_of(2 * i < n ? static_cast<float>(2 * i + 1) : 0.0f)) << n;
      ASSERT_EQ(bits_of(odd[i]), bits_of(2 * i + 1 < n ? static_cast<float>(2 * i + 2) : 0.0f)) << n;
    }
  }
  if constexpr (requires { Pairs::broadcast(0u); }) {
    const Pairs same = Pairs::broadcast(T(3.0f).bits | std::uint32_t{T(-5.0f).bits} << 16);
    for (float lane : lanes(same.even())) EXPECT_EQ(lane, 3.0f);
    for (float lane : lanes(same.odd())) EXPECT_EQ(lane, -5.0f);
  }
}
TEST(simd, pairs_of_f16) { pairs_come_apart<f16>(); }
TEST(simd, pairs_of_bf16) { pairs_come_apart<bf16>(); }

// Sums of four products for each channel, with all of them at their ends too: nothing saturates on the way.
TEST(simd, products_of_8_bits) {
  using Dot = simd::DotI8<Level>;
  using Input = typename Dot::Input;
  constexpr index channels = Dot::channels, groups = 300;
  // What signed and unsigned activations are stored as.
  const int lowest = std::min(-128 + Dot::input_offset(false), Dot::input_offset(true));
  const int highest = std::max(127 + Dot::input_offset(false), 255 + Dot::input_offset(true));
  std::mt19937 rng(2);
  for (int kind = 0; kind < 6; ++kind) {
    std::vector<std::int8_t> weights(static_cast<std::size_t>(channels * 4 * groups));
    std::vector<Input> inputs(static_cast<std::size_t>(4 * groups));
    const auto pick = [&](int low, int high) {
      const int any = low + static_cast<int>(rng() % static_cast<unsigned>(high - low + 1));
      return kind == 0 ? any : kind < 5 ? (kind % 2 ? low : high) : rng() % 2 ? low : high;
    };
    for (auto& w : weights) w = static_cast<std::int8_t>(kind == 2 || kind == 3 ? -128 : pick(-128, 127));
    for (auto& x : inputs) x = static_cast<Input>(pick(lowest, highest));
    typename Dot::Sums sums, second;
    for (index g = 0; g < groups; ++g)
      dot(g % 3 ? sums : second, Dot::Weights::load(&weights[static_cast<std::size_t>(g * channels * 4)]),
          Dot::Inputs::load(&inputs[static_cast<std::size_t>(4 * g)]));
    std::vector<std::int32_t> got(static_cast<std::size_t>(channels));
    (sums + second).store(got.data());
    for (index c = 0; c < channels; ++c) {
      std::int32_t expected = 0;
      for (index g = 0; g < groups; ++g)
        for (index j = 0; j < 4; ++j) expected += weights[(g * channels + c) * 4 + j] * inputs[4 * g + j];
      ASSERT_EQ(got[c], expected) << "channel " << c << ", kind " << kind;
    }
  }
}

template <simd::Codes Kind> void products_of_codes() {
  using Sums = simd::CodeSums<Level, Kind>;
  constexpr int bits = simd::bits_of<Kind>;
  constexpr index codes = simd::codes_of_word<Kind>, most = Sums::most / codes;
  std::mt19937 rng(3);
  for (int kind = 0; kind < 300; ++kind) {
    std::array<std::uint32_t, 16> words;       // of a step
    std::array<std::uint16_t, 16> upper = {};  // upper bits of each channel
    std::array<std::int8_t, simd::arranged> x{};
    std::array<std::int8_t, 2 * simd::arranged> arranged;
    for (auto& word : words) word = kind % 3 == 0 ? ~0u : static_cast<std::uint32_t>(rng());
    for (auto& pairs : upper) pairs = static_cast<std::uint16_t>(kind % 3 == 0 ? ~0u : rng());
    std::array<std::uint8_t, 96> step;
    std::memcpy(step.data(), words.data(), sizeof(words));
    for (index c = 0; c < 16; ++c) {
      if (Kind == simd::Codes::five) upper[c] &= 255, step[64 + c] = static_cast<std::uint8_t>(upper[c]);
      if (Kind == simd::Codes::six) std::memcpy(step.data() + 64 + 2 * c, &upper[c], sizeof(upper[c]));
    }
    const auto code_at = [&](index channel, index j) {
      if (Kind == simd::Codes::eight) return words[channel] >> 8 * j & 255;
      const std::uint32_t bits_above = Kind == simd::Codes::five  ? upper[channel] >> j & 1
                                       : Kind == simd::Codes::six ? upper[channel] >> (j % 4 * 4 + j / 4 * 2) & 3
                                                                  : 0;
      return (words[channel] >> 4 * j & 15) + 16 * bits_above;
    };
    const index place = kind % (16 / N);
    for (index j = 0; j < codes; ++j)
      x[j] = static_cast<std::int8_t>(kind % 4 == 0 ? 127 : kind % 4 == 1 ? -127 : static_cast<int>(rng() % 255) - 127);
    std::array<std::int8_t, 16> book;  // now and then of its ends alone
    const int width = Kind == simd::Codes::narrow ? simd::narrow_width : 255,
              least = static_cast<int>(rng() % (256 - width)) - 128;
    for (auto& value : book)
      value = static_cast<std::int8_t>(least + static_cast<int>(kind % 5 ? rng() % (width + 1) : rng() % 2 * width));
    const simd::NamedBytes named(book.data());
    const simd::CodeTable<Level, Kind> table(named);
    simd::arrange<Level, Kind>(x.data(), arranged.data());
    const auto start = static_cast<std::int32_t>(rng() % 65536) - 32768;
    Sums sums(start);
    const auto loaded = simd::load_words<Level, Kind>(step.data() + 4 * N * place, place);
    const auto add = [&](auto h) {
      const auto inputs = simd::CodeInputs<Level>::load(arranged.data() + Sums::place(h));
      sums.template add<h>(simd::code_part<Kind, h>(loaded, table), inputs);
    };
    for (int piece = 0; piece < 2; ++piece) {
      sums.open();
      for (index word = 0; word < most; ++word) simd::unroll<Sums::parts>(add);
      sums.close();
    }
    const Lanes got = lanes(sums.to_floats(start));
    // Of a codebook they may be its values or lie above the least of them, which takes that from the start.
    double above = 0, values = 0;
    for (index i = 0; i < N; ++i) {
      double expected = 0, of_values = 0;
      for (index j = 0; j < codes; ++j) {
        const std::uint32_t code = code_at(place * N + i, j);
        const double value = book[code & 15];
        expected += (simd::of_codebook<Kind> ? value - named.least : static_cast<double>(code)) * x[j];
        of_values += value * x[j];
      }
      above += got[i] == start + 2 * most * expected;
      values += simd::of_codebook<Kind> && got[i] == 2 * most * of_values;
    }
    ASSERT_TRUE(above == N || values == N) << bits << " bits, " << above << " and " << values << " of " << N;
  }
}
template <class L> void products_of_narrow_codes() {
  if constexpr (simd::has_narrow_codes<L>) products_of_codes<simd::Codes::narrow>();
}
TEST(simd, products_of_codes) {
  products_of_codes<simd::Codes::four>();
  products_of_codes<simd::Codes::five>();
  products_of_codes<simd::Codes::six>();
  products_of_codes<simd::Codes::eight>();
  products_of_codes<simd::Codes::named>();
  products_of_narrow_codes<Level>();
}

// Words side by side: each has its own activations, wherever in its bytes.
TEST(simd, activations_in_the_order_of_codes) {
  std::array<std::int8_t, simd::arranged> x;
  std::array<std::int8_t, 2 * simd::arranged> four, eight;
  for (index i = 0; i < simd::arranged; ++i) x[i] = static_cast<std::int8_t>(3 * i - 40);
  simd::arrange<Level, simd::Codes::four>(x.data(), four.data());
  simd::arrange<Level, simd::Codes::eight>(x.data(), eight.data());
  constexpr index wide = simd::CodeSums<Level, simd::Codes::eight>::word_bytes / 4;  // bytes of one activation
  for (index i = 0; i < simd::arranged; ++i) {
    ASSERT_EQ(four[i / 8 * 8 + simd::activation_place<simd::Codes::four>(i % 8)], x[i]) << i;
    ASSERT_EQ(eight[i * wide], x[i]) << i;
    if (wide == 2) {
      ASSERT_EQ(eight[i * wide + 1], x[i] < 0 ? -1 : 0) << i;
    }
  }
}

// Odd first, each product fused into the sum; subnormal operands and results are zero.
template <class Any> void products_of_bf16() {
  if constexpr (simd::has_dot_bf16<Any>) {
    using Pairs = simd::Bf16Pairs<Any>;
    std::mt19937 rng(4);
    const auto flushed = [](float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; };
    for (int k = 0; k < 20000; ++k) {
      bf16 a[2 * N], b[2 * N];
      Lanes acc;
      const auto number = [&](int spread) {
        const auto sign = static_cast<std::uint32_t>(rng()) & 0x80000000u;
        const auto exponent = static_cast<std::uint32_t>(127 - spread + static_cast<int>(rng() % (2 * spread + 1)));
        return std::bit_cast<float>(sign | exponent << 23 | (static_cast<std::uint32_t>(rng()) & 0x7fffffu));
      };
      const int spread = k % 2 ? 4 : 63;
      for (index i = 0; i < 2 * N; ++i) a[i] = bf16(number(spread)), b[i] = bf16(number(spread));
      for (float& lane : acc) lane = number(spread);
      if (k % 5 == 0) a[rng() % (2 * N)] = bf16::from_bits(static_cast<std::uint16_t>(1 + rng() % 127));
      const Lanes got = lanes(dot(F::load(acc.data()), Pairs::load(a), Pairs::load(b)));
      for (index i = 0; i < N; ++i) {
        const auto of = [&](bf16 x) { return flushed(static_cast<float>(x)); };
        const float first = flushed(std::fma(of(a[2 * i + 1]), of(b[2 * i + 1]), acc[i]));
        ASSERT_EQ(got[i], flushed(std::fma(of(a[2 * i]), of(b[2 * i]), first)));
      }
    }
  }
}
TEST(simd, products_of_bf16) { products_of_bf16<Level>(); }

}  // namespace
}  // namespace inlay
