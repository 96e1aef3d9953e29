// pack_linear: what it moves, rounds and refuses.
#include <inlay/core/threads.hpp>
#include <inlay/weights/linear_pack.hpp>

#include <map>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"

namespace inlay::test {
namespace {

TEST(linear, packing_keeps_every_bit_and_pads_with_zeros) {
  Rng rng(8);
  for (DType type : float_types)
    for (index n : {1, 16, 37})
      for (index k : {1, 2, 33}) {
        Tensor<2> rows(type, {n, k}, layouts[2]);
        rows.uniform(rng);
        rows.set(0, std::numeric_limits<double>::infinity());
        Tensor<3> packed(type, linear_packed_extents(n, k, type));
        packed.poison();
        ASSERT_TRUE(ok(pack_linear(inlay::threads(2), rows, packed)));
        std::map<std::array<index, 3>, double> expected;
        for (index i = 0; i < n; ++i)
          for (index j = 0; j < k; ++j) expected[linear_packed_at(i, j, type)] = rows.get(i * k + j);
        const auto& e = packed.extents();
        for (index i = 0; i < packed.size(); ++i) {
          const auto found = expected.find({i / (e[1] * e[2]), i / e[2] % e[1], i % e[2]});
          ASSERT_EQ(packed.get(i), found == expected.end() ? 0 : found->second) << i;
        }
        EXPECT_TRUE(packed.gaps_untouched());
      }
}

TEST(linear, packing_converts_with_one_rounding) {
  Rng rng(9);
  for (DType from : float_types)
    for (DType to : float_types) {
      Tensor<2> rows(from, {5, 9});
      rows.uniform(rng);
      Tensor<3> packed(to, linear_packed_extents(5, 9, to));
      ASSERT_TRUE(ok(pack_linear(serial(), rows, packed)));
      for (index i = 0; i < 5; ++i)
        for (index j = 0; j < 9; ++j) {
          const auto [panel, step, lane] = linear_packed_at(i, j, to);
          ASSERT_EQ(at(packed.view(), panel, step, lane), round_to(to, rows.get(i * 9 + j)));
        }
    }
}

// The layout of the contract, number by number: reference and kernels read it through the same functions.
TEST(linear, packed_form_by_hand) {
  using Extents = std::array<index, 3>;
  EXPECT_EQ(linear_panel, 16);
  EXPECT_EQ(linear_packed_extents(16, 5, DType::f32), (Extents{1, 5, 16}));
  EXPECT_EQ(linear_packed_extents(17, 5, DType::f16), (Extents{2, 5, 16}));
  EXPECT_EQ(linear_packed_extents(33, 5, DType::bf16), (Extents{3, 3, 32}));
  EXPECT_EQ(linear_packed_extents(32, 4, DType::bf16), (Extents{2, 2, 32}));
  EXPECT_EQ(linear_packed_extents(0, 4, DType::f32), (Extents{0, 4, 16}));
  EXPECT_EQ(linear_packed_at(18, 4, DType::f32), (Extents{1, 4, 2}));
  EXPECT_EQ(linear_packed_at(18, 4, DType::bf16), (Extents{1, 2, 4}));
  EXPECT_EQ(linear_packed_at(15, 5, DType::bf16), (Extents{0, 2, 31}));
  // Channel c, input k is 10 c + k.
  Tensor<2> rows(DType::f32, {18, 3});
  for (index i = 0; i < rows.size(); ++i) rows.set(i, static_cast<double>(i / 3 * 10 + i % 3));
  Tensor<3> plain(DType::f32, {2, 3, 16}), paired(DType::bf16, {2, 2, 32});
  ASSERT_TRUE(ok(pack_linear(serial(), rows, plain)));
  ASSERT_TRUE(ok(pack_linear(inlay::threads(3), rows, paired)));
  const std::map<index, double> in_plain = {{0, 0},    {1, 10},   {15, 150}, {16, 1},   {47, 152}, {48, 160},
                                            {49, 170}, {50, 0},   {80, 162}, {81, 172}, {95, 0}};
  for (const auto& [i, value] : in_plain) EXPECT_EQ(plain.get(i), value) << i;
  const std::map<index, double> in_pairs = {{0, 0},    {1, 1},    {2, 10},  {3, 11},   {31, 151}, {32, 2},  {33, 0},
                                            {34, 12},  {62, 152}, {63, 0},  {66, 170}, {67, 171}, {68, 0},  {98, 172},
                                            {99, 0},   {127, 0}};
  for (const auto& [i, value] : in_pairs) EXPECT_EQ(paired.get(i), value) << i;
}

TEST(linear, packing_refuses_what_does_not_fit) {
  Tensor<2> rows(DType::f32, {20, 8});
  Tensor<3> packed(DType::f32, {2, 8, 16}), bytes(DType::i8, {2, 8, 16}), paired(DType::bf16, {2, 8, 16});
  const auto refused = [&](const View<2>& from, const View<3>& to, const char* word) {
    const Status status = pack_linear(serial(), from, to);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(word), std::string_view::npos) << status.message();
  };
  refused(rows.view(), bytes.view(), "i8");
  refused(rows.view(), paired.view(), "[2, 4, 32]");
  refused(rows.view().slice(0, 0, 3), packed.view(), "[1, 8, 16]");
  View<2> gaps = rows.view();
  gaps.strides[1] = 2;
  refused(gaps, packed.view(), "stride 2");
  View<3> itself(rows.data<float>(), {2, 8, 16});
  refused(rows.view(), itself, "overlaps");
}

}  // namespace
}  // namespace inlay::test
