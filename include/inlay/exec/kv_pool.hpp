// A paged KV cache for all layers of a model: fixed blocks that sequences take and give back. Memory
// is reserved at once and costs nothing until it is written.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/paged_kv.hpp>
#include <inlay/model/tensor.hpp>

namespace inlay::exec {

// The blocks of one sequence, in the order of its positions.
struct Sequence {
  std::vector<std::int32_t> blocks;
  index length = 0;  // tokens whose keys and values are in the cache
};

class KvPool {
 public:
  struct Shape {
    index layers = 0, kv_heads = 0, head_dim = 0;
    DType dtype = DType::f16;  // f32 f16 bf16
    index block_size = 16;     // slots
    index blocks = 0;
  };

  static Expected<KvPool> make(const Shape& shape) {
    KvPool pool;
    pool.shape_ = shape;
    auto memory = OwnedTensor<5>::make(
        shape.dtype, {2 * shape.layers, shape.blocks, shape.block_size, shape.kv_heads, shape.head_dim});
    if (!memory) return failure(std::move(memory.error()));
    pool.memory_ = std::move(*memory);
    // The lowest blocks first: a short sequence touches few pages.
    for (index block = shape.blocks; block-- > 0;) pool.free_.push_back(static_cast<std::int32_t>(block));
    return pool;
  }

  const Shape& shape() const { return shape_; }
  index free_blocks() const { return static_cast<index>(free_.size()); }
  std::size_t bytes() const { return memory_.bytes(); }

  // [blocks, block_size, kv_heads, head_dim]
  View<4> keys(index layer) const { return part(2 * layer); }
  View<4> values(index layer) const { return part(2 * layer + 1); }

  // Room for `tokens` in all; the sequence keeps what it has if there is none.
  Status reserve(Sequence& sequence, index tokens) {
    const index needed = (tokens + shape_.block_size - 1) / shape_.block_size;
    const index more = needed - static_cast<index>(sequence.blocks.size());
    if (more > free_blocks())
      return {StatusCode::out_of_memory, "the KV cache has " + std::to_string(free_blocks()) + " free blocks of " +
                                             std::to_string(shape_.block_size) + " tokens; " + std::to_string(tokens) +
                                             " tokens need " + std::to_string(more) + " more"};
    for (index i = 0; i < more; ++i) {
      sequence.blocks.push_back(free_.back());
      free_.pop_back();
    }
    return {};
  }

  void release(Sequence& sequence) {
    free_.insert(free_.end(), sequence.blocks.rbegin(), sequence.blocks.rend());
    sequence = {};
  }

  // The slot of one position.
  std::int64_t slot(const Sequence& sequence, index position) const {
    return sequence.blocks[position / shape_.block_size] * shape_.block_size + position % shape_.block_size;
  }

 private:
  View<4> part(index i) const {
    const View<5>& all = memory_.view();
    return {all.slice(0, i, 1).data, all.dtype, {all.extents[1], all.extents[2], all.extents[3], all.extents[4]}};
  }

  Shape shape_;
  OwnedTensor<5> memory_;
  std::vector<std::int32_t> free_;
};

}  // namespace inlay::exec
