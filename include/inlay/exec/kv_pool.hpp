// A paged KV cache for all layers of a model. Memory is reserved at once; on the host it costs nothing until it is
// written.
//
// An i8 cache has a scale beside each key and each value of a token and head, as ReshapeAndCache writes it: those of
// one head of a block lie side by side.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/layout.hpp>
#include <inlay/core/paged_kv.hpp>
#include <inlay/core/status.hpp>
#include <inlay/exec/block_pool.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/model_config.hpp>

namespace inlay::exec {

// The cache of a model, for `tokens` in all, in whole blocks.
inline BlockPool::Shape cache_shape(const ModelConfig& config, DType type, index block_size, index tokens) {
  BlockPool::Shape shape{.layers = config.layers,
                         .kv_heads = config.kv_heads,
                         .head_dim = config.head_dim,
                         .value_dim = config.value_dim(),
                         .dtype = type,
                         .block_size = block_size,
                         .blocks = (tokens + block_size - 1) / block_size};
  for (index i = 0; i < config.layers && !config.per_layer.empty(); ++i) {
    const LayerConfig layer = config.layer(i);
    const bool own = layer.kv_layer == LayerConfig::own_kv;
    shape.per_layer.push_back({own ? layer.kv_heads : 0, layer.head_dim, config.value_dim(layer)});
  }
  return shape;
}

// May the cache of this model be of this type?
inline Status check_kv_type(const ModelConfig& config, DType type) {
  if (floats.contains(type) || (type == DType::i8 && !config.is_latent())) return {};
  const std::string given = "kv_type is " + std::string(name(type)) + "; it must be ";
  if (type == DType::i8)
    return unsupported(given +
                       "f32, f16 or bf16 for latent attention, whose keys are written in two parts and have one scale");
  return invalid(given + "f32, f16, bf16 or i8");
}

// Bytes that a token takes in the cache, scales included.
inline index bytes_a_token(const BlockPool::Shape& shape) {
  index bytes = 0;
  for (index i = 0; i < shape.layers; ++i) {
    const BlockPool::LayerShape layer = shape.layer(i);
    bytes += layer.kv_heads * (byte_size(shape.dtype, layer.head_dim) + byte_size(shape.dtype, layer.value_dim) +
                               (shape.is_quantized() ? 2 * byte_size(DType::f32, 1) : 0));
  }
  return bytes;
}

// What one layer has of it: nothing where it looks at another's.
template <class Space> struct KvLayer {
  View<4, Space> k, v;              // [blocks, block_size, kv_heads, head_dim], and of v value_dim
  View<3, Space> k_scale, v_scale;  // [blocks, kv_heads, block_size] f32; of an i8 cache

  // The scales as FlashAttention takes them, or nothing: [blocks, block_size, kv_heads, 1].
  ConstView<4, Space> k_scale_rows() const { return rows(k_scale); }
  ConstView<4, Space> v_scale_rows() const { return rows(v_scale); }

 private:
  static ConstView<4, Space> rows(const View<3, Space>& scale) {
    const auto& [blocks, kv_heads, block_size] = scale.extents;
    if (!scale.present()) return {};
    return {scale.data,
            scale.dtype,
            {blocks, block_size, kv_heads, 1},
            {scale.strides[0], scale.strides[2], scale.strides[1], 1}};
  }
};

// The blocks with their memory, which `tensors` keeps.
template <class Space = Host> class KvPool : public BlockPool {
 public:
  template <class Tensors> static Expected<KvPool> make(const Shape& shape, Tensors& tensors) {
    KvPool pool(shape);
    // Layers of one shape lie in one piece of memory.
    for (index i = 0; i < shape.layers;) {
      const LayerShape of = shape.layer(i);
      index count = 1;
      while (i + count < shape.layers && shape.layer(i + count) == of) ++count;
      if (Status status = pool.take_layers(count, of, tensors); !status.ok()) return failure(std::move(status));
      i += count;
    }
    return pool;
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(shape().blocks * shape().block_size * bytes_a_token(shape()));
  }

  // Where it lies, each layer apart.
  std::vector<ByteRange> ranges() const {
    std::vector<ByteRange> all;
    const auto add = [&](const auto& view) {
      if (view.present()) all.push_back(byte_range(view));
    };
    for (index i = 0; i < shape().layers; ++i) {
      const KvLayer<Space> of = layer(i);
      add(of.k), add(of.v), add(of.k_scale), add(of.v_scale);
    }
    return all;
  }

  const KvLayer<Space>& layer(index layer) const { return layers_[static_cast<std::size_t>(layer)]; }

 private:
  explicit KvPool(const Shape& shape) : BlockPool(shape) {}

  template <class Tensors> Status take_layers(index count, const LayerShape& of, Tensors& tensors) {
    const index blocks = shape().blocks, block_size = shape().block_size;
    View<5, Space> k, v;
    View<4, Space> k_scale, v_scale;
    if (of.kv_heads > 0) {
      for (const auto& [rows, dim] : {std::pair{&k, of.head_dim}, {&v, of.value_dim}})
        if (Status status = exec::take(tensors, shape().dtype, {count, blocks, block_size, of.kv_heads, dim}, *rows);
            !status.ok())
          return status;
      for (View<4, Space>* scales : {&k_scale, &v_scale})
        if (shape().is_quantized())
          if (Status status = exec::take(tensors, DType::f32, {count, blocks, of.kv_heads, block_size}, *scales);
              !status.ok())
            return status;
    }
    for (index i = 0; i < count; ++i)
      layers_.push_back({.k = part(k, i), .v = part(v, i), .k_scale = part(k_scale, i), .v_scale = part(v_scale, i)});
    return {};
  }

  template <int Rank> static View<Rank - 1, Space> part(const View<Rank, Space>& all, index layer) {
    View<Rank - 1, Space> one;
    if (!all.present()) return one;
    IndexArray<Rank - 1> extents;
    for (std::size_t d = 0; d < extents.size(); ++d) extents[d] = all.extents[d + 1];
    return {all.slice(0, layer, 1).data, all.dtype, extents};
  }

  std::vector<KvLayer<Space>> layers_;
};

}  // namespace inlay::exec
