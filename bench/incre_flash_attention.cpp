// Bytes: K and V, once. The limit is memory: 4 operations for each pair of elements that all heads of a
// group share. The caches of a batch are rotated through 256 MiB.
#include <inlay/ops/incre_flash_attention.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Model {
  const char* name;
  index q_heads, kv_heads, dim;
};

// int8: a scale a channel, or one a token and kv head.
void incre_flash_attention(benchmark::State& state, const Model& m, DType kv, index batch, index context,
                           bool token_scales) {
  Operand<4> q(DType::f32, {batch, 1, m.q_heads, m.dim}, false), out(DType::f32, {batch, 1, m.q_heads, m.dim}, false);
  Operand<4> k(kv, {batch, context, m.kv_heads, m.dim}), v(kv, {batch, context, m.kv_heads, m.dim});
  const index tokens = token_scales ? batch * context : 1, channels = token_scales ? 1 : m.dim;
  Operand<4> scale(DType::f32, {token_scales ? batch : 1, token_scales ? context : 1, m.kv_heads, channels}, false);
  for (index i = 0; i < tokens * m.kv_heads * channels; ++i) scale.view(0).as<float>()[i] = 1.0f / 128;
  const auto op = [&](index i) {
    IncreFlashAttention<Host> op{.q = q.view(0), .k = k.view(i), .v = v.view(i), .out = out.view(0)};
    if (kv == DType::i8) op.k_scale = op.v_scale = scale.view(0);
    return op;
  };
  const double elements = 2.0 * static_cast<double>(batch * context * m.kv_heads * m.dim);
  // One head of one sequence.
  const auto row = [=](IncreFlashAttention<Host> op, index r) {
    const index sequence = r / m.q_heads, head = r % m.q_heads, kv_head = head / (m.q_heads / m.kv_heads);
    keep_row(sequence, op.q, op.k, op.v, op.out);
    keep(2, head, 1, op.q, op.out);
    keep(2, kv_head, 1, op.k, op.v);
    if (kv != DType::i8) return op;
    keep(2, kv_head, 1, op.k_scale, op.v_scale);
    if (token_scales) keep_row(sequence, op.k_scale, op.v_scale);
    return op;
  };
  measure(state,
          {.bytes = elements * bits(kv) / 8,
           .flops = 2 * elements * static_cast<double>(m.q_heads / m.kv_heads),
           .also_fma = true},
          op, {.rows = batch * m.q_heads, .row = row, .ulps = 200 + static_cast<double>(m.dim)});
}

}  // namespace

void add_all() {
  constexpr Model llama8{"llama3-8b", 32, 8, 128}, llama1{"llama3-1b", 32, 8, 64}, qwen{"qwen2.5-0.5b", 14, 2, 64};
  constexpr Model llama2{"llama2-7b", 32, 32, 128};
  const auto figure = [](const Model& m, DType kv, index batch, index context, bool token_scales = false) {
    add("incre_flash_attention/" + std::string(m.name) + "/kv_" + std::string(name(kv)) +
            (token_scales ? "_token_scales" : "") + "/batch_" + std::to_string(batch) + "/" + std::to_string(context),
        [=](benchmark::State& state) { incre_flash_attention(state, m, kv, batch, cut(context), token_scales); });
  };
  for (DType kv : {DType::f32, DType::f16, DType::bf16, DType::i8}) figure(llama8, kv, 1, 4096);
  figure(llama8, DType::i8, 1, 4096, true);
  for (const Model& m : {llama1, qwen, llama2}) figure(m, DType::f16, 1, 4096);
  figure(llama8, DType::f16, 4, 4096);
  figure(llama8, DType::f16, 1, 512);
}

}  // namespace inlay::bench
