#include <inlay/ops/incre_flash_attention.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_incre_flash_attention(const Npu& npu, Shape& shape) {
  const index sequences = shape.size("sequences", 4), heads = shape.size("heads", 32),
              kv_heads = shape.size("kv_heads", 8), dim = shape.size("dim", 128), length = shape.size("length", 4096);
  const DType type = shape.type("type", DType::f16), cache = shape.type("cache", DType::f16);
  const auto scale = [&] {
    return cache == DType::i8 ? shape.in<4>(DType::f32, {1, 1, kv_heads, dim}) : ConstView<4>();
  };
  return shape.plan(npu, IncreFlashAttention<Host>{.q = shape.in<4>(type, {sequences, 1, heads, dim}),
                                                   .k = shape.in<4>(cache, {sequences, length, kv_heads, dim}),
                                                   .v = shape.in<4>(cache, {sequences, length, kv_heads, dim}),
                                                   .out = shape.out<4>(type, {sequences, 1, heads, dim}),
                                                   .k_scale = scale(),
                                                   .v_scale = scale()});
}

const Registered incre_flash_attention("incre_flash_attention", plan_incre_flash_attention);

}  // namespace

}  // namespace inlay::tools
