// Which number reaches the cache: bits that stay, rounding, int8 codes and their scales.
#include <sys/mman.h>

#include <fstream>
#include <iterator>

#include "tests/kv_cache/case.hpp"

namespace inlay::test {
namespace {

template <class Test> void on_reference_and_backends(Test&& test) {
  test([](const auto& op) {
    Reference reference;
    return run(reference, op);
  });
  on_every_backend([&](const std::string&, auto run) { test(run); });
}

// One row into an int8 cache: its codes, and its scale.
void expect_codes(const std::vector<float>& row, const std::vector<int>& codes, float scale) {
  const index dim = static_cast<index>(row.size());
  const std::int64_t slots[] = {1};
  for (index x : {dim, index{1}}) {  // side by side; a slot apart
    on_reference_and_backends([&](auto run) {
      std::vector<std::int8_t> cache(2 * dim, 99);
      std::vector<float> scales(2, 99);
      ASSERT_TRUE(ok(run(ReshapeAndCache<Host>{.k = ConstView<3>(row.data(), {1, 1, dim}),
                                               .k_cache = View<5>(cache.data(), {1, 1, dim / x, 2, x}),
                                               .slot_mapping = ConstView<1>(slots, {1}),
                                               .k_scale = View<3>(scales.data(), {1, 1, 2})})));
      EXPECT_EQ(scales[1], scale);
      EXPECT_EQ(scales[0], 99);
      for (index d = 0; d < dim; ++d) {
        ASSERT_EQ(cache[(d / x * 2 + 1) * x + d % x], codes[d]) << row[d] << " at " << d;
        ASSERT_EQ(cache[d / x * 2 * x + d % x], 99);
      }
    });
  }
}

// With a largest value of 127 the scale is 1: codes are the numbers themselves, halves go to the even one.
TEST(kv_cache, int8_codes_are_rounded_to_nearest_even) {
  const std::vector<float> some = {127,     0.5f,     1.5f,    2.5f,   3.5f,    -0.5f,    -1.5f,
                                   -2.5f,   126.5f,   -126.5f, 125.5f, 0.4999f, -0.4999f, 0.5001f,
                                   2.4999f, -3.5001f, -127,    64.5f,  -65.5f,  99.75f,   -99.25f};
  const std::vector<int> codes = {127, 0, 2, 2, 4, 0, -2, -2, 126, -126, 126, 0, 0, 1, 2, -4, -127, 64, -66, 100, -99};
  expect_codes(some, codes, 1);
  // Through full registers and what is left of one, the largest in the last place.
  std::vector<float> row;
  std::vector<int> expected;
  for (int i = 0; i < 40; ++i) {
    row.push_back(some[i % 16 + 1]), expected.push_back(codes[i % 16 + 1]);
    if (row.back() == -127) row.back() = 3, expected.back() = 3;
  }
  row.push_back(-127), expected.push_back(-127);
  expect_codes(row, expected, 1);
}

// A scale that is no power of two: (k + 1/2) scale is exact, and so is the quotient. A product with 1 / scale is not.
TEST(kv_cache, int8_codes_are_quotients) {
  for (int scale : {3, 5, 7, 11, 13, 41}) {
    std::vector<float> row;
    std::vector<int> codes;
    for (int k = -127; k < 127; ++k) {
      row.push_back(static_cast<float>(scale) * (static_cast<float>(k) + 0.5f));
      codes.push_back(k % 2 == 0 ? k : k + 1);
    }
    row.push_back(static_cast<float>(127 * scale)), codes.push_back(127);
    expect_codes(row, codes, static_cast<float>(scale));
  }
}

// The largest of a row counts in any lane, of either sign.
TEST(kv_cache, int8_scales_are_those_of_the_largest_anywhere) {
  for (index dim : {1, 2, 15, 16, 17, 33, 64, 65})
    for (index place = 0; place < dim; ++place)
      for (float largest : {254.0f, -254.0f}) {
        std::vector<float> row(static_cast<std::size_t>(dim), 2);
        std::vector<int> codes(static_cast<std::size_t>(dim), 1);
        row[place] = largest, codes[place] = largest > 0 ? 127 : -127;
        ASSERT_NO_FATAL_FAILURE(expect_codes(row, codes, 2));
      }
}

// A scale of max/127 and rounding to nearest leave half a step; f32 adds three roundings of 127.
TEST(kv_cache, int8_reads_back_within_half_a_step) {
  Rng rng(5);
  const Case start =
      make(DType::f32, DType::i8, Pages::vllm, {.tokens = 4, .block_size = 8, .key_dim = 80, .value_dim = 80}, {}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    const index slot = static_cast<index>(got.slots.get(0));
    for (index h = 0; h < 2; ++h) {
      const double scale = got.k_scale.get(Case::scale_at(got.k_scale, slot, h));
      double largest = 0;
      for (index d = 0; d < 80; ++d) {
        const double stored = got.keys.get(slot, h, d);
        EXPECT_NEAR(stored * scale, got.source(false, 0, h, d), scale * (0.5 + 3 * 127 * epsilon(DType::f32)));
        largest = std::max(largest, std::abs(stored));
      }
      EXPECT_EQ(largest, 127);
    }
  });
}

TEST(kv_cache, int8_of_zeros_and_of_what_is_not_finite) {
  Rng rng(6);
  for (double bad : {0.0, double(INFINITY), -double(INFINITY), double(NAN)})
    for (index place : {0, 1, 15, 16, 31, 32, 35, 36}) {
      Case start = make(DType::f32, DType::i8, Pages::flat,
                        {.tokens = 1, .block_size = 1, .key_dim = 37, .value_dim = 37}, {}, rng);
      for (index d = 0; d < 37; ++d)
        if (bad == 0 || d == place) start.fused.set(1 + d, bad);
      on_reference_and_backends([&](auto run) {
        Case got = start;
        ASSERT_TRUE(ok(run(got.op())));
        const index slot = static_cast<index>(got.slots.get(0));
        const double scale = got.k_scale.get(Case::scale_at(got.k_scale, slot, 0));
        EXPECT_TRUE(bad == 0 ? scale == 0 : std::isnan(scale));
        for (index d = 0; d < 37; ++d) EXPECT_EQ(got.keys.get(slot, 0, d), 0);
        EXPECT_GT(got.k_scale.get(Case::scale_at(got.k_scale, slot, 1)), 0);  // the other head is its own row
        EXPECT_GT(got.v_scale.get(Case::scale_at(got.v_scale, slot, 0)), 0);
      });
    }
}

TEST(kv_cache, equal_types_keep_every_bit_and_others_round_to_infinity) {
  const std::uint16_t patterns[] = {0x7d01, 0xfdff, 0x0001, 0x8000, 0x7c00, 0x3c00};  // signalling NaNs, subnormal, -0
  std::vector<f16> source;
  for (std::uint16_t bits : patterns) source.push_back(f16::from_bits(bits));
  const std::vector<float> large = {65519.0f, 65520.0f, -1e30f, 0x1p-25f, 0x1.8p-25f, -0.0f};
  const std::int64_t slots[] = {1};
  std::vector<f16> cache(12);
  const auto op = [&](ConstView<3> key) {
    return ReshapeAndCache<Host>{
        .k = key, .k_cache = flat_cache(View<4>(cache.data(), {1, 2, 1, 6})), .slot_mapping = ConstView<1>(slots, {1})};
  };
  const auto test = [&](auto run) {
    ASSERT_TRUE(ok(run(op(ConstView<3>(source.data(), {1, 1, 6})))));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(cache[6 + i].bits, patterns[i]);
    ASSERT_TRUE(ok(run(op(ConstView<3>(large.data(), {1, 1, 6})))));
    const std::uint16_t rounded[] = {0x7bff, 0x7c00, 0xfc00, 0x0000, 0x0001, 0x8000};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(cache[6 + i].bits, rounded[i]);
  };
  on_every_backend([&](const std::string&, auto run) { test(run); });
  test([](const auto& op) {
    Reference reference;
    return run(reference, op);
  });
}

// 2^33 elements of address space, of which a few pages are touched.
TEST(kv_cache, offsets_pass_2_31_elements) {
  constexpr index blocks = 1 << 13, block_size = 16, heads = 8, dim = 8192;
  constexpr std::size_t bytes = std::size_t{blocks} * block_size * heads * dim * sizeof(f16);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  INLAY_NEEDS(memory != MAP_FAILED, "address_space", "there are no " + std::to_string(bytes) + " bytes of it");
  const PagedView<> cache = flat_cache(View<4>(static_cast<f16*>(memory), {blocks, block_size, heads, dim}));
  const std::vector<float> source(heads * dim, 1.5f);
  const index last = blocks * block_size - 1;
  EXPECT_EQ(paged_offset(cache, last, heads - 1, dim - 1), (index{1} << 33) - 1);
  on_every_host_backend([&](const std::string&, auto run) {
    static_cast<f16*>(memory)[(index{1} << 33) - 1] = f16{};
    const std::int64_t slots[] = {last};
    ASSERT_TRUE(ok(run(ReshapeAndCache<Host>{.k = ConstView<3>(source.data(), {1, heads, dim}),
                                             .k_cache = cache,
                                             .slot_mapping = ConstView<1>(slots, {1})})));
    EXPECT_EQ(static_cast<f16*>(memory)[(index{1} << 33) - 1], 1.5f);
    const std::int64_t pair[] = {blocks - 1, blocks - 3};
    ASSERT_TRUE(ok(run(CopyBlocks<Host>{.k_cache = cache, .pairs = ConstView<2>(pair, {1, 2})})));
    EXPECT_EQ(static_cast<f16*>(memory)[paged_offset(cache, last - 2 * block_size, 7, 8191)], 1.5f);
  });
  munmap(memory, bytes);
}

// The end of an ONNX TensorProto is its raw data; the node test's shapes are given below.
template <class T> std::vector<T> raw_data(const std::string& path, std::size_t count) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<T> values(bytes.size() < count * sizeof(T) ? 0 : count);
  if (!values.empty()) std::memcpy(values.data(), bytes.data() + bytes.size() - count * sizeof(T), count * sizeof(T));
  return values;
}

// ONNX TensorScatter: a batch of [heads, max_len, dim] caches is a head-major pool with one block per
// sequence, and write_indices are slots within it.
TEST(kv_cache, onnx_tensor_scatter) {
  const std::string data_set = "onnx_node/test_tensorscatter/test_data_set_0/", folder = third_party(data_set);
  INLAY_NEEDS_DATA(data_set + "output_0.pb");
  constexpr index batch = 2, heads = 1, max_len = 4, dim = 5, length = 1;
  const auto past = raw_data<float>(folder + "input_0.pb", batch * heads * max_len * dim);
  const auto update = raw_data<float>(folder + "input_1.pb", batch * heads * length * dim);
  const auto where = raw_data<std::int64_t>(folder + "input_2.pb", batch);
  const auto present = raw_data<float>(folder + "output_0.pb", batch * heads * max_len * dim);
  ASSERT_FALSE(past.empty() || update.empty() || where.empty() || present.empty());
  std::vector<std::int64_t> slots;
  for (index b = 0; b < batch; ++b) slots.push_back(b * max_len + where[b]);
  on_every_backend([&](const std::string&, auto run) {
    std::vector<float> cache = past;
    ASSERT_TRUE(
        ok(run(ReshapeAndCache<Host>{.k = ConstView<3>(update.data(), {batch * length, heads, dim}),
                                     .k_cache = head_major_cache(View<4>(cache.data(), {batch, heads, max_len, dim})),
                                     .slot_mapping = ConstView<1>(slots.data(), {batch})})));
    EXPECT_EQ(cache, present);
  });
}

}  // namespace
}  // namespace inlay::test
