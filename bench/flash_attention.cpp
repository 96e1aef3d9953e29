// Operations: 2 * dim for a score and 2 * v_dim for its V, for each (query, key) pair that the mask leaves:
// about half of them under a causal mask. The limit is fma, and for few queries memory: K and V, once, rotated through
// 256 MiB. Shapes: prompts of Llama-3 8B and 1B and Qwen2.5-0.5B, chunks of 128 and few queries behind a context.
#include <inlay/ops/flash_attention.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

struct Model {
  const char* name;
  index q_heads, kv_heads, dim;
};

constexpr index few_queries = 8;

void flash_attention(benchmark::State& state, const Model& m, DType kv, index queries, index keys) {
  const Cpu cpu = bench::cpu();
  const bool few = queries <= few_queries;
  Operand<4> q(DType::f32, {1, queries, m.q_heads, m.dim}, false),
      out(DType::f32, {1, queries, m.q_heads, m.dim}, false);
  Operand<4> k(kv, {1, keys, m.kv_heads, m.dim}, few), v(kv, {1, keys, m.kv_heads, m.dim}, few);
  Operand<4> scale(DType::f32, {1, 1, 1, 1}, false);
  *scale.view(0).as<float>() = 1.0f / 128;
  const auto op = [&](index i, index heads, index kv_heads) {
    FlashAttention<Host> call{.q = q.view(0).slice(2, 0, heads),
                              .k = k.view(i).slice(2, 0, kv_heads),
                              .v = v.view(i).slice(2, 0, kv_heads),
                              .out = out.view(0).slice(2, 0, heads),
                              .causal = true};
    if (kv == DType::i8) call.k_scale = call.v_scale = scale.view(0);
    return call;
  };
  const double pairs =
      static_cast<double>(queries) * (static_cast<double>(keys) - 0.5 * static_cast<double>(queries - 1));
  const double flops = 4.0 * static_cast<double>(m.q_heads * m.dim) * pairs;
  const double elements = 2.0 * static_cast<double>(keys * m.kv_heads * m.dim);
  BenchWorkspace workspace(workspace_bytes(cpu, op(0, m.q_heads, m.kv_heads)));
  // The textbook takes seconds for a whole layer: the last queries of one head stand for it.
  const index checked = few ? queries : few_queries;
  FlashAttention<Host> part = op(0, 1, 1);
  part.q = part.q.slice(1, queries - checked, checked);
  Operand<4> small(DType::f32, {1, checked, 1, m.dim}, false);
  part.out = small.view(0);
  const double error = error_against_reference(cpu, part, part.out, 200 + static_cast<double>(m.dim));
  const Work many_work{.flops = flops, .limit = Limit::fma};
  const Work few_work{.bytes = elements * bits(kv) / 8, .flops = flops, .also_fma = true};
  measure(state, cpu, few ? few_work : many_work, error,
          [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i, m.q_heads, m.kv_heads), workspace).ok()); });
}

}  // namespace

void add_all() {
  constexpr Model llama8{"llama3-8b", 32, 8, 128}, llama1{"llama3-1b", 32, 8, 64}, qwen{"qwen2.5-0.5b", 14, 2, 64};
  const auto figure = [](const Model& m, DType kv, index queries, index keys) {
    add("flash_attention/" + std::string(m.name) + "/kv_" + std::string(name(kv)) + "/" + std::to_string(queries) +
            "q_" + std::to_string(keys) + "k",
        [=](benchmark::State& state) { flash_attention(state, m, kv, queries, keys); });
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
}

}  // namespace inlay::bench
