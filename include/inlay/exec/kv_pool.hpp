// A paged KV cache for all layers of a model. Memory is reserved at once; on the host it costs nothing until it is
// written.
#pragma once

#include <cstddef>
#include <utility>

#include <inlay/core/paged_kv.hpp>
#include <inlay/exec/block_pool.hpp>
#include <inlay/model/model_config.hpp>

namespace inlay::exec {

// The cache of a model, for `tokens` in all, in whole blocks.
inline BlockPool::Shape cache_shape(const ModelConfig& config, DType type, index block_size, index tokens) {
  return {.layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .value_dim = config.value_dim(),
          .dtype = type,
          .block_size = block_size,
          .blocks = (tokens + block_size - 1) / block_size};
}

// The blocks with their memory, which `tensors` keeps.
template <class Space = Host> class KvPool : public BlockPool {
 public:
  template <class Tensors> static Expected<KvPool> make(const Shape& shape, Tensors& tensors) {
    const auto make = [&](index dim) {
      return tensors.template make<5>(shape.dtype, {shape.layers, shape.blocks, shape.block_size, shape.kv_heads, dim});
    };
    auto keys = make(shape.head_dim);
    if (!keys) return failure(std::move(keys.error()));
    auto values = make(shape.value_dim > 0 ? shape.value_dim : shape.head_dim);
    if (!values) return failure(std::move(values.error()));
    return KvPool(shape, *keys, *values);
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(byte_size(keys_.dtype, keys_.size()) + byte_size(values_.dtype, values_.size()));
  }

  // [blocks, block_size, kv_heads, head_dim], and of values value_dim
  View<4, Space> keys(index layer) const { return part(keys_, layer); }
  View<4, Space> values(index layer) const { return part(values_, layer); }

 private:
  KvPool(const Shape& shape, const View<5, Space>& keys, const View<5, Space>& values)
      : BlockPool(shape), keys_(keys), values_(values) {}

  static View<4, Space> part(const View<5, Space>& all, index layer) {
    const auto& e = all.extents;
    return {all.slice(0, layer, 1).data, all.dtype, {e[1], e[2], e[3], e[4]}};
  }

  View<5, Space> keys_, values_;  // of all layers
};

}  // namespace inlay::exec
