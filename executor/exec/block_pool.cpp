#include <inlay/exec/block_pool.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace inlay::exec {

BlockPool::BlockPool(const Shape& shape) : shape_(shape) {
  // The lowest blocks first: a short sequence touches few pages.
  for (index block = shape.blocks; block-- > 0;) free_.push_back(static_cast<std::int32_t>(block));
  const auto blocks = static_cast<std::size_t>(std::max<index>(shape.blocks, 0));
  owners_.resize(blocks), pins_.resize(blocks), generations_.resize(blocks), kept_.resize(blocks),
      idle_since_.resize(blocks);
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

BlockPool::Places BlockPool::next_places(const Sequence& sequence, index tokens) const {
  const index begin = sequence.length / shape_.block_size;
  if (tokens <= sequence.length) return {begin, begin};
  return {begin, std::min(blocks_of(tokens), static_cast<index>(sequence.blocks.size()))};
}

index BlockPool::lacking(const Sequence& sequence, index tokens) const {
  const auto [begin, end] = next_places(sequence, tokens);
  const index replaced = std::count_if(sequence.blocks.begin() + begin, sequence.blocks.begin() + end,
                                       [&](std::int32_t block) { return !is_writable(block); });
  return std::max<index>(blocks_of(tokens) - static_cast<index>(sequence.blocks.size()), 0) + replaced;
}

Status BlockPool::reserve(Sequence& sequence, index tokens) {
  const index more = lacking(sequence, tokens);
  if (more > free_blocks())
    return {StatusCode::out_of_memory, "the KV cache has " + std::to_string(free_blocks()) + " free blocks of " +
                                           std::to_string(shape_.block_size) + " tokens; " + std::to_string(tokens) +
                                           " tokens need " + std::to_string(more) + " more"};
  const auto [begin, end] = next_places(sequence, tokens);
  for (index place = begin; place < end; ++place) {
    std::int32_t& block = sequence.blocks[static_cast<std::size_t>(place)];
    if (is_writable(block)) continue;
    const std::int32_t shared = std::exchange(block, take());
    if (place * shape_.block_size < sequence.length) {
      // Where that is itself still to be copied, its tokens lie where they come from.
      const auto pending = find_target(shared);
      copies_.push_back({pending == copies_.end() ? shared : pending->source, block});
      pin(copies_.back().source);
    }
    disown(shared);
  }
  while (static_cast<index>(sequence.blocks.size()) < blocks_of(tokens)) sequence.blocks.push_back(take());
  return {};
}

void BlockPool::fork(const Sequence& parent, Sequence& child) {
  child.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + blocks_of(parent.length));
  child.length = parent.length;
  for (const std::int32_t block : child.blocks) ++owners_[static_cast<std::size_t>(block)];
}

void BlockPool::copied() {
  for (const Copy& copy : copies_) unpin(copy.source);
  copies_.clear();
}

void BlockPool::share(Sequence& sequence, std::int32_t block) {
  const auto at = static_cast<std::size_t>(block);
  if (is_idle(block)) idle_.erase(idle_since_[at]);
  ++owners_[at];
  sequence.blocks.push_back(block);
}

void BlockPool::release(Sequence& sequence) {
  // The last first: of a text that begins alike the front is worth most.
  for (auto each = sequence.blocks.rbegin(); each != sequence.blocks.rend(); ++each) disown(*each);
  sequence = {};
}

std::vector<BlockPool::Copy>::iterator BlockPool::find_target(std::int32_t block) {
  return std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.target == block; });
}

void BlockPool::disown(std::int32_t block) {
  if (--owners_[static_cast<std::size_t>(block)] > 0) return;
  if (const auto pending = find_target(block); pending != copies_.end()) {
    const std::int32_t source = pending->source;
    copies_.erase(pending);
    unpin(source);
  }
  give_back(block);
}

void BlockPool::unpin(std::int32_t block) {
  --pins_[static_cast<std::size_t>(block)];
  give_back(block);
}

void BlockPool::give_back(std::int32_t block) {
  if (!is_idle(block)) return;
  const auto at = static_cast<std::size_t>(block);
  if (kept_[at]) {
    idle_since_[at] = time_;
    idle_.emplace(time_++, block);
  } else {
    ++generations_[at];
    free_.push_back(block);
  }
}

Status BlockPool::audit(std::span<const Sequence* const> sequences) const {
  const auto wrong = [](std::int32_t block, const std::string& what) {
    return invalid("block " + std::to_string(block) + " " + what);
  };
  std::vector<index> owners(owners_.size(), 0), places(owners), pins(owners);
  for (const std::int32_t block : free_) ++places[static_cast<std::size_t>(block)];
  for (const auto& [since, block] : idle_) {
    ++places[static_cast<std::size_t>(block)];
    if (!kept_[static_cast<std::size_t>(block)]) return wrong(block, "is idle and not kept");
  }
  for (const Sequence* each : sequences) {
    if (blocks_of(each->length) > static_cast<index>(each->blocks.size()))
      return invalid("a sequence has " + std::to_string(each->length) + " tokens in " +
                     std::to_string(each->blocks.size()) + " blocks of " + std::to_string(shape_.block_size));
    for (std::size_t i = 0; i < each->blocks.size(); ++i) {
      const auto at = static_cast<std::size_t>(each->blocks[i]);
      ++owners[at];
      if (kept_[at] && static_cast<index>(i) >= each->length / shape_.block_size)
        return wrong(each->blocks[i], "is kept and not full");
    }
  }
  for (const Copy& copy : copies_) ++pins[static_cast<std::size_t>(copy.source)];
  for (const Copy& copy : copies_)
    if (const auto at = static_cast<std::size_t>(copy.target); owners[at] == 0 || pins[at] > 0)
      return wrong(copy.target, "is the target of a copy, has " + std::to_string(owners[at]) +
                                    " sequences and is the " + "source of " + std::to_string(pins[at]) + " copies");
  for (std::size_t at = 0; at < owners.size(); ++at)
    if (const bool is_free = owners[at] == 0 && pins[at] == 0;
        owners[at] != owners_[at] || pins[at] != pins_[at] || places[at] != (is_free ? 1 : 0))
      return wrong(static_cast<std::int32_t>(at),
                   "counts " + std::to_string(owners_[at]) + " sequences and " + std::to_string(pins_[at]) +
                       " copies, has " + std::to_string(owners[at]) + " and " + std::to_string(pins[at]) +
                       ", and lies in " + std::to_string(places[at]) + " lists of free ones");
  return {};
}

}  // namespace inlay::exec
