// What verbs that move and convert do to their elements, against the exact rule; and what is refused.
#include "tile_machine/tests/run/verb_result.hpp"

namespace inlay::npu {
namespace {

TEST(Verbs, GatherPicksElements) {
  const Operand<f16> table{random_values<f16>(300, -4, 4, 13), {1, 300}},
      rows{random_values<f16>(6 * 40, -4, 4, 14), {6, 40}};
  Operand<std::int32_t> places{{}, {6, 96}};
  for (int i = 0; i < 6 * 96; ++i) places.values.push_back(i * 37 % 310 - 5);
  const auto run = [&](const Operand<f16>& a) {
    return result_of<f16>(
        places.shape, [](Core& m, const Tensor& dst, const Tiles& from) { m.vgather(dst, from[0], from[1]); }, a,
        places);
  };
  const auto looked_up = run(table), of_rows = run(rows);
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 96; ++c) {
      const auto at = static_cast<std::size_t>(r * 96 + c);
      const int from = places.values[at];
      const auto one = [&](int width, std::size_t row, const std::vector<f16>& values) {
        return from < 0 || from >= width
                   ? 0
                   : values[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(from)].bits;
      };
      EXPECT_EQ(looked_up[at].bits, one(300, 0, table.values));
      EXPECT_EQ(of_rows[at].bits, one(40, static_cast<std::size_t>(r), rows.values));
    }
}

TEST(Verbs, OneScaleForAGroupOfColumns) {
  const Operand<std::int8_t> codes{any_integers<std::int8_t>(5 * 600, 15), {5, 600}};
  for (index group : {1, 32, 100, 128, 700})
    for (index rows : {index{1}, index{5}}) {
      const index groups = (600 + group - 1) / group;
      const Operand<float> scales{random_values<float>(static_cast<std::size_t>(rows * groups), 0.5f, 2, 16),
                                  {rows, groups}};
      const auto y = result_of<float>(
          codes.shape,
          [&](Core& m, const Tensor& dst, const Tiles& from) {
            m.vgrouped(VectorOp::mul, dst, from[0], from[1], group);
          },
          codes, scales);
      for (index r = 0; r < 5; ++r)
        for (index c = 0; c < 600; ++c) {
          const auto at = static_cast<std::size_t>(r * 600 + c);
          const float scale = scales.values[static_cast<std::size_t>((rows == 1 ? 0 : r) * groups + c / group)];
          ASSERT_EQ(y[at], static_cast<float>(codes.values[at]) * scale) << group;
        }
    }
}

// i32 in one rounding: by way of f32 it would be two.
TEST(Verbs, CastsRoundOnceAndSaturate) {
  const auto cast = []<class To>(To, const auto& from, Round round = Round::nearest) {
    return result_of<To>(
        from.shape, [&](Core& m, const Tensor& dst, const Tiles& x) { m.vcast(dst, x[0], round); }, from);
  };
  const Operand<std::int32_t> whole{{0x01010001, -0x01010001, INT32_MAX, 127, 128, -129, 16777217}, {1, 7}};
  const auto narrow = cast(bf16{}, whole);
  for (std::size_t i = 0; i < whole.values.size(); ++i)
    EXPECT_EQ(narrow[i].bits, bf16(round_to_odd(whole.values[i])).bits) << i;
  EXPECT_NE(narrow[0].bits, bf16(static_cast<float>(whole.values[0])).bits);
  EXPECT_EQ(cast(std::int8_t{}, whole), (std::vector<std::int8_t>{127, -128, 127, 127, 127, -128, 127}));
  EXPECT_EQ(cast(std::int32_t{}, whole), whole.values);
  EXPECT_EQ(cast(float{}, whole)[6], 16777216.0f);

  const Operand<float> x{{2.5f, 3.5f, -2.5f, 0.7f, -0.7f, 300, -300, nan, infinity, -infinity, 3e9f}, {1, 11}};
  EXPECT_EQ(cast(std::int8_t{}, x), (std::vector<std::int8_t>{2, 4, -2, 1, -1, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::floor),
            (std::vector<std::int8_t>{2, 3, -3, 0, -1, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::ceil),
            (std::vector<std::int8_t>{3, 4, -2, 1, 0, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::zero),
            (std::vector<std::int8_t>{2, 3, -2, 0, 0, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int32_t{}, x)[10], INT32_MAX);
}

// Four bits: saturated to their range, two to a byte, and back.
TEST(Verbs, CastsToFourBits) {
  const Operand<float> x{random_values<float>(3 * 64, -20, 20, 17), {3, 64}};
  for (DType type : {DType::i4, DType::u4}) {
    const auto back = result_of<std::int8_t>(
        x.shape,
        [&](Core& m, const Tensor& dst, const Tiles& from) {
          const Tensor codes = m.alloc("codes", Space::vector, {3, 64}, type);
          m.vcast(codes, from[0]);
          m.barrier(Pipe::vector);
          m.unpack4(dst, codes);
        },
        x);
    const float low = type == DType::i4 ? -8 : 0;
    for (std::size_t i = 0; i < back.size(); ++i)
      EXPECT_EQ(back[i], std::clamp(std::nearbyint(x.values[i]), low, low + 15)) << name(type);
  }
}

template <class T> void expect_transpose() {
  const Operand<T> x{random_values<T>(33 * 70, -100, 100, 18), {33, 70}};
  const auto y = result_of<T>(
      {70, 33}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vtranspose(dst, from[0]); }, x);
  for (std::size_t r = 0; r < 33; ++r)
    for (std::size_t c = 0; c < 70; ++c) EXPECT_EQ(y[c * 33 + r], x.values[r * 70 + c]);
}

TEST(Verbs, LayoutsChangeAndComeBack) {
  expect_transpose<std::int8_t>();
  expect_transpose<f16>();
  expect_transpose<float>();
  const Operand<f16> x{random_values<f16>(33 * 70, -4, 4, 19), {33, 70}};
  const auto y = result_of<f16>(
      x.shape,
      [](Core& m, const Tensor& dst, const Tiles& from) {
        const Tensor packed = m.alloc("packed", Space::vector, {33, 70}, DType::f16, Layout::nz);
        m.vpack_nz(packed, from[0]);
        m.barrier(Pipe::vector);
        m.vunpack_nz(dst, packed);
      },
      x);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i].bits, x.values[i].bits);
}

TEST(Verbs, SelectMovesBits) {
  const Operand<std::int32_t> a{any_integers<std::int32_t>(64, 20), {1, 64}},
      b{any_integers<std::int32_t>(64, 21), {1, 64}};
  Operand<std::uint8_t> mask{{}, {1, 64}};
  for (std::uint8_t i = 0; i < 64; ++i) mask.values.push_back(i % 3);
  const auto y = result_of<std::int32_t>(
      {1, 64}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vselect(dst, from[0], from[1], from[2]); }, mask,
      a, b);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i % 3 != 0 ? a.values[i] : b.values[i]);
}

TEST(Verbs, TheScalarUnitWritesOneElement) {
  const auto y = result_of<std::int32_t>({2, 8}, [](Core& m, const Tensor& dst, const Tiles&) {
    m.vfill(dst, 7);
    m.set(Pipe::vector, Pipe::scalar, 0);
    m.wait(Pipe::vector, Pipe::scalar, 0);
    m.scalar_write(dst, 1, 2, 2147483646.6);
    m.scalar_write(dst, 0, 3, m.scalar_read(dst, 1, 2) - 5);
  });
  EXPECT_EQ(y[10], INT32_MAX);
  EXPECT_EQ(y[3], INT32_MAX - 5);
  EXPECT_EQ(y[0], 7);
}

// One report whose message has the part.
void expect_refused(const Device& device, const char* part, const std::function<void(Core&)>& program) {
  Machine machine(device);
  const Outcome outcome = machine.run(program);
  ASSERT_EQ(outcome.reports.size(), 1u) << part;
  EXPECT_EQ(outcome.reports[0].kind, ReportKind::illegal_path);
  EXPECT_NE(outcome.reports[0].message.find(part), std::string::npos) << outcome.reports[0].message;
  EXPECT_FALSE(FunctionalMachine(device).run(program).empty());
}

TEST(Verbs, WhatTheDeviceDoesNotHaveIsRefused) {
  Device device = split_device(1);
  device.vector.cost[static_cast<std::size_t>(VectorOp::erf)].available = false;
  const auto tile = [](Core& m, Shape shape, DType dtype) { return m.alloc("tile", Space::vector, shape, dtype); };
  expect_refused(device, "vunary at verbs_moves.cpp", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vunary(VectorOp::erf, x, x);
  });
  expect_refused(device, "split has no vector operation erf: its description gives it no price", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vunary(VectorOp::erf, x, x);
  });
  expect_refused(device, "does not compute with 1 x 8 i4", [&](Core& m) { m.vfill(tile(m, {1, 8}, DType::i4), 1); });
  expect_refused(device, "does not compute with 1 x 8 i64", [&](Core& m) { m.vfill(tile(m, {1, 8}, DType::i64), 1); });
  expect_refused(device, "it takes i32, i8 or u8, not 1 x 8 f32", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vscalar(VectorOp::bit_and, x, x, 1);
  });
  expect_refused(device, "bits need a whole number", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::i32);
    m.vscalar(VectorOp::bit_and, x, x, 1.0f);
  });
  expect_refused(device, "group is 0; it must be 1 or more", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vgrouped(VectorOp::mul, x, x, tile(m, {1, 1}, DType::f32), 0);
  });
  expect_refused(device, "the shapes of 1 x 3 f32 in vector and 1 x 8 f32 in vector do not fit", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vgrouped(VectorOp::mul, x, x, tile(m, {1, 3}, DType::f32), 4);
  });
  expect_refused(device, "columns are i32, not 1 x 1 f32", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32), y = tile(m, {1, 1}, DType::f32);
    m.vargmax(y, tile(m, {1, 1}, DType::f32), x);
  });
  expect_refused(device, "it orders what f32 holds", [&](Core& m) {
    const Tensor y = tile(m, {1, 1}, DType::i32);
    m.vargmax(y, tile(m, {1, 1}, DType::i32), tile(m, {1, 8}, DType::i32));
  });
  expect_refused(device, "the scalar unit does not reach", [&](Core& m) {
    m.scalar_write(m.alloc("acc", Space::accumulator, {1, 8}, DType::f32), 0, 0, 1);
  });
}

}  // namespace
}  // namespace inlay::npu
