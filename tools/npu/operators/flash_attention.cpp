#include <inlay/ops/flash_attention.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_flash_attention(const Npu& npu, Shape& shape) {
  const index batch = shape.size("batch", 1), queries = shape.size("queries", 1024), keys = shape.size("keys", queries),
              heads = shape.size("heads", 8), kv_heads = shape.size("kv_heads", 2), dim = shape.size("dim", 128);
  const DType type = shape.type("type", DType::f16), cache = shape.type("cache", DType::f16);
  const bool causal = shape.flag("causal", true);
  return shape.plan(npu, FlashAttention<Host>{.q = shape.in<4>(type, {batch, queries, heads, dim}),
                                              .k = shape.in<4>(cache, {batch, keys, kv_heads, dim}),
                                              .v = shape.in<4>(cache, {batch, keys, kv_heads, dim}),
                                              .out = shape.out<4>(type, {batch, queries, heads, dim}),
                                              .causal = causal});
}

const Registered flash_attention("flash_attention", plan_flash_attention);

}  // namespace

}  // namespace inlay::tools
