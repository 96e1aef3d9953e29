// Shares of the attention operators.
//
// A low floor is a miss: the array of systolic128 preloads 128 rows of K and of V for products of four and, halves of
// weights being rows of one product, of eight rows.
#include <string>
#include <utility>
#include <vector>

#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/paged_attention.hpp"
#include "tests/npu/programs/shares.hpp"

namespace inlay::test {
namespace {

struct Case {
  const char* device;
  index sequences, heads, cache_heads, dim, length;
  DType q;
  double floor;
};

std::string describe(const char* what, const Case& c) {
  std::string text = std::string(what) + " " + std::string(name(c.q));
  for (index n : {c.sequences, c.heads, c.cache_heads, c.dim, c.length}) text += " " + std::to_string(n);
  return text;
}

template <class Shape>
double share_of(const char* what, const Case& c, const Shape& shape, NpuActivations mode = NpuActivations::exact) {
  AbsentTensors tensors;
  return expect_share(describe(what, c), c.device, shape.make(tensors), c.floor, mode);
}

IncreFlashAttentionShape decode(const Case& c) {
  return {.sequences = c.sequences,
          .heads = c.heads,
          .kv_heads = c.cache_heads,
          .dim = c.dim,
          .length = c.length,
          .type = c.q,
          .is_head_major = true};
}

const Case decode_cases[] = {{"ascend-a2-like", 6, 32, 8, 128, 4096, DType::f16, 0.92},
                             {"ascend-a2-like", 1, 32, 8, 128, 16384, DType::f16, 0.88},
                             {"ascend-a2-like", 1, 32, 8, 128, 16384, DType::f32, 0.85},
                             {"hexagon-htp-like", 1, 32, 8, 128, 4096, DType::f16, 0.98},
                             {"hexagon-htp-like", 1, 32, 8, 128, 4096, DType::f32, 0.97},
                             {"systolic32", 1, 32, 8, 128, 4096, DType::f16, 0.98},
                             {"systolic128", 4, 32, 8, 128, 4096, DType::f16, 0.57}};

TEST(shares, decode_attention) {
  for (const Case& c : decode_cases) share_of("incre_flash_attention", c, decode(c));
}

TEST(shares, paged_attention_is_within_a_tenth_of_contiguous) {
  for (Case c : decode_cases) {
    if (c.floor < 0.85 || c.q != DType::f16) continue;
    const double contiguous = share_of("incre_flash_attention", c, decode(c));
    c.floor = 0.85;
    const PagedAttentionShape paged{.sequences = c.sequences,
                                    .heads = c.heads,
                                    .kv_heads = c.cache_heads,
                                    .dim = c.dim,
                                    .length = c.length,
                                    .layout = CacheLayout::head_major};
    EXPECT_GE(share_of("paged_attention, blocks of 16,", c, paged), 0.9 * contiguous);
  }
}

// Causal. Weights in halves take half as much again of the matrix unit, twice the bytes between the units and f32's
// lanes: `exact` is far below f16, whose floors the L2 (ascend-a2-like) and the drains of 8 KB of accumulators
// (hexagon-htp-like, the longer the prompt) hold down.
TEST(shares, prefill_attention) {
  constexpr auto exact = NpuActivations::exact, f16 = NpuActivations::f16;
  const std::vector<std::pair<NpuActivations, Case>> cases{
      {exact, {"ascend-a2-like", 1, 32, 8, 128, 2048, DType::f16, 0.39}},
      {f16, {"ascend-a2-like", 1, 32, 8, 128, 2048, DType::f16, 0.705}},
      {f16, {"ascend-a2-like", 1, 64, 8, 128, 2048, DType::f16, 0.747}},
      {f16, {"ascend-a2-like", 1, 32, 8, 128, 4096, DType::f16, 0.805}},
      {exact, {"hexagon-htp-like", 1, 32, 8, 128, 256, DType::f16, 0.685}},
      {f16, {"hexagon-htp-like", 1, 32, 8, 128, 256, DType::f16, 0.89}},
      {f16, {"hexagon-htp-like", 1, 32, 8, 128, 512, DType::f16, 0.68}},
      {exact, {"hexagon-htp-like", 1, 8, 2, 128, 512, DType::f16, 0.435}},
      {f16, {"hexagon-htp-like", 1, 8, 2, 128, 512, DType::f16, 0.625}},
      {f16, {"hexagon-htp-like", 1, 32, 8, 128, 2048, DType::f16, 0.39}}};
  for (const auto& each : cases) {
    const NpuActivations mode = each.first;
    const Case& c = each.second;
    const FlashAttentionShape shape{
        .queries = c.length, .heads = c.heads, .kv_heads = c.cache_heads, .dim = c.dim, .type = c.q};
    share_of(mode == f16 ? "flash_attention, activations f16," : "flash_attention", c, shape, mode);
  }
}

// Few heads of few queries: units of most rows would leave cores idle (0.031, 0.087 and 0.108 with them).
TEST(shares, short_prompts_keep_the_cores_busy) {
  const Case cases[] = {{"ascend-a2-like", 1, 1, 1, 128, 1024, DType::f16, 0.077},
                        {"ascend-a2-like", 1, 8, 2, 128, 512, DType::f16, 0.118},
                        {"ascend-a2-like", 1, 8, 8, 128, 256, DType::f16, 0.142}};
  for (const Case& c : cases)
    share_of("flash_attention", c,
             FlashAttentionShape{
                 .queries = c.length, .heads = c.heads, .kv_heads = c.cache_heads, .dim = c.dim, .type = c.q});
}

}  // namespace
}  // namespace inlay::test
