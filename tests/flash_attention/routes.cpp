// The route of q K^T (cpu_kernels/attention/qk_route.hpp), line by line of its table. Results cannot tell one from
// another, but for the bits.
#include "cpu_kernels/attention/qk_route.hpp"

#include <gtest/gtest.h>

#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>

namespace inlay::test {
namespace {

using cpu::QkRoute;
using cpu::QkSums;

AttentionKv<Host> rows_of(DType type, index dim) { return {.cache = {nullptr, type, {1, 1, 1, 16, dim}}, .dim = dim}; }
AttentionKv<Host> pieces_of(DType type, index dim, index x) {
  return {.cache = {nullptr, type, {1, 1, dim / x, 16, x}}, .dim = dim};
}
template <class Level> QkRoute in_order(index rows) {
  return cpu::qk_route<Level>(rows_of(DType::f16, 128), QkSums::in_order, rows);
}
template <class Level> QkRoute over_lanes(const AttentionKv<Host>& keys, index rows) {
  return cpu::qk_route<Level>(keys, QkSums::over_lanes, rows);
}

TEST(flash_attention, routes_of_prompts) {
  EXPECT_EQ(in_order<isa::avx512>(1), QkRoute::squares);
  EXPECT_EQ(in_order<isa::avx512>(16), QkRoute::squares);
  EXPECT_EQ(in_order<isa::avx512>(17), QkRoute::columns);
  EXPECT_EQ(in_order<isa::avx512_bf16>(16), QkRoute::squares);
  EXPECT_EQ(in_order<isa::avx2>(1), QkRoute::columns);
  EXPECT_EQ(in_order<isa::neon>(1), QkRoute::columns);
  EXPECT_EQ(in_order<isa::scalar>(1), QkRoute::columns);
  const AttentionKv<Host> keys = rows_of(DType::f16, 128);
  EXPECT_EQ(cpu::qk_route<isa::avx512_bf16>(keys, QkSums::pairs, 1), QkRoute::pairs);
  EXPECT_TRUE(cpu::reaches<isa::avx512_bf16>(QkSums::pairs, QkRoute::pairs));
  EXPECT_FALSE(cpu::reaches<isa::avx512_vnni>(QkSums::pairs, QkRoute::pairs));
  EXPECT_FALSE(cpu::reaches<isa::avx2>(QkSums::in_order, QkRoute::squares));
}

TEST(flash_attention, routes_of_decoding) {
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 64), 4), QkRoute::lanes);
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 64), 5), QkRoute::x4);
  EXPECT_EQ(over_lanes<isa::avx512_vnni>(rows_of(DType::f16, 64), 200), QkRoute::x4);
  EXPECT_EQ(over_lanes<isa::avx2>(rows_of(DType::f16, 64), 5), QkRoute::lanes);
  // What eight rows of q leave of L1.
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 128), 7), QkRoute::x4);
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 128), 8), QkRoute::lanes);
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 112), 100), QkRoute::x4);
  // Chunks of 16 bytes.
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f16, 60), 5), QkRoute::lanes);
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::f32, 60), 5), QkRoute::x4);
  EXPECT_EQ(over_lanes<isa::avx512>(rows_of(DType::i8, 40), 5), QkRoute::lanes);
  EXPECT_EQ(over_lanes<isa::avx512>(pieces_of(DType::f16, 64, 8), 5), QkRoute::x4);
  EXPECT_EQ(over_lanes<isa::avx512>(pieces_of(DType::f16, 64, 16), 5), QkRoute::lanes);
  EXPECT_EQ(over_lanes<isa::avx512>(pieces_of(DType::f16, 64, 4), 5), QkRoute::lanes);
}

TEST(flash_attention, sums_that_contracts_want) {
  const ConstView<4> q(nullptr, DType::f32, {1, 4, 2, 8}), keys(nullptr, DType::f16, {1, 4, 1, 8});
  const ConstView<4> codes(nullptr, DType::i8, {1, 4, 1, 8});
  FlashAttention<Host> op{.q = q, .k = keys, .v = keys, .out = {}};
  EXPECT_EQ(cpu::qk_sums(attention_problem(op)), QkSums::in_order);
  op.compute = AttentionCompute::bf16_products;
  EXPECT_EQ(cpu::qk_sums(attention_problem(op)), QkSums::pairs);
  op.v = codes;
  EXPECT_EQ(cpu::qk_sums(attention_problem(op)), QkSums::in_order);
  op.v = keys, op.k = codes;
  EXPECT_EQ(cpu::qk_sums(attention_problem(op)), QkSums::in_order);
  const IncreFlashAttention<Host> decode{.q = q, .k = keys, .v = keys, .out = {}};
  EXPECT_EQ(cpu::qk_sums(attention_problem(decode)), QkSums::over_lanes);
}

}  // namespace
}  // namespace inlay::test
