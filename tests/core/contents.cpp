// What check cannot see: indices and lengths that lie in a device's memory (core/backend.hpp states the rule). The test
// device looks first and writes no row at all; OpenCL's kernels meet them on their way and write none that offends.
#include <inlay/inlay.hpp>

#include <gtest/gtest.h>

#include <array>

#include "tests/support/backends.hpp"
#include "tests/support/tensor.hpp"
#include "tests/support/test_space.hpp"

namespace inlay::test {
namespace {

// What a device's memory holds is found when the device computes: run succeeds, nothing outside a view is touched,
// and the next finish() names operator, field, index and value. Once.
template <class Turn> class Contents : public ::testing::Test {
 protected:
  using Device = typename Turn::Device;
  using Space = SpaceOf<Device>;

  void SetUp() override {
    device_ = Turn::device();
    INLAY_NEEDS(device_ != nullptr, "cl", std::string("no OpenCL device"));
  }

  // Uploads a copy of each tensor; op's views then look at it.
  template <int Rank> View<Rank, Space> put(Tensor<Rank>& host) {
    const ConstView<Rank> view = host;
    const auto bytes = static_cast<std::size_t>(byte_size(view.dtype, view.size()));
    auto made = Allocation<Device>::make(*device_, bytes);
    EXPECT_TRUE(made && device_->upload(made->data(), {static_cast<const std::byte*>(view.data), bytes}).ok());
    memory_.push_back(std::move(*made));
    return {memory_.back().data(), view.dtype, view.extents};
  }
  template <std::size_t Rank> auto floats(const index (&extents)[Rank], double value = 1) {
    Tensor<static_cast<int>(Rank)> host(DType::f32, std::to_array(extents));
    host.fill(value);
    return put(host);
  }
  template <std::size_t Rank> auto ids(DType type, const index (&extents)[Rank], std::vector<double> values) {
    Tensor<static_cast<int>(Rank)> host(type, std::to_array(extents));
    for (std::size_t i = 0; i < values.size(); ++i) host.set(static_cast<index>(i), values[i]);
    return put(host);
  }

  SpaceWorkspace<Space> scratch(std::size_t bytes) {
    if (bytes == 0) return {};
    auto made = Allocation<Device>::make(*device_, bytes);
    memory_.push_back(std::move(*made));
    return {memory_.back().data(), bytes};
  }

  // Elements begin.. of `out` offend and are as before.
  template <class Op, int Rank>
  void expect_offence(const Op& op, const View<Rank, Space>& out, index begin, index count,
                      std::initializer_list<std::string_view> words) {
    const auto contents = [&] {
      std::vector<std::byte> all(static_cast<std::size_t>(byte_size(out.dtype, out.size())));
      EXPECT_TRUE(ok(device_->download(all, out.data)));
      const auto first = all.begin() + byte_size(out.dtype, begin);
      return std::vector<std::byte>(first, first + byte_size(out.dtype, count));
    };
    const auto before = contents();
    ASSERT_TRUE(ok(run(*device_, op, [&](std::size_t bytes) { return scratch(bytes); })));
    const Status offence = finish(*device_);
    EXPECT_EQ(offence.code(), StatusCode::invalid_argument);
    EXPECT_EQ(offence.message().substr(0, Op::name.size() + 2), std::string(Op::name) + ": ");
    for (std::string_view word : words)
      EXPECT_NE(offence.message().find(word), std::string_view::npos) << offence.message() << " lacks " << word;
    EXPECT_TRUE(ok(finish(*device_))) << "told twice";
    EXPECT_EQ(before, contents());
  }

  Device* device_ = nullptr;
  std::vector<Allocation<Device>> memory_;
};

struct OnTestDevice {
  using Device = TestDevice;
  static Device* device() {
    static auto& one = *new TestDevice;
    return &one;
  }
};
#ifdef INLAY_TESTS_CL
template <std::size_t shape> struct OnCl {
  using Device = WatchedCl;
  static Device* device() { return shape < cl_devices_to_test().size() ? &cl_devices_to_test()[shape] : nullptr; }
};
using Devices = ::testing::Types<OnTestDevice, OnCl<0>, OnCl<1>>;
#else
using Devices = ::testing::Types<OnTestDevice>;
#endif
TYPED_TEST_SUITE(Contents, Devices);

TYPED_TEST(Contents, ids_of_embedding) {
  using Space = typename TestFixture::Space;
  const auto y = this->floats({3, 8}, 7);
  this->expect_offence(
      Embedding<Space>{.table = this->floats({4, 8}), .ids = this->ids(DType::i32, {3}, {0, 4, 1}), .y = y}, y, 8, 8,
      {"ids[1]", "4", "0..3"});
}

TYPED_TEST(Contents, rows_of_moe_combine) {
  using Space = typename TestFixture::Space;
  const auto y = this->floats({3, 8}, 7);
  MoeCombine<Space> op{.x = this->floats({4, 8}), .rows = {}, .weights = this->floats({3, 2}), .y = y};
  op.rows = this->ids(DType::i32, {3, 2}, {0, 3, 1, 4, 2, 2});
  this->expect_offence(op, y, 8, 8, {"rows[1,1]", "4", "0..3"});
  op.rows = this->ids(DType::i32, {3, 2}, {0, 3, 1, 0, -1, 2});
  this->expect_offence(op, y, 16, 8, {"rows[2,0]", "-1", "0..3"});
}

TYPED_TEST(Contents, positions_of_rope) {
  using Space = typename TestFixture::Space;
  const auto y = this->floats({3, 1, 8}, 7);
  Rope<Space> op{.x = this->floats({3, 1, 8}), .cos = this->floats({4, 4}), .sin = this->floats({4, 4}), .y = y};
  op.positions = this->ids(DType::i32, {3}, {0, 4, 1});
  this->expect_offence(op, y, 8, 8, {"positions[1]", "4", "0..3"});
  op.positions = this->ids(DType::i32, {3}, {0, 3, -1});
  this->expect_offence(op, y, 16, 8, {"positions[2]", "-1", "0..3"});
}

TYPED_TEST(Contents, tables_and_lengths_of_paged_attention) {
  using Space = typename TestFixture::Space;
  const auto out = this->floats({2, 2, 8}, 7);
  const auto cache = this->floats({3, 1, 1, 4, 8});
  PagedAttention<Space> op{.q = this->floats({2, 2, 8}),
                           .k = cache,
                           .v = cache,
                           .block_table = this->ids(DType::i32, {2, 2}, {0, 1, 2, 99}),
                           .kv_lens = this->ids(DType::i32, {2}, {5, 6}),
                           .out = out};
  this->expect_offence(op, out, 16, 16, {"block_table", "99", "1"});
  op.block_table = this->ids(DType::i32, {2, 2}, {0, 1, 2, 1});
  op.kv_lens = this->ids(DType::i32, {2}, {5, 9});
  this->expect_offence(op, out, 16, 16, {"kv_lens", "9", "8"});
}

TYPED_TEST(Contents, slots_and_pairs_of_the_cache) {
  using Space = typename TestFixture::Space;
  const auto cache = this->floats({3, 1, 1, 4, 8}, 7);
  this->expect_offence(
      ReshapeAndCache<Space>{
          .k = this->floats({2, 1, 8}), .k_cache = cache, .slot_mapping = this->ids(DType::i64, {2}, {3, 12})},
      cache, 32, 64, {"slot_mapping[1]", "12"});
  this->expect_offence(CopyBlocks<Space>{.k_cache = cache, .pairs = this->ids(DType::i64, {2, 2}, {0, 1, 0, 3})}, cache,
                       64, 32, {"pairs[1]", "3", "0..2"});
}

TYPED_TEST(Contents, offsets_tables_and_lengths_of_flash_attention) {
  using Space = typename TestFixture::Space;
  const auto out = this->floats({1, 5, 1, 8}, 7);
  FlashAttention<Space> op{.q = this->floats({1, 5, 1, 8}),
                           .k = this->floats({3, 4, 1, 8}),
                           .v = this->floats({3, 4, 1, 8}),
                           .out = out,
                           .q_indptr = this->ids(DType::i32, {3}, {0, 6, 5}),
                           .kv_lens = this->ids(DType::i32, {2}, {4, 7}),
                           .block_table = this->ids(DType::i32, {2, 2}, {0, 1, 2, 1})};
  this->expect_offence(op, out, 0, 40, {"q_indptr", "6", "1"});
  op.q_indptr = this->ids(DType::i32, {3}, {0, 2, 5});
  op.kv_lens = this->ids(DType::i32, {2}, {4, 12});
  this->expect_offence(op, out, 16, 24, {"kv_lens", "12", "0..8"});
  op.kv_lens = this->ids(DType::i32, {2}, {4, 7});
  op.block_table = this->ids(DType::i32, {2, 2}, {0, 1, 2, -1});
  this->expect_offence(op, out, 16, 24, {"block_table", "-1", "[1, 1]"});
}

TYPED_TEST(Contents, lengths_of_incre_flash_attention) {
  using Space = typename TestFixture::Space;
  const auto out = this->floats({2, 1, 1, 8}, 7);
  this->expect_offence(IncreFlashAttention<Space>{.q = this->floats({2, 1, 1, 8}),
                                                  .k = this->floats({2, 4, 1, 8}),
                                                  .v = this->floats({2, 4, 1, 8}),
                                                  .out = out,
                                                  .kv_lens = this->ids(DType::i32, {2}, {4, 5})},
                       out, 8, 8, {"kv_lens", "5", "1", "0..4"});
}

TYPED_TEST(Contents, history_of_sampling) {
  using Space = typename TestFixture::Space;
  const auto tokens = this->ids(DType::i32, {2}, {7, 7});
  this->expect_offence(Sampling<Space>{.logits = this->floats({2, 4}),
                                       .history = this->ids(DType::i32, {2, 2}, {0, 1, -1, 4}),
                                       .tokens = tokens,
                                       .repetition_penalty = 1.5f},
                       tokens, 1, 1, {"history[1,1]", "4"});
}

// Of experts whose ends do not ascend to the rows of x: no row of another one is touched, and nothing outside the
// views.
TYPED_TEST(Contents, ends_of_experts) {
  using Space = typename TestFixture::Space;
  constexpr index k = 8, n = 4, experts = 3;
  const auto y = this->floats({5, n}, 7);
  const auto x = this->floats({5, k});
  const auto ends = [&](std::vector<double> values) { return this->ids(DType::i32, {experts}, std::move(values)); };
  Linear<Space> op{.x = x, .weight_rows = this->floats({experts * n, k}), .y = y};
  // The last expert begins where the one before ended in vain: its rows are those that nobody has.
  op.expert_ends = ends({2, 9, 5});
  this->expect_offence(op, y, 5 * n, 0, {"expert_ends[1]", "9", "0 to 5"});
  op.expert_ends = ends({2, 2, 4});
  this->expect_offence(op, y, 4 * n, n, {"expert_ends[2]", "4", "0 to 5"});
  op.expert_ends = ends({-3, 0, 0});
  const auto untouched = this->floats({5, n}, 7);
  op.y = untouched;
  this->expect_offence(op, untouched, 0, 5 * n, {"expert_ends[", "0 to 5"});

  LinearInt8<Space> int8{.x = x,
                         .weight = this->ids(DType::i8, {experts, k / 4, 64}, {}),
                         .weight_sum = this->ids(DType::i32, {experts * n}, {}),
                         .weight_scale = this->floats({1}),
                         .y = y};
  int8.expert_ends = ends({2, 2, 4});
  this->expect_offence(int8, y, 4 * n, n, {"expert_ends[2]", "4", "0 to 5"});
  LinearW4a16<Space> codes{
      .x = x, .codes = this->ids(DType::u8, {experts, 1, 64}, {}), .scales = this->floats({experts, 1, 16}), .y = y};
  codes.expert_ends = ends({2, 2, 4});
  this->expect_offence(codes, y, 4 * n, n, {"expert_ends[2]", "4", "0 to 5"});
}

// A row that has no token is the data's fault too, and comes the same way.
TYPED_TEST(Contents, a_row_of_nan_is_told_by_finish) {
  using Space = typename TestFixture::Space;
  const auto logits = this->floats({2, 4}, std::numeric_limits<double>::quiet_NaN());
  const auto tokens = this->ids(DType::i32, {2}, {7, 7});
  ASSERT_TRUE(ok(run(*this->device_, Sampling<Space>{.logits = logits, .tokens = tokens},
                     [&](std::size_t bytes) { return this->scratch(bytes); })));
  const Status offence = finish(*this->device_);
  EXPECT_EQ(offence.code(), StatusCode::corrupt_data);
  EXPECT_NE(offence.message().find("row 0"), std::string_view::npos) << offence.message();
}

}  // namespace
}  // namespace inlay::test
