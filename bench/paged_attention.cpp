// The limit is memory. Llama-3-8B: 32 query heads, 8 kv heads of 128; no two neighbours keep the order of blocks.
#include "shapes/paged_attention.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void figure(const std::string& name, PagedAttentionShape shape) {
  const bool vllm = shape.layout == CacheLayout::vllm;
  const std::string title =
      "paged_attention/" + name + "/" + std::string(inlay::name(shape.cache)) + (vllm ? "/vllm/" : "/flat/") +
      std::to_string(shape.sequences) + "x" + std::to_string(shape.length) + "/" + std::to_string(shape.heads) + ":" +
      std::to_string(shape.kv_heads) + "x" + std::to_string(shape.dim) + "/block" + std::to_string(shape.block);
  shape.type = DType::f32;
  shape.length = cut(shape.length);
  // One head of one sequence.
  const auto row = [=](PagedAttention<Host> op, index r) {
    const index sequence = r / shape.heads, head = r % shape.heads, kv_head = head / (shape.heads / shape.kv_heads);
    keep_row(sequence, op.q, op.block_table, op.kv_lens, op.out);
    keep(1, head, 1, op.q, op.out);
    keep(1, kv_head, 1, op.k, op.v);
    if (op.k_scale.present()) keep(1, kv_head, 1, op.k_scale, op.v_scale);
    return op;
  };
  add(title, [=](benchmark::State& state) {
    Work work = work_at(shape);
    work.also_fma = true;
    // 4096 weights of about 1/4096 and the error of a score of length 128, both small beside max|out|.
    measure(state, work, shape,
            {.rows = shape.sequences * shape.heads, .row = row, .ulps = 2 * static_cast<double>(shape.dim)});
  });
}

}  // namespace

void add_all() {
  for (index sequences : {1, 8})
    for (bool vllm : {false, true})
      for (DType type : {DType::f16, DType::bf16, DType::i8, DType::f32}) {
        PagedAttentionShape shape{.sequences = sequences, .cache = type};
        if (vllm) shape.layout = CacheLayout::vllm;
        if (!vllm || type == DType::f16 || type == DType::i8) figure("llama-8b", shape);
      }
  figure("llama-8b-v1", {.sequences = 1, .partition = 0});
  figure("llama-1b", {.sequences = 1, .dim = 64});
  figure("qwen-7b", {.sequences = 1, .heads = 28, .kv_heads = 4});
  PagedAttentionShape qwen{.sequences = 1, .heads = 14, .kv_heads = 2, .dim = 64};
  figure("qwen-0.5b", qwen);
  qwen.layout = CacheLayout::vllm;
  figure("qwen-0.5b", qwen);
  figure("qwen-0.5b", {.sequences = 1, .heads = 14, .kv_heads = 2, .dim = 64, .cache = DType::i8});
  figure("mha", {.sequences = 1, .kv_heads = 32});
  for (index block : {1, 32, 256}) figure("llama-8b", {.sequences = 1, .block = block});
}

}  // namespace inlay::bench
