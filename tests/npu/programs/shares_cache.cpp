// Shares of the cache's operators and of greedy sampling. A miss stays with floor 0 and the stall that explains it.
#include <array>
#include <string>

#include "shapes/kv_cache.hpp"
#include "shapes/sampling.hpp"
#include "tests/npu/programs/shares.hpp"

namespace inlay::test {
namespace {

struct Tokens {
  const char* device;
  DType type, cache;
  CacheLayout pages;
  double floor;
};

// 2048 tokens of 8 heads of 128 into blocks of 16, keys and values.
TEST(shares, reshape_and_cache) {
  for (const Tokens& c : {
           Tokens{"ascend-a2-like", DType::f16, DType::f16, CacheLayout::flat, 0.87},
           {"hexagon-htp-like", DType::f16, DType::f16, CacheLayout::flat, 0.99},
           {"systolic32", DType::f16, DType::f16, CacheLayout::flat, 0.98},
           {"systolic128", DType::f16, DType::f16, CacheLayout::flat, 0.93},
           {"ascend-a2-like", DType::f32, DType::f16, CacheLayout::flat, 0.92},
           {"hexagon-htp-like", DType::f32, DType::f16, CacheLayout::flat, 0.99},
           {"systolic128", DType::f32, DType::f16, CacheLayout::flat, 0.94},
           {"ascend-a2-like", DType::f16, DType::f16, CacheLayout::head_major, 0.87},
           {"hexagon-htp-like", DType::f16, DType::f16, CacheLayout::head_major, 0.98},
           // Eight vector verbs for each element: the vector unit is the bound.
           {"ascend-a2-like", DType::f16, DType::i8, CacheLayout::flat, 0},
           {"hexagon-htp-like", DType::f16, DType::i8, CacheLayout::flat, 0.8},
           // Pieces of 16 bytes, and values one element at a time between turns of the vector unit.
           {"ascend-a2-like", DType::f16, DType::f16, CacheLayout::vllm, 0},
           {"hexagon-htp-like", DType::f16, DType::f16, CacheLayout::vllm, 0},
       }) {
    AbsentTensors tensors;
    const ReshapeAndCacheShape shape{2048, c.type, {.blocks = 2048 / 16, .type = c.cache, .layout = c.pages}};
    const std::string what = "reshape_and_cache " + std::string(name(c.type)) + " to " + std::string(name(c.cache)) +
                             std::array{", flat", ", head-major", ", vLLM"}[static_cast<std::size_t>(c.pages)];
    expect_share(what, c.device, shape.make(tensors), c.floor);
  }
}

struct Device {
  const char* name;
  double floor;
};

// 256 blocks of 16 x 8 x 128 f16.
TEST(shares, copy_blocks) {
  for (const Device& c :
       {Device{"ascend-a2-like", 0.94}, {"hexagon-htp-like", 0.99}, {"systolic32", 0.97}, {"systolic128", 0.9}}) {
    AbsentTensors tensors;
    expect_share("copy_blocks", c.name, CopyBlocksShape{256, {.blocks = 512}}.make(tensors), c.floor);
  }
}

TEST(shares, greedy_sampling) {
  struct Rows {
    const char* device;
    index rows;
    double floor;
  };
  // One row on 24 cores is a matter of latencies: of the load, of meeting, of the scalar unit's reads. What that finds
  // goes through the vector unit's memory: 64 rows on hexagon-htp-like wait for it in 1% of their time.
  for (const Rows& c : {Rows{"ascend-a2-like", 1, 0},
                        {"hexagon-htp-like", 1, 0.9},
                        {"systolic32", 1, 0.95},
                        {"ascend-a2-like", 64, 0.75},
                        {"hexagon-htp-like", 64, 0.94},
                        {"systolic32", 64, 0.95}}) {
    AbsentTensors tensors;
    expect_share("sampling, " + std::to_string(c.rows) + " x 128256", c.device, SamplingShape{c.rows}.make(tensors),
                 c.floor);
  }
}

}  // namespace
}  // namespace inlay::test
