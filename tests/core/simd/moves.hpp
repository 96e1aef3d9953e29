// Lanes that change their places, and sums over them.
#pragma once

#include "cpu_kernels/simd/four_rows.hpp"
#include "cpu_kernels/simd/sum_rows.hpp"
#include "cpu_kernels/simd/transpose.hpp"
#include "tests/core/simd/lanes.hpp"

namespace inlay {
namespace {

F ramp_from(float first) {
  Lanes ramp;
  for (index k = 0; k < N; ++k) ramp[k] = first + static_cast<float>(k);
  return F::load(ramp.data());
}

TEST(simd, interleaving) {
  const auto pair = deinterleave(ramp_from(1), ramp_from(1 + N));
  const Lanes even = lanes(pair.first), odd = lanes(pair.second);
  for (index k = 0; k < N; ++k) {
    EXPECT_EQ(even[k], 2 * k + 1);
    EXPECT_EQ(odd[k], 2 * k + 2);
  }
  const auto back = interleave(pair.first, pair.second);
  EXPECT_EQ(lanes(back.first), lanes(ramp_from(1)));
  EXPECT_EQ(lanes(back.second), lanes(ramp_from(1 + N)));
}

// Every lane counts, once: each is a bit of the sum, and each is the largest or the least in turn.
TEST(simd, reductions) {
  Lanes powers;
  for (index k = 0; k < N; ++k) powers[k] = static_cast<float>(1 << k);
  EXPECT_EQ(reduce_sum(F::load(powers.data())), static_cast<float>((1 << N) - 1));
  for (index place = 0; place < N; ++place)
    for (float value : {5.0f, -5.0f, infinity, -infinity}) {
      Lanes v;
      v.fill(1);
      v[place] = value;
      EXPECT_EQ(reduce_max(F::load(v.data())), N == 1 ? value : std::fmax(value, 1.0f)) << place;
      EXPECT_EQ(reduce_min(F::load(v.data())), N == 1 ? value : std::fmin(value, 1.0f)) << place;
      v[place] = not_a_number;
      EXPECT_TRUE(std::isnan(reduce_sum(F::load(v.data())))) << place;
    }
}

TEST(simd, masks) {
  for (index n = 0; n <= N; ++n) {
    const Lanes chosen = lanes(select(F::first(n), F(1), F(2)));
    for (index k = 0; k < N; ++k) EXPECT_EQ(chosen[k], k < n ? 1 : 2) << n;
    EXPECT_EQ(F::any(F::first(n)), n > 0);
  }
  for (index place = 0; place < N; ++place) {
    Lanes v{};
    v[place] = -1;
    EXPECT_TRUE(F::any(F::load(v.data()) < F())) << place;
    const Lanes chosen = lanes(select(F::load(v.data()) < F(), F(7), F(8)));
    for (index k = 0; k < N; ++k) EXPECT_EQ(chosen[k], k == place ? 7 : 8) << place;
  }
  EXPECT_FALSE(F::any(F(not_a_number) < F(1)));
  EXPECT_FALSE(F::any(F(1) < F(1)));
}

TEST(simd, transpose) {
  F square[N];
  for (index r = 0; r < N; ++r) square[r] = ramp_from(static_cast<float>(100 * r));
  simd::transpose<Level>(square);
  for (index r = 0; r < N; ++r) {
    const Lanes row = lanes(square[r]);
    for (index k = 0; k < N; ++k) EXPECT_EQ(row[k], 100 * k + r);
  }
}

// Integers, so that any order of adding gives the same.
float sum_of_random(F& v, std::mt19937& rng) {
  Lanes values;
  float sum = 0;
  for (float& lane : values) sum += lane = static_cast<float>(static_cast<int>(rng() % 2001) - 1000);
  v = F::load(values.data());
  return sum;
}

TEST(simd, four_sums_at_once) {
  std::mt19937 rng(1);
  F v[4];
  float expected[4], got[6] = {-1, -1, -1, -1, -1, -1};
  for (int i = 0; i < 4; ++i) expected[i] = sum_of_random(v[i], rng);
  simd::store_sums<Level>(v[0], v[1], v[2], v[3], got + 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got[i + 1], expected[i]) << i;
  EXPECT_EQ(got[0], -1);
  EXPECT_EQ(got[5], -1);
}

// Taken, and stored by and by; the last are stored when all stages are done.
template <int Heads, int Rows> void sums_of_rows() {
  if constexpr (std::is_base_of_v<isa::avx512, Level> ? Rows == 2 || Heads * Rows == 8 : Rows % 4 == 0) {
    std::mt19937 rng(2);
    constexpr index stride = 3 * Rows + 3;
    std::array<float, static_cast<std::size_t>(Heads * stride)> got;
    got.fill(-1);
    float expected[3][Heads][Rows];
    simd::RowSums<Level, Heads, Rows> sums(got.data(), stride);
    const auto finish = [&] {
      if constexpr (sums.stages > 0) sums.template advance<0>(), sums.template advance<1>(), sums.template advance<2>();
    };
    for (int block = 0; block < 3; ++block) {
      simd::Register<Level> sum[Heads][Rows];
      for (int h = 0; h < Heads; ++h)
        for (int r = 0; r < Rows; ++r) {
          F v;
          expected[block][h][r] = sum_of_random(v, rng);
          sum[h][r] = v.v;
        }
      finish();
      sums.take(sum, got.data() + block * Rows);
    }
    finish();
    for (int h = 0; h < Heads; ++h)
      for (index i = 0; i < stride; ++i) {
        const float right = i < 3 * Rows ? expected[i / Rows][h][i % Rows] : -1;
        ASSERT_EQ(got[static_cast<std::size_t>(h * stride + i)], right)
            << Heads << " x " << Rows << ": " << h << ' ' << i;
      }
  }
}
TEST(simd, sums_of_rows) {
  sums_of_rows<1, 8>();
  sums_of_rows<1, 4>();
  sums_of_rows<2, 4>();
  sums_of_rows<2, 2>();
  sums_of_rows<3, 2>();
  sums_of_rows<4, 2>();
}

// Sixteen bytes of four rows: element 4 i + k of row r is lane 4 r + k of register i. Every row and element differs.
template <class T> void four_rows() {
  if constexpr (simd::has_four_rows<Level>) {
    constexpr index chunk = 16 / static_cast<index>(sizeof(T));
    using Four = simd::FourRows<Level, T>;
    T row[4][static_cast<std::size_t>(chunk) + 2];
    for (index r = 0; r < 4; ++r)
      for (index i = 0; i < chunk + 2; ++i) row[r][i] = static_cast<T>(static_cast<float>(16 * r + i) - 30.0f);
    simd::Register<Level> got[Four::registers];
    Four::load(row[0] + 1, row[1] + 1, row[2] + 1, row[3] + 1, got);
    for (index i = 0; i < Four::registers; ++i) {
      const Lanes v = lanes(F(got[i]));
      for (index k = 0; k < N; ++k)
        EXPECT_EQ(v[k], static_cast<float>(16 * (k / 4) + 1 + 4 * i + k % 4) - 30)
            << sizeof(T) << ": " << i << ' ' << k;
    }
  }
}
TEST(simd, four_rows) {
  four_rows<float>();
  four_rows<f16>();
  four_rows<bf16>();
  four_rows<std::int8_t>();
}

// Each number of x four times, and the sums of quarters, of whose lanes each is a bit: one to four registers.
TEST(simd, quarters) {
  if constexpr (simd::has_four_rows<Level>) {
    const float x[4] = {1, -2, 3, -4};
    float spread[18];
    spread[0] = spread[17] = 7;
    simd::spread_four<Level>(x, spread + 1);
    for (int k = 0; k < 16; ++k) EXPECT_EQ(spread[k + 1], x[k % 4]) << k;
    EXPECT_EQ(spread[0] + spread[17], 14);

    float sums[4][16];
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 16; ++k)
        sums[i][k] = static_cast<float>(1 << k) * (i % 2 == 0 ? 1 : -1) + 0.25f * static_cast<float>(i);
    const auto stores = [&](auto count) {
      float to[4][6];
      for (auto& each : to) std::fill(std::begin(each), std::end(each), 7.5f);
      simd::store_quarters<Level, count>(sums[0], [&](int i) { return to[i] + 1; });
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(to[i][0], 7.5f);
        EXPECT_EQ(to[i][5], 7.5f);
        for (int r = 0; r < 4; ++r) {
          float sum = 0;
          for (int k = 0; k < 4; ++k) sum += sums[i][4 * r + k];
          EXPECT_EQ(to[i][r + 1], i < count ? sum : 7.5f) << count << ": " << i << ' ' << r;
        }
      }
    };
    simd::unroll<4>([&](auto i) { stores(std::integral_constant<int, i + 1>{}); });
  }
}

}  // namespace
}  // namespace inlay
