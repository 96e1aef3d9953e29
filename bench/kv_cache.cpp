// The limit is memory. A prefill chunk of Llama-3-8B: 8 heads of 128.
#include "shapes/kv_cache.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void reshape(benchmark::State& state, DType type, CacheLayout layout) {
  const ReshapeAndCacheShape shape{512, DType::f32, {.blocks = 512 / 16, .type = type, .layout = layout}};
  measure(state, shape, {});  // every slot of the cache is written
}

}  // namespace

void add_all() {
  for (DType cache : {DType::f16, DType::i8})
    for (bool vllm : {false, true})
      add("reshape_and_cache/f32_to_" + std::string(name(cache)) + (vllm ? "/vllm" : "/flat") + "/512x8x128",
          [=](benchmark::State& state) { reshape(state, cache, vllm ? CacheLayout::vllm : CacheLayout::flat); });
  add("copy_blocks/f16/64x16x8x128", [](benchmark::State& state) {
    measure(state, CopyBlocksShape{64, {.blocks = 128}}, {.in_place = true});
  });
}

}  // namespace inlay::bench
