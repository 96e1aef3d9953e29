// A paged KV cache for all layers of a model. Memory is reserved at once; on the host it costs nothing until it is
// written.
#pragma once

#include <cstddef>
#include <utility>

#include <inlay/core/paged_kv.hpp>
#include <inlay/exec/block_pool.hpp>

namespace inlay::exec {

// The blocks with their memory, which `tensors` keeps.
template <class Space = Host> class KvPool : public BlockPool {
 public:
  template <class Tensors> static Expected<KvPool> make(const Shape& shape, Tensors& tensors) {
    auto memory = tensors.template make<5>(
        shape.dtype, {2 * shape.layers, shape.blocks, shape.block_size, shape.kv_heads, shape.head_dim});
    if (!memory) return failure(std::move(memory.error()));
    return KvPool(shape, *memory);
  }

  std::size_t bytes() const { return static_cast<std::size_t>(byte_size(memory_.dtype, memory_.size())); }

  // [blocks, block_size, kv_heads, head_dim]
  View<4, Space> keys(index layer) const { return part(2 * layer); }
  View<4, Space> values(index layer) const { return part(2 * layer + 1); }

 private:
  KvPool(const Shape& shape, const View<5, Space>& memory) : BlockPool(shape), memory_(memory) {}

  View<4, Space> part(index i) const {
    const auto& e = memory_.extents;
    return {memory_.slice(0, i, 1).data, memory_.dtype, {e[1], e[2], e[3], e[4]}};
  }

  View<5, Space> memory_;
};

}  // namespace inlay::exec
