#include <inlay/ops/paged_attention.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_paged_attention(const Npu& npu, Shape& shape) {
  const index sequences = shape.size("sequences", 4), heads = shape.size("heads", 32),
              kv_heads = shape.size("kv_heads", 8), dim = shape.size("dim", 128), block = shape.size("block", 16),
              length = shape.size("length", 4096);
  const DType type = shape.type("type", DType::f16), cache = shape.type("cache", DType::f16);
  const index blocks = (length + block - 1) / block, all = saturating_multiply(blocks, sequences);
  const index apart = all % 7919 == 0 ? 1 : 7919;  // an order that no two neighbours keep
  const ConstView<4> pool = shape.in<4>(cache, {all, block, kv_heads, dim});
  const bool quantized = cache == DType::i8;
  const auto scales = [&] { return quantized ? shape.in<3>(DType::f32, {all, kv_heads, block}) : ConstView<3>(); };
  return shape.plan(
      npu, PagedAttention<Host>{
               .q = shape.in<3>(type, {sequences, heads, dim}),
               .k = flat_cache(pool),
               .v = flat_cache(shape.in<4>(cache, {all, block, kv_heads, dim})),
               .block_table = shape.list<2>(DType::i32, {sequences, blocks}, [&](index i) { return i * apart % all; }),
               .kv_lens = shape.list<1>(DType::i32, {sequences}, [&](index) { return length; }),
               .out = shape.out<3>(type, {sequences, heads, dim}),
               .k_scale = scales(),
               .v_scale = scales()});
}

const Registered paged_attention("paged_attention", plan_paged_attention);

}  // namespace

}  // namespace inlay::tools
