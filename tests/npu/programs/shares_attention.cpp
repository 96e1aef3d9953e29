// Shares of the attention operators.
//
// A low floor is a miss: the array of systolic128 preloads 128 rows of K and of V for products of four and, halves of
// weights being rows of one product, of eight rows.
#include <string>
#include <utility>
#include <vector>

#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/paged_attention.hpp>

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

template <class Op>
double share_of(const char* what, const Case& c, const Op& op, NpuActivations mode = NpuActivations::exact) {
  return expect_share(describe(what, c), c.device, op, c.floor, mode);
}

// A cache whose heads' tokens are one run: BNSD.
IncreFlashAttention<Host> decode(const Case& c) {
  Addresses at;
  const auto rows = [&](DType type) { return View<4>(at.place(), type, {c.sequences, 1, c.heads, c.dim}); };
  const auto cache = [&] {
    return View<4>(at.place(), DType::f16, {c.sequences, c.length, c.cache_heads, c.dim},
                   {c.length * c.cache_heads * c.dim, c.dim, c.length * c.dim, 1});
  };
  return {.q = rows(c.q), .k = cache(), .v = cache(), .out = rows(c.q)};
}

struct Paged {
  std::vector<std::int32_t> table, lengths;
  PagedAttention<Host> op;

  Paged(const Case& c, index block) : lengths(static_cast<std::size_t>(c.sequences), static_cast<int>(c.length)) {
    Addresses at;
    const index columns = c.length / block, blocks = c.sequences * columns;
    for (index i = 0; i < blocks; ++i) table.push_back(static_cast<std::int32_t>(i * 7919 % blocks));
    const auto rows = [&] { return View<3>(at.place(), c.q, {c.sequences, c.heads, c.dim}); };
    const auto cache = [&] {
      return head_major_cache(ConstView<4>(View<4>(at.place(), DType::f16, {blocks, c.cache_heads, block, c.dim})));
    };
    op.q = rows();
    op.k = cache(), op.v = cache();
    op.block_table = ConstView<2>(table.data(), {c.sequences, columns});
    op.kv_lens = ConstView<1>(lengths.data(), {c.sequences});
    op.out = rows();
  }
};

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
    EXPECT_GE(share_of("paged_attention, blocks of 16,", c, Paged(c, 16).op), 0.9 * contiguous);
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
    Addresses at;
    const auto rows = [&](index heads) { return View<4>(at.place(), c.q, {c.sequences, c.length, heads, c.dim}); };
    const FlashAttention<Host> op{
        .q = rows(c.heads), .k = rows(c.cache_heads), .v = rows(c.cache_heads), .out = rows(c.heads), .causal = true};
    share_of(mode == f16 ? "flash_attention, activations f16," : "flash_attention", c, op, mode);
  }
}

}  // namespace
}  // namespace inlay::test
