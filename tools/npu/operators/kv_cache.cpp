#include <inlay/ops/kv_cache.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

struct Cache {
  index blocks, slots, heads, dim;
  DType type;
  std::string layout;
  PagedView<> keys = {}, values = {};
  View<3> k_scale = {}, v_scale = {};

  explicit Cache(Shape& shape)
      : blocks(shape.size("blocks", 1024)),
        slots(shape.size("block", 16)),
        heads(shape.size("heads", 8)),
        dim(shape.size("dim", 128)),
        type(shape.type("cache", DType::f16)),
        layout(shape.word("layout", {"flat", "head_major", "vllm"})) {
    keys = pool(shape, true);
    values = pool(shape, false);
    if (type != DType::i8) return;
    k_scale = shape.out<3>(DType::f32, {blocks, heads, slots});
    v_scale = shape.out<3>(DType::f32, {blocks, heads, slots});
  }

  PagedView<> pool(Shape& shape, bool of_keys) const {
    const index x = std::min(dim, vllm_key_x(type));
    if (layout == "head_major") return head_major_cache(shape.out<4>(type, {blocks, heads, slots, dim}));
    if (layout == "vllm" && of_keys) return shape.out<5>(type, {blocks, heads, dim / x, slots, x});
    if (layout == "vllm") return slot_minor_cache(shape.out<4>(type, {blocks, heads, dim, slots}));
    return flat_cache(shape.out<4>(type, {blocks, slots, heads, dim}));
  }
};

Expected<npu::Plan> plan_reshape_and_cache(const Npu& npu, Shape& shape) {
  const index tokens = shape.size("tokens", 256);
  const DType type = shape.type("type", DType::f16);
  const Cache cache(shape);
  return shape.plan(
      npu, ReshapeAndCache<Host>{.k = shape.in<3>(type, {tokens, cache.heads, cache.dim}),
                                 .v = shape.in<3>(type, {tokens, cache.heads, cache.dim}),
                                 .k_cache = cache.keys,
                                 .v_cache = cache.values,
                                 .slot_mapping = shape.list<1>(DType::i64, {tokens}, [](index slot) { return slot; }),
                                 .k_scale = cache.k_scale,
                                 .v_scale = cache.v_scale});
}

// The first blocks to the last.
ConstView<2> pairs_of(Shape& shape, index count, index blocks) {
  return shape.list<2>(DType::i64, {count, 2}, [&](index i) { return i / 2 + (i % 2 == 0 ? 0 : blocks - count); });
}

Expected<npu::Plan> plan_copy_blocks(const Npu& npu, Shape& shape) {
  const index count = shape.size("pairs", 64);
  const Cache cache(shape);
  return shape.plan(npu, CopyBlocks<Host>{.k_cache = cache.keys,
                                          .v_cache = cache.values,
                                          .k_scale = cache.k_scale,
                                          .v_scale = cache.v_scale,
                                          .pairs = pairs_of(shape, count, cache.blocks)});
}

Expected<npu::Plan> plan_swap_blocks(const Npu& npu, Shape& shape) {
  const index count = shape.size("pairs", 64);
  const Cache cache(shape);
  const PagedView<> other = cache.pool(shape, true);
  return shape.plan(npu, SwapBlocks<Host>{.source = {other.data, other.dtype, other.extents, other.strides},
                                          .target = cache.keys,
                                          .pairs = pairs_of(shape, count, cache.blocks)});
}

const Registered reshape_and_cache("reshape_and_cache", plan_reshape_and_cache);
const Registered copy_blocks("copy_blocks", plan_copy_blocks);
const Registered swap_blocks("swap_blocks", plan_swap_blocks);

}  // namespace

}  // namespace inlay::tools
