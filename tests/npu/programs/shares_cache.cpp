// Shares of the cache's operators and of greedy sampling. A miss stays with floor 0 and the stall that explains it.
#include <numeric>
#include <string>
#include <vector>

#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/sampling.hpp>

#include "tests/npu/programs/shares.hpp"

namespace inlay::test {
namespace {

enum class Pages { flat, head_major, vllm };

struct Tokens {
  const char* device;
  DType type, cache;
  Pages pages;
  double floor;
};

// 2048 tokens of 8 heads of 128 into blocks of 16, keys and values.
TEST(shares, reshape_and_cache) {
  constexpr index tokens = 2048, heads = 8, dim = 128, slots = 16, blocks = tokens / slots;
  std::vector<std::int64_t> mapping(tokens);
  std::iota(mapping.begin(), mapping.end(), 0);
  for (const Tokens& c : {
           Tokens{"ascend-a2-like", DType::f16, DType::f16, Pages::flat, 0.87},
           {"hexagon-htp-like", DType::f16, DType::f16, Pages::flat, 0.99},
           {"systolic32", DType::f16, DType::f16, Pages::flat, 0.98},
           {"systolic128", DType::f16, DType::f16, Pages::flat, 0.93},
           {"ascend-a2-like", DType::f32, DType::f16, Pages::flat, 0.92},
           {"hexagon-htp-like", DType::f32, DType::f16, Pages::flat, 0.99},
           {"systolic128", DType::f32, DType::f16, Pages::flat, 0.94},
           {"ascend-a2-like", DType::f16, DType::f16, Pages::head_major, 0.87},
           {"hexagon-htp-like", DType::f16, DType::f16, Pages::head_major, 0.98},
           // Eight vector verbs for each element: the vector unit is the bound.
           {"ascend-a2-like", DType::f16, DType::i8, Pages::flat, 0},
           {"hexagon-htp-like", DType::f16, DType::i8, Pages::flat, 0.8},
           // Pieces of 16 bytes, and values one element at a time between turns of the vector unit.
           {"ascend-a2-like", DType::f16, DType::f16, Pages::vllm, 0},
           {"hexagon-htp-like", DType::f16, DType::f16, Pages::vllm, 0},
       }) {
    Addresses at;
    const index x = vllm_key_x(c.cache);
    const auto pool = [&](bool keys) -> PagedView<> {
      if (c.pages == Pages::flat) return flat_cache(at.view<4>(c.cache, {blocks, slots, heads, dim}));
      if (c.pages == Pages::head_major) return head_major_cache(at.view<4>(c.cache, {blocks, heads, slots, dim}));
      if (keys) return at.view<5>(c.cache, {blocks, heads, dim / x, slots, x});
      return slot_minor_cache(at.view<4>(c.cache, {blocks, heads, dim, slots}));
    };
    ReshapeAndCache<Host> op{.k = at.view<3>(c.type, {tokens, heads, dim}),
                             .v = at.view<3>(c.type, {tokens, heads, dim}),
                             .k_cache = pool(true),
                             .v_cache = pool(false),
                             .slot_mapping = ConstView<1>(mapping.data(), {tokens})};
    if (c.cache == DType::i8) {
      op.k_scale = at.view<3>(DType::f32, {blocks, heads, slots});
      op.v_scale = at.view<3>(DType::f32, {blocks, heads, slots});
    }
    const std::string what = "reshape_and_cache " + std::string(name(c.type)) + " to " + std::string(name(c.cache)) +
                             std::array{", flat", ", head-major", ", vLLM"}[static_cast<std::size_t>(c.pages)];
    expect_share(what, c.device, op, c.floor);
  }
}

struct Device {
  const char* name;
  double floor;
};

// 256 blocks of 16 x 8 x 128 f16.
TEST(shares, copy_blocks) {
  std::vector<std::int64_t> pairs;
  for (index i = 0; i < 256; ++i) pairs.insert(pairs.end(), {i, 256 + i});
  for (const Device& c :
       {Device{"ascend-a2-like", 0.94}, {"hexagon-htp-like", 0.99}, {"systolic32", 0.97}, {"systolic128", 0.9}}) {
    Addresses at;
    const CopyBlocks<Host> op{.k_cache = flat_cache(at.view<4>(DType::f16, {512, 16, 8, 128})),
                              .v_cache = flat_cache(at.view<4>(DType::f16, {512, 16, 8, 128})),
                              .pairs = ConstView<2>(pairs.data(), {256, 2})};
    expect_share("copy_blocks", c.name, op, c.floor);
  }
}

TEST(shares, greedy_sampling) {
  struct Rows {
    const char* device;
    index rows;
    double floor;
  };
  // One row on 24 cores is a matter of latencies: of the load, of meeting, of the scalar unit's reads.
  for (const Rows& c : {Rows{"ascend-a2-like", 1, 0},
                        {"hexagon-htp-like", 1, 0.9},
                        {"systolic32", 1, 0.95},
                        {"ascend-a2-like", 64, 0.75},
                        {"hexagon-htp-like", 64, 0.95},
                        {"systolic32", 64, 0.95}}) {
    Addresses at;
    const Sampling<Host> op{.logits = at.view<2>(DType::f32, {c.rows, 128256}),
                            .tokens = at.view<1>(DType::i32, {c.rows}),
                            .temperature = 0};
    expect_share("sampling, " + std::to_string(c.rows) + " x 128256", c.device, op, c.floor);
  }
}

}  // namespace
}  // namespace inlay::test
