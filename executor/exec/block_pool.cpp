#include <inlay/exec/block_pool.hpp>

#include <string>

namespace inlay::exec {

BlockPool::BlockPool(const Shape& shape) : shape_(shape) {
  // The lowest blocks first: a short sequence touches few pages.
  for (index block = shape.blocks; block-- > 0;) free_.push_back(static_cast<std::int32_t>(block));
}

Status BlockPool::reserve(Sequence& sequence, index tokens) {
  const index more = lacking(sequence, tokens);
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

Status BlockPool::audit(std::span<const Sequence* const> sequences) const {
  std::vector<index> owners(static_cast<std::size_t>(shape_.blocks), 0);
  const auto count = [&](const std::vector<std::int32_t>& blocks) {
    for (const std::int32_t block : blocks)
      if (block >= 0 && block < shape_.blocks) ++owners[static_cast<std::size_t>(block)];
  };
  count(free_);
  for (const Sequence* each : sequences) {
    count(each->blocks);
    if (lacking(*each, each->length) > 0)
      return invalid("a sequence has " + std::to_string(each->length) + " tokens in " +
                     std::to_string(each->blocks.size()) + " blocks of " + std::to_string(shape_.block_size));
  }
  for (std::size_t block = 0; block < owners.size(); ++block)
    if (owners[block] != 1)
      return invalid("block " + std::to_string(block) + " has " + std::to_string(owners[block]) +
                     " owners; it must be free or of one sequence");
  return {};
}

}  // namespace inlay::exec
