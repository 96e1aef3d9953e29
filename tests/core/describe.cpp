#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/rms_norm.hpp>

#include <gtest/gtest.h>

#include "tests/support/describe.hpp"
#include "tests/support/tensor.hpp"

namespace inlay::test {
namespace {

TEST(describe, prints_what_is_not_left_out) {
  EXPECT_EQ(describe(RmsNorm<Host>{}), "rms_norm");
  Tensor<2> x(DType::f32, {3, 33}, {.row_gap = 3, .misaligned = 1}), y(DType::i8, {3, 33});
  Tensor<1> weight(DType::f16, {33}), y_scale(DType::f32, {3});
  const RmsNorm<Host> op{.x = x, .weight = weight, .y = y, .y_scale = y_scale, .eps = 1e-9f, .weight_offset = 1};
  EXPECT_EQ(describe(op),
            "rms_norm: x f32 [3, 33] strides [36, 1], weight f16 [33], y i8 [3, 33], y_scale f32 [3], "
            "eps 9.99999972e-10, weight_offset 1");
}

TEST(describe, prints_lists_flags_and_enumerators) {
  Tensor<3> first(DType::f16, {5, 2, 8}), second(DType::f16, {0, 2, 8});
  const std::vector<ConstView<3>> list{first, second};
  IncreFlashAttention<Host> op;
  op.k_list = list;
  op.causal = true;
  op.bias_order = BiasOrder::bias_scale_softcap;
  op.window_left = 5;
  EXPECT_EQ(describe(op),
            "incre_flash_attention: k_list {f16 [5, 2, 8]; f16 [0, 2, 8]}, bias_order 2, causal true, "
            "window_left 5");
}

// A tensor that was never made is a view that was left out; one without elements was given.
TEST(describe, absent_tensors_are_absent_views) {
  Tensor<2> absent, empty(DType::f32, {0, 8});
  EXPECT_FALSE(absent.present());
  EXPECT_FALSE(absent.view().present());
  EXPECT_EQ(absent.view().data, nullptr);
  EXPECT_TRUE(absent.gaps_untouched());
  EXPECT_TRUE(empty.present());
  const Tensor<2> copy = absent;
  EXPECT_FALSE(ConstView<2>(copy).present());
  EXPECT_TRUE(copy == absent);
}

}  // namespace
}  // namespace inlay::test
