#include <inlay/core/view.hpp>

#include <gtest/gtest.h>

#include <dlpack/dlpack.h>

#include <vector>

#include <inlay/core/dlpack.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/overlap.hpp>

namespace inlay {
namespace {

TEST(view, strides_and_slices) {
  std::vector<float> data(24);
  for (int i = 0; i < 24; ++i) data[i] = static_cast<float>(i);
  const View<3> x(data.data(), {2, 3, 4});
  EXPECT_EQ(x.strides, (View<3>::Extents{12, 4, 1}));
  EXPECT_EQ(at(x, 1, 2, 3), 23);
  const ConstView<3> part = x.slice(1, 1, 2);
  EXPECT_EQ(part.extents, (View<3>::Extents{2, 2, 4}));
  EXPECT_EQ(at(part, 1, 0, 0), 16);
  EXPECT_FALSE(part.contiguous());
  EXPECT_TRUE(x.contiguous());
  EXPECT_FALSE(View<2>().present());
  EXPECT_TRUE(View<2>(static_cast<float*>(nullptr), {0, 5}).present());
  EXPECT_TRUE(View<2>(static_cast<float*>(nullptr), {0, 5}).empty());
}

TEST(view, offsets_pass_two_to_the_31) {
  const View<2> pool(static_cast<void*>(nullptr), DType::i8, {index{1} << 40, 128});
  EXPECT_EQ(offset(pool, (index{1} << 40) - 1, 127), (index{1} << 47) - 1);
  EXPECT_EQ(pool.size(), index{1} << 47);
}

TEST(overlap, interleaved_parts_of_a_fused_row_are_apart) {
  std::vector<float> qkv(4 * 30);
  const View<2> q(qkv.data(), {4, 10}, {30, 1}), k(qkv.data() + 10, {4, 10}, {30, 1});
  const View<2> wide(qkv.data() + 5, {4, 10}, {30, 1});
  EXPECT_FALSE(overlap(q, k));
  EXPECT_FALSE(overlap(k, q));
  EXPECT_TRUE(overlap(q, wide));
  EXPECT_TRUE(overlap(wide, k));
  EXPECT_TRUE(overlap(q, q));
  // The same parts as heads: three dimensions.
  const View<3> q3(qkv.data(), {4, 2, 5}, {30, 5, 1}), k3(qkv.data() + 10, {4, 2, 5}, {30, 5, 1});
  EXPECT_FALSE(overlap(q3, k3));
  EXPECT_TRUE(overlap(q3, View<1>(qkv.data() + 95, {20})));
  EXPECT_FALSE(overlap(View<1>(qkv.data(), {10}), View<1>(qkv.data() + 10, {10})));
  EXPECT_FALSE(overlap(View<1>(qkv.data(), {0}), q));
}

TEST(overlap, rows_in_reverse_are_found) {
  std::vector<float> data(40);
  const View<2> up(data.data(), {4, 10}), down(data.data() + 30, {4, 10}, {-10, 1});
  EXPECT_TRUE(overlap(up, down));
  EXPECT_FALSE(overlap(up.slice(0, 0, 2), View<2>(data.data() + 30, {2, 10}, {-10, 1})));
}

TEST(dlpack, round_trip) {
  std::vector<std::uint16_t> data(12);
  View<2> x(data.data(), DType::bf16, {3, 4});
  const auto tensor = to_dlpack<DLTensor>(x);
  EXPECT_EQ(tensor.dtype.code, kDLBfloat);
  EXPECT_EQ(tensor.dtype.bits, 16);
  const auto back = from_dlpack<2>(tensor);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(same_elements(*back, x));
  DLTensor compact = tensor;
  compact.strides = nullptr;
  EXPECT_TRUE(same_elements(*from_dlpack<2>(compact), x));
}

TEST(dlpack, refusals_name_what_is_wrong) {
  std::vector<float> data(12);
  View<2> x(data.data(), {3, 4});
  auto tensor = to_dlpack<DLTensor>(x);
  EXPECT_NE(from_dlpack<3>(tensor).error().message().find("2 dimensions"), std::string_view::npos);
  tensor.dtype.bits = 64;
  EXPECT_NE(from_dlpack<2>(tensor).error().message().find("64 bits"), std::string_view::npos);
  tensor.dtype.bits = 32;
  tensor.device.device_type = kDLCUDA;
  EXPECT_NE(from_dlpack<2>(tensor).error().message().find("device type 2"), std::string_view::npos);
}

}  // namespace
}  // namespace inlay
