#include <inlay/exec/kv_pool.hpp>

#include <string>

namespace inlay::exec {

BlockPool::BlockPool(const Shape& shape) : shape_(shape) {
  // The lowest blocks first: a short sequence touches few pages.
  for (index block = shape.blocks; block-- > 0;) free_.push_back(static_cast<std::int32_t>(block));
}

Status BlockPool::reserve(Sequence& sequence, index tokens) {
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

void BlockPool::release(Sequence& sequence) {
  free_.insert(free_.end(), sequence.blocks.rbegin(), sequence.blocks.rend());
  sequence = {};
}

}  // namespace inlay::exec
