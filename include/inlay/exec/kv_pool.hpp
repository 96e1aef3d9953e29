// A paged KV cache for all layers of a model: fixed blocks that sequences take and give back. Memory
// is reserved at once; on the host it costs nothing until it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <inlay/core/paged_kv.hpp>
#include <inlay/core/status.hpp>

namespace inlay::exec {

// The blocks of one sequence, in the order of its positions.
struct Sequence {
  std::vector<std::int32_t> blocks;
  index length = 0;  // tokens whose keys and values are in the cache
};

// Who has which block. It knows no memory: the same for the caches of all spaces.
class BlockPool {
 public:
  struct Shape {
    index layers = 0, kv_heads = 0, head_dim = 0;
    DType dtype = DType::f16;  // f32 f16 bf16
    index block_size = 16;     // slots
    index blocks = 0;
  };

  explicit BlockPool(const Shape& shape);

  const Shape& shape() const { return shape_; }
  index free_blocks() const { return static_cast<index>(free_.size()); }

  // Room for `tokens` in all; the sequence keeps what it has if there is none.
  Status reserve(Sequence& sequence, index tokens);
  void release(Sequence& sequence);

  // The slot of one position.
  std::int64_t slot(const Sequence& sequence, index position) const {
    return sequence.blocks[position / shape_.block_size] * shape_.block_size + position % shape_.block_size;
  }

 private:
  Shape shape_;
  std::vector<std::int32_t> free_;
};

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
