// What check cannot see: indices and lengths that lie in a device's memory (core/backend.hpp states the rule). The test
// device keeps it as a real one must.
#include <inlay/inlay.hpp>

#include <gtest/gtest.h>

#include "tests/support/backends.hpp"
#include "tests/support/tensor.hpp"
#include "tests/support/test_space.hpp"

namespace inlay::test {
namespace {

// What a device's memory holds is found when the device computes: run succeeds, nothing outside a view is touched,
// and the next finish() names operator, field, index and value. Once.
class Contents : public ::testing::Test {
 protected:
  // Uploads a copy of each tensor; op's views then look at it.
  template <int Rank> View<Rank, TestSpace> put(Tensor<Rank>& host) {
    const ConstView<Rank> view = host;
    const auto bytes = static_cast<std::size_t>(byte_size(view.dtype, view.size()));
    auto made = Allocation<TestDevice>::make(device_, bytes);
    EXPECT_TRUE(made && device_.upload(made->data(), {static_cast<const std::byte*>(view.data), bytes}).ok());
    memory_.push_back(std::move(*made));
    return {memory_.back().data(), view.dtype, view.extents};
  }
  template <int Rank> View<Rank, TestSpace> floats(const std::array<index, Rank>& extents, double value = 1) {
    Tensor<Rank> host(DType::f32, extents);
    host.fill(value);
    return put(host);
  }
  template <int Rank>
  View<Rank, TestSpace> ids(DType type, const std::array<index, Rank>& extents, std::vector<double> values) {
    Tensor<Rank> host(type, extents);
    for (std::size_t i = 0; i < values.size(); ++i) host.set(static_cast<index>(i), values[i]);
    return put(host);
  }

  template <class Op, int Rank>
  void expect_offence(const Op& op, const View<Rank, TestSpace>& out, std::initializer_list<std::string_view> words) {
    const auto bytes = static_cast<std::size_t>(byte_size(out.dtype, out.size()));
    std::vector<std::byte> before(bytes), after(bytes);
    ASSERT_TRUE(ok(device_.download(before, out.data)));
    ASSERT_TRUE(ok(run(device_, op, [&](std::size_t n) {
      auto made = Allocation<TestDevice>::make(device_, n);
      memory_.push_back(std::move(*made));
      return SpaceWorkspace<TestSpace>{memory_.back().data(), n};
    })));
    const Status offence = finish(device_);
    EXPECT_EQ(offence.code(), StatusCode::invalid_argument);
    EXPECT_EQ(offence.message().substr(0, Op::name.size() + 2), std::string(Op::name) + ": ");
    for (std::string_view word : words)
      EXPECT_NE(offence.message().find(word), std::string_view::npos) << offence.message() << " lacks " << word;
    EXPECT_TRUE(ok(finish(device_)));
    ASSERT_TRUE(ok(device_.download(after, out.data)));
    EXPECT_EQ(before, after);
  }

  TestDevice device_;
  std::vector<Allocation<TestDevice>> memory_;
};

TEST_F(Contents, ids_of_embedding) {
  const auto y = floats<2>({3, 8}, 7);
  expect_offence(Embedding<TestSpace>{.table = floats<2>({4, 8}), .ids = ids<1>(DType::i32, {3}, {0, 4, 1}), .y = y}, y,
                 {"ids[1]", "4", "0..3"});
}

TEST_F(Contents, tables_and_lengths_of_paged_attention) {
  const auto out = floats<3>({2, 2, 8}, 7);
  const auto cache = floats<5>({3, 1, 1, 4, 8});
  PagedAttention<TestSpace> op{.q = floats<3>({2, 2, 8}),
                               .key_cache = cache,
                               .value_cache = cache,
                               .block_tables = ids<2>(DType::i32, {2, 2}, {0, 1, 2, 99}),
                               .context_lens = ids<1>(DType::i32, {2}, {5, 6}),
                               .out = out};
  expect_offence(op, out, {"block_tables", "99", "1"});
  op.block_tables = ids<2>(DType::i32, {2, 2}, {0, 1, 2, 1});
  op.context_lens = ids<1>(DType::i32, {2}, {5, 9});
  expect_offence(op, out, {"context_lens", "9", "8"});
}

TEST_F(Contents, slots_and_pairs_of_the_cache) {
  const auto cache = floats<5>({3, 1, 1, 4, 8}, 7);
  expect_offence(
      ReshapeAndCache<TestSpace>{
          .key = floats<3>({2, 1, 8}), .key_cache = cache, .slot_mapping = ids<1>(DType::i64, {2}, {3, 12})},
      cache, {"slot_mapping[1]", "12"});
  expect_offence(CopyBlocks<TestSpace>{.key_cache = cache, .pairs = ids<2>(DType::i64, {2, 2}, {0, 1, 0, 3})}, cache,
                 {"pairs[1]", "3", "0..2"});
}

TEST_F(Contents, offsets_tables_and_lengths_of_flash_attention) {
  const auto out = floats<4>({1, 5, 1, 8}, 7);
  FlashAttention<TestSpace> op{.q = floats<4>({1, 5, 1, 8}),
                               .k = floats<4>({3, 4, 1, 8}),
                               .v = floats<4>({3, 4, 1, 8}),
                               .out = out,
                               .q_indptr = ids<1>(DType::i32, {3}, {0, 6, 5}),
                               .kv_lens = ids<1>(DType::i32, {2}, {4, 7}),
                               .block_table = ids<2>(DType::i32, {2, 2}, {0, 1, 2, 1})};
  expect_offence(op, out, {"q_indptr", "6", "1"});
  op.q_indptr = ids<1>(DType::i32, {3}, {0, 2, 5});
  op.kv_lens = ids<1>(DType::i32, {2}, {4, 12});
  expect_offence(op, out, {"kv_lens", "12", "0..8"});
  op.kv_lens = ids<1>(DType::i32, {2}, {4, 7});
  op.block_table = ids<2>(DType::i32, {2, 2}, {0, 1, 2, -1});
  expect_offence(op, out, {"block_table", "-1", "[1, 1]"});
}

TEST_F(Contents, lengths_of_incre_flash_attention) {
  const auto out = floats<4>({2, 1, 1, 8}, 7);
  expect_offence(IncreFlashAttention<TestSpace>{.q = floats<4>({2, 1, 1, 8}),
                                                .k = floats<4>({2, 4, 1, 8}),
                                                .v = floats<4>({2, 4, 1, 8}),
                                                .out = out,
                                                .actual_seq_lengths = ids<1>(DType::i32, {2}, {4, 5})},
                 out, {"actual_seq_lengths", "5", "1", "0..4"});
}

TEST_F(Contents, history_of_sampling) {
  const auto tokens = ids<1>(DType::i32, {2}, {7, 7});
  expect_offence(Sampling<TestSpace>{.logits = floats<2>({2, 4}),
                                     .history = ids<2>(DType::i32, {2, 2}, {0, 1, -1, 4}),
                                     .tokens = tokens,
                                     .repetition_penalty = 1.5f},
                 tokens, {"history[1,1]", "4"});
}

// A row that has no token is the data's fault too, and comes the same way.
TEST_F(Contents, a_row_of_nan_is_told_by_finish) {
  const auto logits = floats<2>({2, 4}, std::numeric_limits<double>::quiet_NaN());
  const auto tokens = ids<1>(DType::i32, {2}, {7, 7});
  auto scratch = Allocation<TestDevice>::make(device_, test_scratch);
  ASSERT_TRUE(
      ok(run(device_, Sampling<TestSpace>{.logits = logits, .tokens = tokens}, {scratch->data(), test_scratch})));
  const Status offence = finish(device_);
  EXPECT_EQ(offence.code(), StatusCode::corrupt_data);
  EXPECT_NE(offence.message().find("row 0"), std::string_view::npos) << offence.message();
}

}  // namespace
}  // namespace inlay::test
