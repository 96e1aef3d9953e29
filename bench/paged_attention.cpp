// Bytes: each visible key and value once; everything else is small. 4 flops an element and query head
// of its group, so memory is the limit. Llama-3-8B: 32 query heads, 8 kv heads of 128; blocks of 16 in
// random order.
#include <inlay/ops/paged_attention.hpp>

#include <algorithm>
#include <numeric>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

struct Shape {
  index seqs, context, q_heads, kv_heads, dim, block_size;
  index partition = 512;
};

void paged_attention(benchmark::State& state, DType type, bool vllm, Shape shape) {
  // Not a structured binding: the lambdas capture these.
  const index seqs = shape.seqs, context = cut(shape.context), q_heads = shape.q_heads, kv_heads = shape.kv_heads,
              dim = shape.dim, block_size = shape.block_size, partition = shape.partition;
  const index per_seq = context / block_size, blocks = seqs * per_seq, x = vllm_key_x(type);
  Operand<3> q(DType::f32, {seqs, q_heads, dim}, false), out(DType::f32, {seqs, q_heads, dim}, false);
  Operand<4> flat_keys(type, {blocks, block_size, kv_heads, dim}), values(type, {blocks, block_size, kv_heads, dim});
  const index scaled = type == DType::i8 ? blocks : 0;
  Operand<3> k_scale(DType::f32, {scaled, kv_heads, block_size}), v_scale(DType::f32, {scaled, kv_heads, block_size});
  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks)), lens(static_cast<std::size_t>(seqs));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::mt19937(1));
  std::fill(lens.begin(), lens.end(), static_cast<std::int32_t>(context));
  // The same memory serves both layouts.
  const auto op = [&](index i) {
    const View<4> k = flat_keys.view(i), v = values.view(i);
    PagedAttention<Host> op{
        .q = q.view(0),
        .k = vllm ? PagedView<>(k.data, type, {blocks, kv_heads, dim / x, block_size, x}) : flat_cache(k),
        .v = vllm ? slot_minor_cache(View<4>(v.data, type, {blocks, kv_heads, dim, block_size})) : flat_cache(v),
        .block_table = ConstView<2>(table.data(), {seqs, per_seq}),
        .kv_lens = ConstView<1>(lens.data(), {seqs}),
        .out = out.view(0),
        .partition = partition};
    if (type == DType::i8) op.k_scale = k_scale.view(i), op.v_scale = v_scale.view(i);
    return op;
  };
  // One head of one sequence.
  const auto row = [=](PagedAttention<Host> op, index r) {
    const index sequence = r / q_heads, head = r % q_heads, kv_head = head / (q_heads / kv_heads);
    keep_row(sequence, op.q, op.block_table, op.kv_lens, op.out);
    keep(1, head, 1, op.q, op.out);
    keep(1, kv_head, 1, op.k, op.v);
    if (type == DType::i8) keep(1, kv_head, 1, op.k_scale, op.v_scale);
    return op;
  };
  const double elements = static_cast<double>(seqs * context * kv_heads * 2 * dim);
  // 4096 weights of about 1/4096 and the error of a score of length 128, both small beside max|out|.
  measure(state,
          {.bytes = elements * bits(type) / 8,
           .flops = 2 * elements * static_cast<double>(q_heads / kv_heads),
           .also_fma = true},
          op, {.rows = seqs * q_heads, .row = row, .ulps = 2 * static_cast<double>(dim)});
}

void figure(const std::string& name, DType type, bool vllm, Shape shape) {
  add("paged_attention/" + name + "/" + std::string(inlay::name(type)) + (vllm ? "/vllm/" : "/flat/") +
          std::to_string(shape.seqs) + "x" + std::to_string(shape.context) + "/" + std::to_string(shape.q_heads) + ":" +
          std::to_string(shape.kv_heads) + "x" + std::to_string(shape.dim) + "/block" +
          std::to_string(shape.block_size),
      [=](benchmark::State& state) { paged_attention(state, type, vllm, shape); });
}

}  // namespace

void add_all() {
  for (index seqs : {1, 8})
    for (bool vllm : {false, true})
      for (DType type : {DType::f16, DType::bf16, DType::i8, DType::f32})
        if (!vllm || type == DType::f16 || type == DType::i8)
          figure("llama-8b", type, vllm, {seqs, 4096, 32, 8, 128, 16});
  figure("llama-8b-v1", DType::f16, false, {1, 4096, 32, 8, 128, 16, 0});
  figure("llama-1b", DType::f16, false, {1, 4096, 32, 8, 64, 16});
  figure("qwen-7b", DType::f16, false, {1, 4096, 28, 4, 128, 16});
  for (bool vllm : {false, true}) figure("qwen-0.5b", DType::f16, vllm, {1, 4096, 14, 2, 64, 16});
  figure("qwen-0.5b", DType::i8, false, {1, 4096, 14, 2, 64, 16});
  figure("mha", DType::f16, false, {1, 4096, 32, 32, 128, 16});
  for (index block_size : {1, 32, 256}) figure("llama-8b", DType::f16, false, {1, 4096, 32, 8, 128, block_size});
}

}  // namespace inlay::bench
