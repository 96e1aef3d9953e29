// Operations: 2 * dim for a score and 2 * v_dim for its V, for each (query, key) pair that the mask leaves:
// about half of them under a causal mask. The limit is fma, and for few queries memory: K and V, once, rotated through
// 256 MiB; of bf16_products their dot product. Shapes: prompts of Llama-3 8B and 1B and Qwen2.5-0.5B, chunks of 128 and
// few queries behind a context.
#include <inlay/ops/flash_attention.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Model {
  const char* name;
  index q_heads, kv_heads, dim;
};

constexpr index few_queries = 8;

void flash_attention(benchmark::State& state, const Model& m, DType kv, index queries, index keys,
                     AttentionCompute compute) {
  const bool rounds = compute == AttentionCompute::bf16_products;
  const bool few = queries <= few_queries;
  Operand<4> q(DType::f32, {1, queries, m.q_heads, m.dim}, false),
      out(DType::f32, {1, queries, m.q_heads, m.dim}, false);
  Operand<4> k(kv, {1, keys, m.kv_heads, m.dim}, few), v(kv, {1, keys, m.kv_heads, m.dim}, few);
  Operand<4> scale(DType::f32, {1, 1, 1, 1}, false);
  *scale.view(0).as<float>() = 1.0f / 128;
  const auto op = [&](index i) {
    FlashAttention<Host> op{
        .q = q.view(0), .k = k.view(i), .v = v.view(i), .out = out.view(0), .causal = true, .compute = compute};
    if (kv == DType::i8) op.k_scale = op.v_scale = scale.view(0);
    return op;
  };
  // One query of one head, and the keys up to its own.
  const auto row = [=](FlashAttention<Host> op, index r) {
    const index query = r / m.q_heads, head = r % m.q_heads;
    keep(1, query, 1, op.q, op.out);
    keep(2, head, 1, op.q, op.out);
    keep(1, 0, keys - queries + query + 1, op.k, op.v);
    keep(2, head / (m.q_heads / m.kv_heads), 1, op.k, op.v);
    return op;
  };
  const double pairs =
      static_cast<double>(queries) * (static_cast<double>(keys) - 0.5 * static_cast<double>(queries - 1));
  const double flops = 4.0 * static_cast<double>(m.q_heads * m.dim) * pairs;
  const double elements = 2.0 * static_cast<double>(keys * m.kv_heads * m.dim);
  const Work many_work{.flops = flops, .limit = rounds ? Limit::bf16 : Limit::fma};
  const Work few_work{.bytes = elements * bits(kv) / 8, .flops = flops, .also_fma = true};
  measure(state, few ? few_work : many_work, op,
          {.rows = queries * m.q_heads, .row = row, .ulps = rounds ? 0x1p16 : 200 + static_cast<double>(m.dim)});
}

}  // namespace

void add_all() {
  constexpr Model llama8{"llama3-8b", 32, 8, 128}, llama1{"llama3-1b", 32, 8, 64}, qwen{"qwen2.5-0.5b", 14, 2, 64};
  const auto figure = [](const Model& m, DType kv, index queries, index keys, AttentionCompute compute = {}) {
    const std::string rounds = compute == AttentionCompute::bf16_products ? "_bf16_products" : "";
    add("flash_attention/" + std::string(m.name) + "/kv_" + std::string(name(kv)) + rounds + "/" +
            std::to_string(queries) + "q_" + std::to_string(keys) + "k",
        [=](benchmark::State& state) { flash_attention(state, m, kv, cut(queries), cut(keys), compute); });
  };
  for (index length : {512, 1024, 2048}) {
    figure(llama8, DType::f32, length, length);
    figure(llama1, DType::f16, length, length);
  }
  figure(qwen, DType::f16, 512, 512);
  figure(llama8, DType::f16, 128, 4096);
  figure(llama8, DType::i8, 128, 4096);
  for (index queries : {1, 4}) figure(llama8, DType::f16, queries, 4096);
  figure(qwen, DType::f16, 1, 4096);
  constexpr auto in_bf16 = AttentionCompute::bf16_products;
  for (index length : {512, 2048})
    for (DType kv : {DType::f16, DType::bf16}) {
      figure(llama8, kv, length, length, in_bf16);
      figure(llama1, kv, length, length, in_bf16);
    }
  figure(qwen, DType::f16, 512, 512, in_bf16);
  figure(llama8, DType::f16, 128, 4096, in_bf16);
  for (index queries : {1, 4}) figure(llama8, DType::f16, queries, 4096, in_bf16);
}

}  // namespace inlay::bench
