// The limit is fma, and for few queries memory: K and V are rotated through 256 MiB; of bf16_products it is their dot
// product. Prompts of Llama-3 8B and 1B and Qwen2.5-0.5B, chunks of 128 and few queries behind a context.
#include "shapes/flash_attention.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Model {
  const char* name;
  index heads, kv_heads, dim;
};

void flash_attention(benchmark::State& state, const FlashAttentionShape& shape) {
  constexpr index few_queries = 8;
  const bool rounds = shape.compute == AttentionCompute::bf16_products, few = shape.queries <= few_queries;
  // One query of one head, and the keys up to its own.
  const auto row = [=](FlashAttention<Host> op, index r) {
    const index query = r / shape.heads, head = r % shape.heads;
    keep(1, query, 1, op.q, op.out);
    keep(2, head, 1, op.q, op.out);
    keep(1, 0, shape.keys - shape.queries + query + 1, op.k, op.v);
    keep(2, head / (shape.heads / shape.kv_heads), 1, op.k, op.v);
    return op;
  };
  Work work = work_at(shape);
  work.limit = few ? Limit::memory : rounds ? Limit::bf16 : Limit::fma;
  work.also_fma = few;
  const double ulps = rounds ? 0x1p16 : 200 + static_cast<double>(shape.dim);
  measure(state, work, shape, {.rows = shape.queries * shape.heads, .row = row, .ulps = ulps}, few);
}

}  // namespace

void add_all() {
  constexpr Model llama8{"llama3-8b", 32, 8, 128}, llama1{"llama3-1b", 32, 8, 64}, qwen{"qwen2.5-0.5b", 14, 2, 64};
  const auto figure = [](const Model& m, DType kv, index queries, index keys, AttentionCompute compute = {}) {
    const std::string rounds = compute == AttentionCompute::bf16_products ? "_bf16_products" : "";
    add("flash_attention/" + std::string(m.name) + "/kv_" + std::string(name(kv)) + rounds + "/" +
            std::to_string(queries) + "q_" + std::to_string(keys) + "k",
        [=](benchmark::State& state) {
          flash_attention(state, {.queries = cut(queries),
                                  .keys = cut(keys),
                                  .heads = m.heads,
                                  .kv_heads = m.kv_heads,
                                  .dim = m.dim,
                                  .type = DType::f32,
                                  .cache = kv,
                                  .compute = compute});
        });
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
