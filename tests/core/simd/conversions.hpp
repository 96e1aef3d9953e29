// Loads that widen and stores that round: every number of 16 bits and every tie between two of them, whole registers
// and each part of one.
#pragma once

#include <inlay/core/float_modes.hpp>
#include "tests/core/simd/lanes.hpp"

namespace inlay {
namespace {

// Flushing is for arithmetic: conversions do not see it.
template <class Test> void in_both_modes(Test&& test) {
  for (bool flushing : {false, true}) {
    SCOPED_TRACE(flushing ? "flush to zero" : "subnormals");
    fp::set_flushes(flushing);
    test();
    fp::set_flushes(false);
  }
}

template <class T> void every_number_widens() {
  std::vector<T> all(65536);
  std::vector<std::uint32_t> expected(65536);
  for (unsigned k = 0; k < 65536; ++k) {
    all[k] = T::from_bits(static_cast<std::uint16_t>(k));
    expected[k] = bits_of(static_cast<float>(all[k]));
  }
  in_both_modes([&] {
    for (index k = 0; k < 65536; k += N) {
      const index n = 1 + k / N % N;
      const Lanes whole = lanes(F::load(&all[static_cast<std::size_t>(k)]));
      const Lanes part = lanes(F::load(&all[static_cast<std::size_t>(k)], n));
      for (index i = 0; i < N; ++i) {
        ASSERT_EQ(bits_of(whole[i]), expected[k + i]) << k + i;
        ASSERT_EQ(bits_of(part[i]), i < n ? expected[k + i] : 0) << k + i << ", " << n << " lanes";
      }
    }
  });
}

// Every number, the tie between it and the next one, and the floats on both sides of the tie; the last ties are those
// of the largest number and infinity. And NaN with payloads of all kinds.
template <class T> std::vector<float> around_every_tie() {
  std::vector<float> list;
  const unsigned inf = std::is_same_v<T, f16> ? 0x7c00 : 0x7f80;
  for (unsigned k = 0; k < inf; ++k) {
    const float low = T::from_bits(static_cast<std::uint16_t>(k));
    std::uint32_t tie = bits_of(low) | 0x8000;  // bf16: half of what is cut off
    if (std::is_same_v<T, f16>) {
      const float high = k + 1 == inf ? 65536.0f : static_cast<float>(T::from_bits(static_cast<std::uint16_t>(k + 1)));
      tie = bits_of(low + (high - low) / 2);
    }
    for (std::uint32_t bits : {bits_of(low), tie - 1, tie, tie + 1})
      for (std::uint32_t sign : {0u, 0x80000000u}) list.push_back(std::bit_cast<float>(bits | sign));
  }
  for (std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0xff812345u, 0x7fbfffffu, 0xffffffffu, 0x7f802000u, 0xffa5a5a5u})
    list.push_back(std::bit_cast<float>(nan));
  for (float value : {infinity, -infinity, 1e30f, -3.4e38f, 65519.99f, -65520.0f}) list.push_back(value);
  while (list.size() % N != 0) list.push_back(0);
  return list;
}

template <class T> void every_tie_narrows() {
  const std::vector<float> list = around_every_tie<T>();
  std::vector<std::uint16_t> expected;
  for (float value : list) expected.push_back(T(value).bits);
  in_both_modes([&] {
    for (std::size_t k = 0; k < list.size(); k += N) {
      const index n = 1 + static_cast<index>(k) / N % N;
      T whole[N], part[N];
      for (T& element : part) element = T::from_bits(0x1234);
      F::load(&list[k]).store(whole);
      F::load(&list[k]).store(part, n);
      for (index i = 0; i < N; ++i) {
        ASSERT_EQ(whole[i].bits, expected[k + i]) << list[k + i] << " is " << bits_of(list[k + i]);
        ASSERT_EQ(part[i].bits, i < n ? expected[k + i] : 0x1234) << list[k + i] << ", " << n << " lanes";
      }
    }
  });
}

TEST(simd, every_f16_widens) { every_number_widens<f16>(); }
TEST(simd, every_bf16_widens) { every_number_widens<bf16>(); }
TEST(simd, every_tie_of_f16_narrows) { every_tie_narrows<f16>(); }
TEST(simd, every_tie_of_bf16_narrows) { every_tie_narrows<bf16>(); }

// Halves over the range of 8 bits and beyond it, what conversions to int32 cannot hold, and what is no number.
std::vector<float> around_every_half() {
  std::vector<float> list = {infinity, -infinity,      not_a_number, -not_a_number, 1e30f,     -1e30f, 0x1p31f,
                             -0x1p31f, 0x1.fffffep30f, 4e9f,         -4e9f,         0x1p-149f, -0.0f,  0x1p63f};
  for (int k = -300; k <= 300; ++k) {
    const float half = static_cast<float>(k) + 0.5f;
    list.insert(list.end(), {half, std::nextafter(half, -1e9f), std::nextafter(half, 1e9f), static_cast<float>(k)});
  }
  while (list.size() % N != 0) list.push_back(0);
  return list;
}

template <class T, class Store> void rounds_and_saturates(Store store) {
  const std::vector<float> list = around_every_half();
  for (std::size_t k = 0; k < list.size(); k += N)
    for (index n = 0; n <= N; ++n) {
      T got[N];
      std::memset(got, 77, sizeof got);
      store(F::load(&list[k]), got, n);
      for (index i = 0; i < N; ++i) {
        const double v = list[k + i], low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
        double nearest = std::floor(v);
        const double rest = v - nearest;
        nearest += rest > 0.5 || (rest == 0.5 && std::fmod(nearest, 2) != 0) ? 1 : 0;
        const double expected = std::isnan(v) ? 0 : std::isinf(v) ? v : nearest;
        ASSERT_EQ(got[i], i < n ? std::fmax(low, std::fmin(high, expected)) : 77) << v << ", " << n << " lanes";
      }
    }
}

TEST(simd, int8_rounds_to_even_and_saturates) {
  rounds_and_saturates<std::int8_t>([](F v, std::int8_t* p, index n) { n == N ? v.store_i8(p) : v.store_i8(p, n); });
  rounds_and_saturates<std::int8_t>([](F v, std::int8_t* p, index n) { v.store_i8(p, n); });
}
TEST(simd, uint8_rounds_to_even_and_saturates) {
  rounds_and_saturates<std::uint8_t>([](F v, std::uint8_t* p, index n) { n == N ? v.store_u8(p) : v.store_u8(p, n); });
  rounds_and_saturates<std::uint8_t>([](F v, std::uint8_t* p, index n) { v.store_u8(p, n); });
}

template <class T> void every_byte_widens() {
  std::array<T, 256> all;
  for (int k = 0; k < 256; ++k) all[k] = static_cast<T>(k);
  for (index k = 0; k < 256; k += N)
    for (index n = 0; n <= N; ++n) {
      const Lanes whole = lanes(F::load(all.data() + k)), part = lanes(F::load(all.data() + k, n));
      for (index i = 0; i < N; ++i) {
        ASSERT_EQ(whole[i], all[k + i]);
        ASSERT_EQ(part[i], i < n ? all[k + i] : 0) << n << " lanes";
      }
    }
}
TEST(simd, every_byte_widens) {
  every_byte_widens<std::int8_t>();
  every_byte_widens<std::uint8_t>();
}

// n lanes are n elements: those behind are not written, and neither they nor those before are read.
template <class T, class Store> void touches_n_elements(Store store) {
  Page page;
  for (index n = 0; n <= N; ++n)
    for (T* p : {page.before_the_end<T>(n), page.begin<T>()}) {
      for (bool whole : {false, true}) {
        if (whole && n < N) continue;
        for (index i = 0; i < n; ++i) p[i] = static_cast<T>(static_cast<float>(i + 1));
        const Lanes got = lanes(whole ? F::load(p) : F::load(p, n));
        for (index i = 0; i < N; ++i)
          ASSERT_EQ(bits_of(got[i]), bits_of(i < n ? static_cast<float>(i + 1) : 0.0f)) << n;
        Lanes ramp;
        for (index i = 0; i < N; ++i) ramp[i] = static_cast<float>(i + 40);
        store(F::load(ramp.data()), p, n, whole);
        for (index i = 0; i < n; ++i) ASSERT_EQ(static_cast<float>(p[i]), ramp[i]) << n;
      }
    }
  for (index n = 0; n <= N; ++n) {
    T guarded[2 * N + 1];
    for (T& element : guarded) element = static_cast<T>(99.0f);
    store(F(5), guarded + 1, n, false);
    for (index i = 0; i < 2 * N + 1; ++i)
      ASSERT_EQ(static_cast<float>(guarded[i]), i >= 1 && i <= n ? 5.0f : 99.0f) << n << " lanes, element " << i - 1;
  }
}

TEST(simd, partial_accesses) {
  const auto store = [](F v, auto* p, index n, bool whole) { whole ? v.store(p) : v.store(p, n); };
  touches_n_elements<float>(store);
  touches_n_elements<f16>(store);
  touches_n_elements<bf16>(store);
  touches_n_elements<std::int8_t>(
      [](F v, std::int8_t* p, index n, bool whole) { whole ? v.store_i8(p) : v.store_i8(p, n); });
  touches_n_elements<std::uint8_t>(
      [](F v, std::uint8_t* p, index n, bool whole) { whole ? v.store_u8(p) : v.store_u8(p, n); });
}

template <class T, class Floats = F> void halves_come_from_two_places() {
  if constexpr (requires(const T* p) { Floats::load_halves(p, p); }) {
    Page low, high;
    T *a = low.before_the_end<T>(N / 2), *b = high.before_the_end<T>(N / 2);
    for (index i = 0; i < N / 2; ++i) a[i] = T(static_cast<float>(i + 1)), b[i] = T(static_cast<float>(i + 101));
    const Lanes got = lanes(Floats::load_halves(a, b));
    for (index i = 0; i < N; ++i) EXPECT_EQ(got[i], i < N / 2 ? i + 1 : i - N / 2 + 101);
  }
}
TEST(simd, halves) {
  halves_come_from_two_places<f16>();
  halves_come_from_two_places<bf16>();
}

}  // namespace
}  // namespace inlay
