#include <inlay/ops/kv_cache.hpp>

#include <sys/mman.h>

#include <bit>
#include <fstream>
#include <iterator>
#include <numeric>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/paged.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr double untouched = 7;

// Keys and values are parts of one fused row [q | k | v], as a model computes them.
struct Case {
  Tensor<3> fused;
  index heads, key_dim, value_dim;
  Pool keys, values;
  Tensor<3> key_scales = {}, value_scales = {};  // of an int8 cache
  Tensor<1> slots;

  ConstView<3> part(index first, index dim) {
    const View<3> all = fused;
    const View<3> row = all.slice(2, first, heads * dim);
    return {row.data, row.dtype, {row.extents[0], heads, dim}, {row.strides[0], dim, 1}};
  }
  ReshapeAndCache<Host> op() {
    ReshapeAndCache<Host> op{.key = part(3, key_dim),
                             .value = part(3 + heads * key_dim, value_dim),
                             .key_cache = keys,
                             .value_cache = values,
                             .slot_mapping = slots};
    op.key_scales = key_scales;
    op.value_scales = value_scales;
    return op;
  }
};

struct Shape {
  index tokens, block_size, heads, key_dim, value_dim;
};

Case make(DType type, DType cache, Pages pages, const Shape& shape, Layout layout, Rng& rng) {
  const auto& [tokens, block_size, heads, key_dim, value_dim] = shape;
  const index blocks = tokens / block_size + 3, slot_total = blocks * block_size;
  Case c{.fused = {type, {tokens, 1, 3 + heads * (key_dim + value_dim)}, layout},
         .heads = heads,
         .key_dim = key_dim,
         .value_dim = value_dim,
         .keys = {cache, {blocks, block_size, heads, key_dim}, pages, Pool::keys, layout},
         .values = {cache, {blocks, block_size, heads, value_dim}, pages, Pool::values, layout},
         .slots = {DType::i64, {tokens}}};
  c.fused.uniform(rng, -3, 3);
  c.keys.memory.fill(untouched);
  c.values.memory.fill(untouched);
  if (cache == DType::i8)
    c.key_scales = c.value_scales = Tensor<3>(DType::f32, {blocks, heads, block_size}).fill(untouched);
  std::vector<index> order(static_cast<std::size_t>(slot_total));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng);
  for (index t = 0; t < tokens; ++t) c.slots.set(t, t % 5 == 3 ? -1 : static_cast<double>(order[t]));
  return c;
}

// Conversions round to nearest even and the quotient is f32's: every backend writes the same bits.
void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_equal(got.keys.memory, expected.keys.memory);
    expect_equal(got.values.memory, expected.values.memory);
    expect_equal(got.key_scales, expected.key_scales);
    expect_equal(got.value_scales, expected.value_scales);
    EXPECT_TRUE(got.keys.memory.gaps_untouched());
    EXPECT_TRUE(got.values.memory.gaps_untouched());
    EXPECT_TRUE(got.key_scales.gaps_untouched());
  });
}

TEST(kv_cache, reshape_dims_and_types) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
      for (Pages pages : all_pages)
        for (index dim : {1, 15, 17, 33}) {
          SCOPED_TRACE(name(pages));
          ASSERT_NO_FATAL_FAILURE(compare(make(type, cache, pages, {4, 3, 2, dim, dim + 1}, layouts[dim % 3], rng)));
        }
  for (index dim : head_dims)
    ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, DType::f16, Pages::flat, {3, 16, 2, dim, 64}, {}, rng)));
}

TEST(kv_cache, reshape_blocks_and_counts) {
  Rng rng(2);
  for (Pages pages : all_pages)
    for (index block_size : {1, 3, 5, 16, 256})
      for (index tokens : {0, 1, 7, 42}) {
        SCOPED_TRACE(name(pages));
        ASSERT_NO_FATAL_FAILURE(compare(make(DType::f32, DType::f16, pages, {tokens, block_size, 2, 8, 3}, {}, rng)));
      }
}

// The drawings of core/paged_kv.hpp, with an address worked out by hand for each.
TEST(kv_cache, layouts_are_those_of_the_drawings) {
  constexpr index blocks = 3, block_size = 4, heads = 2, dim = 16, x = 8, slot = 9, h = 1, d = 13;
  std::vector<f16> keys(blocks * block_size * heads * dim), values(keys.size());
  const index block = slot / block_size, t = slot % block_size;
  const View<4> flat(keys.data(), {blocks, block_size, heads, dim});
  EXPECT_EQ(paged_offset(flat_cache(flat), slot, h, d), ((block * block_size + t) * heads + h) * dim + d);
  const View<4> major(keys.data(), {blocks, heads, block_size, dim});
  EXPECT_EQ(paged_offset(head_major_cache(major), slot, h, d), ((block * heads + h) * block_size + t) * dim + d);
  const View<5> vllm(keys.data(), {blocks, heads, dim / x, block_size, x});
  EXPECT_EQ(vllm_key_x(DType::f16), x);
  EXPECT_EQ(paged_offset(vllm, slot, h, d), (((block * heads + h) * (dim / x) + d / x) * block_size + t) * x + d % x);
  const View<4> minor(values.data(), {blocks, heads, dim, block_size});
  EXPECT_EQ(paged_offset(slot_minor_cache(minor), slot, h, d), ((block * heads + h) * dim + d) * block_size + t);
  const View<3> scales(keys.data(), {blocks, heads, block_size});
  EXPECT_EQ(paged_offset(scales_cache(scales), slot, h, 0), (block * heads + h) * block_size + t);

  // And the reference writes there.
  std::vector<float> source(heads * dim);
  std::iota(source.begin(), source.end(), 0.0f);
  const std::int64_t slots[] = {slot};
  const ConstView<3> token(source.data(), {1, heads, dim});
  Reference reference;
  ASSERT_TRUE(ok(run(reference, ReshapeAndCache<Host>{.key = token,
                                                      .value = token,
                                                      .key_cache = vllm,
                                                      .value_cache = slot_minor_cache(minor),
                                                      .slot_mapping = ConstView<1>(slots, {1})})));
  for (index e = 0; e < dim; ++e) {
    EXPECT_EQ(keys[(((block * heads + h) * (dim / x) + e / x) * block_size + t) * x + e % x], h * dim + e);
    EXPECT_EQ(values[((block * heads + h) * dim + e) * block_size + t], h * dim + e);
  }
}

TEST(kv_cache, the_last_token_of_a_slot_stays) {
  Rng rng(3);
  for (DType cache : {DType::f16, DType::i8}) {
    Case start = make(DType::f32, cache, Pages::flat, {40, 16, 3, 24, 24}, {}, rng);
    start.slots.integers(rng, 0, 4);
    compare(start);
  }
}

TEST(kv_cache, keys_alone) {
  Rng rng(4);
  Case start = make(DType::bf16, DType::bf16, Pages::flat, {5, 16, 1, 576, 8}, {}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ReshapeAndCache<Host> op = got.op();
    op.value = {};
    op.value_cache = {};
    ASSERT_TRUE(ok(run(op)));
    expect_equal(got.values.memory, start.values.memory);
    for (index d = 0; d < 576; ++d)
      ASSERT_EQ(got.keys.get(static_cast<index>(got.slots.get(0)), 0, d), got.fused.get(3 + d));
  });
}

// A scale of max/127 and rounding to nearest leave half a step; f32 adds three roundings of 127.
TEST(kv_cache, int8_reads_back_within_half_a_step) {
  Rng rng(5);
  Case start = make(DType::f32, DType::i8, Pages::vllm, {4, 8, 2, 80, 80}, {}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    const index slot = static_cast<index>(got.slots.get(0));
    for (index h = 0; h < 2; ++h) {
      const double scale = at(got.key_scales.view(), slot / 8, h, slot % 8);
      double largest = 0;
      for (index d = 0; d < 80; ++d) {
        const double original = got.fused.get(3 + h * 80 + d), stored = got.keys.get(slot, h, d);
        EXPECT_NEAR(stored * scale, original, scale * (0.5 + 3 * 127 * epsilon(DType::f32)));
        largest = std::max(largest, std::abs(stored));
      }
      EXPECT_EQ(largest, 127);
    }
  });
}

TEST(kv_cache, int8_of_zeros_and_of_what_is_not_finite) {
  Rng rng(6);
  for (double bad : {0.0, double(INFINITY), -double(INFINITY), double(NAN)}) {
    Case start = make(DType::f32, DType::i8, Pages::flat, {1, 1, 2, 37, 37}, {}, rng);
    for (index d = 0; d < 37; ++d)
      if (bad == 0 || d == 35) start.fused.set(3 + d, bad);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      const index slot = static_cast<index>(got.slots.get(0));
      const double scale = at(got.key_scales.view(), slot, 0, 0);
      EXPECT_TRUE(bad == 0 ? scale == 0 : std::isnan(scale));
      for (index d = 0; d < 37; ++d) EXPECT_EQ(got.keys.get(slot, 0, d), 0);
      EXPECT_GT(at(got.key_scales.view(), slot, 1, 0), 0);  // the other head is its own row
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
    return ReshapeAndCache<Host>{.key = key,
                                 .key_cache = flat_cache(View<4>(cache.data(), {1, 2, 1, 6})),
                                 .slot_mapping = ConstView<1>(slots, {1})};
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
  if (memory == MAP_FAILED) {
    std::printf("no %zu bytes of address space here: offsets beyond 2^31 were not tried\n", bytes);
    return;
  }
  const PagedView<> cache = flat_cache(View<4>(static_cast<f16*>(memory), {blocks, block_size, heads, dim}));
  const std::vector<float> source(heads * dim, 1.5f);
  const index last = blocks * block_size - 1;
  EXPECT_EQ(paged_offset(cache, last, heads - 1, dim - 1), (index{1} << 33) - 1);
  on_every_host_backend([&](const std::string&, auto run) {
    static_cast<f16*>(memory)[(index{1} << 33) - 1] = f16{};
    const std::int64_t slots[] = {last};
    ASSERT_TRUE(ok(run(ReshapeAndCache<Host>{.key = ConstView<3>(source.data(), {1, heads, dim}),
                                             .key_cache = cache,
                                             .slot_mapping = ConstView<1>(slots, {1})})));
    EXPECT_EQ(static_cast<f16*>(memory)[(index{1} << 33) - 1], 1.5f);
    const std::int64_t pair[] = {blocks - 1, blocks - 3};
    ASSERT_TRUE(ok(run(CopyBlocks<Host>{.key_cache = cache, .pairs = ConstView<2>(pair, {1, 2})})));
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
  const std::string folder = INLAY_SOURCE_DIR "/../shared/data/onnx_node/test_tensorscatter/test_data_set_0/";
  if (!std::ifstream(folder + "output_0.pb")) {
    std::printf("no %s: the node test of ONNX was not tried\n", folder.c_str());
    return;
  }
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
        ok(run(ReshapeAndCache<Host>{.key = ConstView<3>(update.data(), {batch * length, heads, dim}),
                                     .key_cache = head_major_cache(View<4>(cache.data(), {batch, heads, max_len, dim})),
                                     .slot_mapping = ConstView<1>(slots.data(), {batch})})));
    EXPECT_EQ(cache, present);
  });
}

TEST(kv_cache, refuses_before_anything_is_written) {
  Rng rng(9);
  const Case start = make(DType::f32, DType::f16, Pages::flat, {4, 8, 2, 16, 16}, {}, rng);  // 3 blocks: 24 slots
  Case c = start;
  c.slots.set(3, 24);
  expect_refused(c.op(), {"slot_mapping[3]", "24", "negative"});
  on_every_backend([&](const std::string&, auto run) {
    EXPECT_FALSE(run(c.op()).ok());
    expect_equal(c.keys.memory, start.keys.memory);
  });
  c = start;
  ReshapeAndCache<Host> op = c.op();
  Tensor<3> scales(DType::f32, {op.key_cache.extents[0], op.key_cache.extents[1], op.key_cache.extents[3]});
  op.key_scales = scales;
  expect_refused(op, {"key_scales", "i8"});
  op = c.op();
  op.value = {};
  expect_refused(op, {"value", "left out"});
  op = c.op();
  op.key.extents[2] = 15;
  expect_refused(op, {"key_cache", "16", "15"});
  op = c.op();
  op.value_cache.extents[3] = 4;
  expect_refused(op, {"value_cache", "4", "8"});
  op = c.op();
  op.slot_mapping.dtype = DType::i32;
  expect_refused(op, {"slot_mapping", "i32", "i64"});
  op = c.op();
  op.value_cache = op.key_cache;
  expect_refused(op, {"key_cache", "overlaps", "value_cache"});
  Case quantized = make(DType::f32, DType::i8, Pages::flat, {4, 8, 2, 16, 16}, {}, rng);
  op = quantized.op();
  op.value_scales = {};
  expect_refused(op, {"value_scales", "i8"});
}

}  // namespace
}  // namespace inlay::test
