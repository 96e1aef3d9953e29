#include <inlay/exec/block_pool.hpp>

#include <algorithm>
#include <string>

namespace inlay::exec {

BlockPool::BlockPool(const Shape& shape) : shape_(shape) {
  // The lowest blocks first: a short sequence touches few pages.
  for (index block = shape.blocks; block-- > 0;) free_.push_back(static_cast<std::int32_t>(block));
  const auto blocks = static_cast<std::size_t>(std::max<index>(shape.blocks, 0));
  owners_.resize(blocks), generations_.resize(blocks), kept_.resize(blocks), idle_since_.resize(blocks);
}

std::int32_t BlockPool::take() {
  std::int32_t block = -1;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    block = idle_.begin()->second;
    idle_.erase(idle_.begin());
  }
  const auto at = static_cast<std::size_t>(block);
  ++generations_[at];
  kept_[at] = false;
  owners_[at] = 1;
  return block;
}

Status BlockPool::reserve(Sequence& sequence, index tokens) {
  const index more = lacking(sequence, tokens);
  if (more > free_blocks())
    return {StatusCode::out_of_memory, "the KV cache has " + std::to_string(free_blocks()) + " free blocks of " +
                                           std::to_string(shape_.block_size) + " tokens; " + std::to_string(tokens) +
                                           " tokens need " + std::to_string(more) + " more"};
  for (index i = 0; i < more; ++i) sequence.blocks.push_back(take());
  return {};
}

void BlockPool::share(Sequence& sequence, std::int32_t block) {
  const auto at = static_cast<std::size_t>(block);
  if (owners_[at]++ == 0) idle_.erase(idle_since_[at]);
  sequence.blocks.push_back(block);
}

void BlockPool::release(Sequence& sequence) {
  // The last first: of a text that begins alike the front is worth most.
  for (auto each = sequence.blocks.rbegin(); each != sequence.blocks.rend(); ++each) {
    const auto at = static_cast<std::size_t>(*each);
    if (--owners_[at] > 0) continue;
    if (kept_[at]) {
      idle_since_[at] = time_;
      idle_.emplace(time_++, *each);
    } else {
      ++generations_[at];
      free_.push_back(*each);
    }
  }
  sequence = {};
}

Status BlockPool::audit(std::span<const Sequence* const> sequences) const {
  std::vector<index> owners(static_cast<std::size_t>(shape_.blocks), 0), places(owners);
  for (const std::int32_t block : free_) ++places[static_cast<std::size_t>(block)];
  for (const auto& [since, block] : idle_) {
    ++places[static_cast<std::size_t>(block)];
    if (!kept_[static_cast<std::size_t>(block)])
      return invalid("block " + std::to_string(block) + " is idle and not kept");
  }
  for (const Sequence* each : sequences) {
    if (lacking(*each, each->length) > 0)
      return invalid("a sequence has " + std::to_string(each->length) + " tokens in " +
                     std::to_string(each->blocks.size()) + " blocks of " + std::to_string(shape_.block_size));
    for (std::size_t i = 0; i < each->blocks.size(); ++i) {
      const auto at = static_cast<std::size_t>(each->blocks[i]);
      ++owners[at];
      if ((owners_[at] > 1 || kept_[at]) && static_cast<index>(i) >= each->length / shape_.block_size)
        return invalid("block " + std::to_string(each->blocks[i]) + " is shared or kept, and will be written to");
    }
  }
  for (std::size_t block = 0; block < owners.size(); ++block)
    if (owners[block] != owners_[block] || places[block] != (owners[block] == 0 ? 1 : 0))
      return invalid("block " + std::to_string(block) + " counts " + std::to_string(owners_[block]) +
                     " sequences, has " + std::to_string(owners[block]) + ", and lies in " +
                     std::to_string(places[block]) + " lists of free ones");
  return {};
}

}  // namespace inlay::exec
