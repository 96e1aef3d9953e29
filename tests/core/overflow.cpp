// Extents, strides and outputs that no memory has, and work that is empty: what Check demands of every view, and what
// run does before any kernel.
#include <inlay/inlay.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

constexpr index largest = std::numeric_limits<index>::max(), least = std::numeric_limits<index>::min();
constexpr index many = index{1} << 40;

// Without memory; but a view of no extent at all would be one that was left out.
template <int Rank> View<Rank> nowhere(const std::array<index, Rank>& extents, DType type = DType::f32) {
  static float somewhere;
  return {extents == std::array<index, Rank>{} ? &somewhere : static_cast<void*>(nullptr), type, extents};
}
template <int Rank> ConstView<Rank> nothing(const std::array<index, Rank>& extents, DType type = DType::f32) {
  return nowhere<Rank>(extents, type);
}

TEST(overflow, products_stop_at_the_largest_index) {
  index product = 0;
  EXPECT_TRUE(checked_multiply(index{1} << 31, index{1} << 31, product));
  EXPECT_EQ(product, index{1} << 62);
  EXPECT_FALSE(checked_multiply(index{1} << 32, index{1} << 31, product));
  EXPECT_EQ(saturating_multiply(many, many), largest);
  EXPECT_EQ(groups_of(largest, 16), (index{1} << 59));
  EXPECT_EQ(groups_of(17, largest), 1);
  EXPECT_EQ(groups_of(0, 8), 0);
  EXPECT_EQ(nothing<2>({index{1} << 32, index{1} << 32}).size(), largest);
  EXPECT_FALSE(nothing<2>({index{1} << 32, index{1} << 32}).empty());
  EXPECT_EQ(nothing<3>({many, many, 0}).size(), 0);
  EXPECT_EQ(ggml_row_bytes(GgmlType::Q8_0, largest / 32 * 32), 0);
}

TEST(overflow, what_memory_can_hold) {
  EXPECT_TRUE(fits_memory(nothing<2>({many, 0})));
  EXPECT_TRUE(fits_memory(nothing<2>({many, 1024})));
  EXPECT_TRUE(fits_memory(nothing<1>({(index{1} << 55) - (1 << 10)})));
  EXPECT_FALSE(fits_memory(nothing<1>({index{1} << 55})));
  EXPECT_TRUE(fits_memory(nothing<1>({index{1} << 55}, DType::u8)));
  EXPECT_FALSE(fits_memory(nothing<2>({index{1} << 32, index{1} << 32})));
  EXPECT_FALSE(fits_memory(nothing<3>({many, many, 0})));  // the other two are multiplied somewhere
  EXPECT_TRUE(fits_memory(ConstView<2>(nullptr, DType::f32, {2, 4}, {-4, 1})));
  for (index stride : {largest, least, index{1} << 60})
    for (index rows : {0, 1, 2}) EXPECT_FALSE(fits_memory(ConstView<2>(nullptr, DType::f32, {rows, 4}, {stride, 1})));
}

TEST(overflow, elements_that_share_memory_are_found) {
  const auto apart = [](const std::array<index, 3>& extents, const std::array<index, 3>& strides) {
    return elements_apart(ConstView<3>(nullptr, DType::f32, extents, strides));
  };
  EXPECT_TRUE(apart({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(apart({2, 3, 4}, {4, 8, 1}));     // transposed
  EXPECT_TRUE(apart({2, 3, 4}, {-12, -4, 1}));  // in reverse
  EXPECT_TRUE(apart({1, 3, 4}, {0, 4, 1}));
  EXPECT_FALSE(apart({2, 3, 4}, {12, 3, 1}));  // rows closer than their length
  EXPECT_FALSE(apart({2, 3, 4}, {11, 4, 1}));
  EXPECT_FALSE(apart({2, 3, 4}, {0, 4, 1}));
  EXPECT_FALSE(apart({2, 3, 4}, {4, 4, 1}));
  EXPECT_FALSE(apart({2, 3, 1}, {-1, 1, 1}));
}

TEST(overflow, every_view_is_asked) {
  std::vector<float> x(64), y(64);
  const auto add = [&] { return Add<Host>{.a = {x.data(), {4, 8}}, .b = {x.data(), {4, 8}}, .y = {y.data(), {4, 8}}}; };
  EXPECT_TRUE(check(add()).ok());

  Add<Host> op = add();
  op.a = nothing<2>({index{1} << 32, index{1} << 32});
  op.y = nowhere<2>({index{1} << 32, index{1} << 32});
  expect_refused(op, {"a has shape [4294967296, 4294967296]", "2^57"});
  op = add();
  op.b.strides[0] = least;
  expect_refused(op, {"b has shape [4, 8]", "strides [-9223372036854775808, 1]", "2^57"});
  op = add();
  op.y.dtype = static_cast<DType>(200);
  expect_refused(op, {"y has a dtype of number 200", "below 10"});

  op = add();
  for (index stride : {0, 7, -7}) {
    op.y.strides[0] = stride;
    expect_refused(op, {"y has shape [4, 8]", "strides [" + std::to_string(stride) + ", 1]", "share memory"});
  }
  op.y = View<2>(y.data() + 24, {4, 8}, {-8, 1});
  EXPECT_TRUE(ok(check(op)));
  op.a.strides[0] = 0;  // what is only read may repeat
  EXPECT_TRUE(ok(check(op)));

  // Lists, too.
  ConstView<3> part(x.data(), {2, 1, 4}), huge = nothing<3>({many, many, many});
  EXPECT_TRUE(check(IncreFlashAttention<Host>{.q = {x.data(), {1, 1, 1, 4}},
                                              .k_list = {&part, 1},
                                              .v_list = {&part, 1},
                                              .out = {y.data(), {1, 1, 1, 4}}})
                  .ok());
  expect_refused(
      IncreFlashAttention<Host>{
          .q = {x.data(), {1, 1, 1, 4}}, .k_list = {&part, 1}, .v_list = {&huge, 1}, .out = {y.data(), {1, 1, 1, 4}}},
      {"v_list[0]", "2^57"});
}

// What stands behind a refusal, and in its words, is computed too: the sanitizers see to it.
TEST(overflow, demands_behind_a_refusal_are_computed_with_any_extent_and_entry) {
  expect_refused(Rope<Host>{.x = nothing<3>({0, 2, 8}),
                            .cos = nothing<2>({0, -largest}),
                            .sin = nothing<2>({0, -largest}),
                            .y = nowhere<3>({0, 2, 8})},
                 {"cos has shape [0, -9223372036854775807]", "negative"});
  const float logits[4] = {};
  const std::int64_t history[] = {-1, largest};
  std::int32_t token = 0;
  expect_refused(Sampling<Host>{.logits = {logits, {1, 4}}, .history = {history, {1, 2}}, .tokens = {&token, {1}}},
                 {"history[0,1] is 9223372036854775807", "below 4"});
}

TEST(overflow, codes_that_share_bytes_do_not_step_back) {
  std::vector<float> x(16);
  std::vector<std::uint8_t> codes(16);
  for (DType type : {DType::i4, DType::u4}) {
    Dequantize<Host> op{
        .x = {codes.data() + 8, type, {2, 7}, {-8, 1}}, .scale = {x.data() + 15, {1, 1}}, .y = {x.data(), {2, 7}}};
    expect_refused(op, {"x has strides [-8, 1]", "share a byte"});
    op.x.dtype = type == DType::i4 ? DType::i8 : DType::u8;
    EXPECT_TRUE(ok(check(op)));
  }
  // Rows in mid-byte may lie apart in ways that a period of whole bytes does not tell.
  const View<2> a(codes.data(), DType::u4, {3, 2}, {5, 1}), b(codes.data() + 1, DType::u4, {3, 2}, {5, 1});
  EXPECT_TRUE(overlap(a, b));
}

// An extent of 0 in what is written: nothing to do, however large the others are. Kernels, and the reference, would go
// through 2^40 rows.
class EmptyWork : public ::testing::Test {
 protected:
  template <class Op> void expect_nothing_to_do(const Op& op) {
    SCOPED_TRACE(Op::name);
    Reference reference;
    EXPECT_EQ(workspace_bytes(reference, op), 0u);
    EXPECT_TRUE(ok(run(reference, op)));
    on_every_host_backend([&](const std::string&, auto run) { EXPECT_TRUE(ok(run(op))); });
    Cpu cpu;
    EXPECT_EQ(workspace_bytes(cpu, op), 0u);
  }
  std::vector<float> one_ = std::vector<float>(16, 1);
  ConstView<2> scale_{one_.data(), {1, 1}};
};

TEST_F(EmptyWork, rows_without_elements) {
  expect_nothing_to_do(Add<Host>{.a = nothing<2>({many, 0}), .b = nothing<2>({many, 0}), .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(Gelu<Host>{.x = nothing<2>({many, 0}), .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(
      Swiglu<Host>{.gate = nothing<2>({many, 0}), .up = nothing<2>({many, 0}), .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(
      RmsNorm<Host>{.x = nothing<2>({many, 0}), .weight = nothing<1>({0}), .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(LayerNorm<Host>{.x = nothing<2>({many, 0}), .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(Softmax<Host>{.x = nothing<3>({many, 1024, 0}), .y = nowhere<3>({many, 1024, 0})});
  expect_nothing_to_do(
      Quantize<Host>{.x = nothing<2>({many, 0}), .scale = scale_, .y = nowhere<2>({many, 0}, DType::i8)});
  expect_nothing_to_do(
      Dequantize<Host>{.x = nothing<2>({many, 0}, DType::i4), .scale = scale_, .y = nowhere<2>({many, 0})});
  expect_nothing_to_do(Rope<Host>{.x = nothing<3>({many, 0, 8}),
                                  .cos = nothing<2>({many, 0}),
                                  .sin = nothing<2>({many, 0}),
                                  .y = nowhere<3>({many, 0, 8})});
  expect_nothing_to_do(MergeStates<Host>{.partial_out = nothing<4>({1024, many, 0, 8}),
                                         .partial_lse = nothing<3>({1024, many, 0}),
                                         .out = nowhere<3>({many, 0, 8})});
  const std::vector<std::int32_t> row(2, 0);
  expect_nothing_to_do(MoeCombine<Host>{.x = nothing<2>({many, 0}),
                                        .rows = ConstView<2>(row.data(), {1, 2}),
                                        .weights = ConstView<2>(one_.data(), {1, 2}),
                                        .y = nowhere<2>({1, 0})});
}

TEST_F(EmptyWork, linear_layers) {
  const index k = 64;
  expect_nothing_to_do(
      Linear<Host>{.x = nothing<2>({0, many}), .weight_rows = nothing<2>({0, many}), .y = nowhere<2>({0, 0})});
  expect_nothing_to_do(LinearInt8<Host>{.x = nothing<2>({many, 0}, DType::i8),
                                        .weight = nothing<3>(linear_int8::packed_extents(0, 0), DType::i8),
                                        .weight_sum = nothing<1>({0}, DType::i32),
                                        .y = nowhere<2>({many, 0}, DType::i32)});
  expect_nothing_to_do(LinearW4a16<Host>{.x = nothing<2>({0, many}),
                                         .codes = nothing<3>({0, w4_steps(many, 4), 64}, DType::u8),
                                         .scales = nothing<3>({0, w4_groups(many, k), 16}),
                                         .y = nowhere<2>({0, 0}),
                                         .group = k});
}

TEST_F(EmptyWork, attention) {
  const float* const data = one_.data();
  expect_nothing_to_do(FlashAttention<Host>{.q = nothing<4>({many, 0, 1, 8}),
                                            .k = nothing<4>({many, 0, 1, 8}),
                                            .v = nothing<4>({many, 0, 1, 8}),
                                            .out = nowhere<4>({many, 0, 1, 8})});
  expect_nothing_to_do(IncreFlashAttention<Host>{.q = nothing<4>({0, 1, 1, 8}),
                                                 .k = nothing<4>({0, 4, 1, 8}),
                                                 .v = nothing<4>({0, 4, 1, 8}),
                                                 .out = nowhere<4>({0, 1, 1, 8})});
  expect_nothing_to_do(PagedAttention<Host>{.q = nothing<3>({0, 1, 8}),
                                            .k = ConstView<5>(data, {1, 1, 1, 1, 8}),
                                            .v = ConstView<5>(data, {1, 1, 1, 1, 8}),
                                            .block_table = nothing<2>({0, many}, DType::i32),
                                            .kv_lens = nothing<1>({0}, DType::i32),
                                            .out = nowhere<3>({0, 1, 8})});
}

// No input, yet something to write: a bias, zeros, a scale of 0.
TEST(overflow, empty_sums_are_written) {
  std::vector<float> bias = {1, 2, 3}, q(6, 1), y(6, 7), scales(2, 7);
  on_every_host_backend([&](const std::string&, auto run) {
    std::fill(y.begin(), y.end(), 7.0f);
    std::fill(scales.begin(), scales.end(), 7.0f);
    ASSERT_TRUE(ok(run(Linear<Host>{.x = nothing<2>({2, 0}),
                                    .weight_rows = nothing<2>({3, 0}),
                                    .bias = {bias.data(), {3}},
                                    .y = {y.data(), {2, 3}}})));
    EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 1, 2, 3}));
    ASSERT_TRUE(ok(run(IncreFlashAttention<Host>{.q = {q.data(), {2, 1, 1, 3}},
                                                 .k = nothing<4>({2, 0, 1, 3}),
                                                 .v = nothing<4>({2, 0, 1, 3}),
                                                 .out = {y.data(), {2, 1, 1, 3}}})));
    EXPECT_EQ(y, std::vector<float>(6, 0));
    ASSERT_TRUE(ok(run(RmsNorm<Host>{.x = nothing<2>({2, 0}),
                                     .weight = nothing<1>({0}),
                                     .y = nowhere<2>({2, 0}, DType::i8),
                                     .y_scale = {scales.data(), {2}}})));
    EXPECT_EQ(scales, std::vector<float>(2, 0));
  });
  Reference reference;
  scales = {7, 7};
  ASSERT_TRUE(ok(run(reference, RmsNorm<Host>{.x = nothing<2>({2, 0}),
                                              .weight = nothing<1>({0}),
                                              .y = nowhere<2>({2, 0}, DType::i8),
                                              .y_scale = {scales.data(), {2}}})));
  EXPECT_EQ(scales, std::vector<float>(2, 0));
}

// Device memory takes the same structs.
TEST(overflow, views_of_a_device_are_asked_the_same) {
  View<2, TestSpace> huge;
  huge.extents = {index{1} << 32, index{1} << 32};
  huge.strides = {index{1} << 32, 1};
  expect_refused(Add<TestSpace>{.a = huge, .b = huge, .y = huge}, {"a has shape", "2^57"});
  TestDevice device;
  View<2, TestSpace> empty;
  empty.extents = {many, 0};
  EXPECT_TRUE(ok(run(device, Add<TestSpace>{.a = empty, .b = empty, .y = empty})));
}

}  // namespace
}  // namespace inlay::test
