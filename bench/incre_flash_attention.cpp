// The limit is memory: the caches of a batch are rotated through 256 MiB.
#include "shapes/incre_flash_attention.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Model {
  const char* name;
  index heads, kv_heads, dim;
};

void incre_flash_attention(benchmark::State& state, const IncreFlashAttentionShape& shape) {
  // One head of one sequence.
  const auto row = [=](IncreFlashAttention<Host> op, index r) {
    const index sequence = r / shape.heads, head = r % shape.heads, kv_head = head / (shape.heads / shape.kv_heads);
    keep_row(sequence, op.q, op.k, op.v, op.out);
    keep(2, head, 1, op.q, op.out);
    keep(2, kv_head, 1, op.k, op.v);
    if (!op.k_scale.present()) return op;
    keep(2, kv_head, 1, op.k_scale, op.v_scale);
    if (shape.has_token_scales) keep_row(sequence, op.k_scale, op.v_scale);
    return op;
  };
  Work work = work_at(shape);
  work.also_fma = true;
  measure(state, work, shape,
          {.rows = shape.sequences * shape.heads, .row = row, .ulps = 200 + static_cast<double>(shape.dim)});
}

}  // namespace

void add_all() {
  constexpr Model llama8{"llama3-8b", 32, 8, 128}, llama1{"llama3-1b", 32, 8, 64}, qwen{"qwen2.5-0.5b", 14, 2, 64};
  constexpr Model llama2{"llama2-7b", 32, 32, 128};
  const auto figure = [](const Model& m, DType kv, index batch, index context, bool token_scales = false) {
    add("incre_flash_attention/" + std::string(m.name) + "/kv_" + std::string(name(kv)) +
            (token_scales ? "_token_scales" : "") + "/batch_" + std::to_string(batch) + "/" + std::to_string(context),
        [=](benchmark::State& state) {
          incre_flash_attention(state, {.sequences = batch,
                                        .heads = m.heads,
                                        .kv_heads = m.kv_heads,
                                        .dim = m.dim,
                                        .length = cut(context),
                                        .type = DType::f32,
                                        .cache = kv,
                                        .has_token_scales = token_scales});
        });
  };
  for (DType kv : {DType::f32, DType::f16, DType::bf16, DType::i8}) figure(llama8, kv, 1, 4096);
  figure(llama8, DType::i8, 1, 4096, true);
  for (const Model& m : {llama1, qwen, llama2}) figure(m, DType::f16, 1, 4096);
  figure(llama8, DType::f16, 4, 4096);
  figure(llama8, DType::f16, 1, 512);
}

}  // namespace inlay::bench
