// Who has which block of a paged KV cache: fixed blocks that sequences take and give back. It knows no memory, and is
// the same for the caches of all spaces.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay::exec {

// The blocks of one sequence, in the order of its positions.
struct Sequence {
  std::vector<std::int32_t> blocks;
  index length = 0;  // tokens whose keys and values are in the cache
};

class BlockPool {
 public:
  struct Shape {
    index layers = 0, kv_heads = 0, head_dim = 0;
    index value_dim = 0;       // 0: head_dim
    DType dtype = DType::f16;  // f32 f16 bf16
    index block_size = 16;     // slots
    index blocks = 0;
  };

  explicit BlockPool(const Shape& shape);

  const Shape& shape() const { return shape_; }
  index free_blocks() const { return static_cast<index>(free_.size()); }
  index blocks_of(index tokens) const { return (tokens + shape_.block_size - 1) / shape_.block_size; }

  // Room for `tokens` in all; the sequence keeps what it has if there is none.
  Status reserve(Sequence& sequence, index tokens);
  void release(Sequence& sequence);
  // Blocks that `sequence` lacks for `tokens` in all.
  index lacking(const Sequence& sequence, index tokens) const {
    return blocks_of(tokens) - static_cast<index>(sequence.blocks.size());
  }
  // Is every block free, or of one of these sequences, once? What is wrong else.
  Status audit(std::span<const Sequence* const> sequences) const;

  // The slot of one position.
  std::int64_t slot(const Sequence& sequence, index position) const {
    return sequence.blocks[position / shape_.block_size] * shape_.block_size + position % shape_.block_size;
  }

 private:
  Shape shape_;
  std::vector<std::int32_t> free_;
};

}  // namespace inlay::exec
