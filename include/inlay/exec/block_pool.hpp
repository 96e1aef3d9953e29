// Who has which block of a paged KV cache: fixed blocks that sequences take, share and give back. It knows no memory,
// and is the same for the caches of all spaces.
//
//   free --reserve--> of sequences, one or several --release--> free, or kept, where somebody may begin alike
//                            ^                          |
//                            +----------share-----------+         (serve/prefix_cache.hpp)
//
// A kept block is taken for something else where no free one is left, the one that lay idle longest first.
#pragma once

#include <cstdint>
#include <map>
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
  // What a block holds since it was last taken.
  struct Content {
    std::int32_t block = -1;
    std::int64_t generation = 0;
    bool operator==(const Content&) const = default;
  };

  explicit BlockPool(const Shape& shape);

  const Shape& shape() const { return shape_; }
  // That can be taken, kept ones included.
  index free_blocks() const { return static_cast<index>(free_.size() + idle_.size()); }
  // Those of them that are kept.
  index idle_blocks() const { return static_cast<index>(idle_.size()); }
  index blocks_of(index tokens) const { return (tokens + shape_.block_size - 1) / shape_.block_size; }

  // Room for `tokens` in all; the sequence keeps what it has if there is none.
  Status reserve(Sequence& sequence, index tokens);
  void release(Sequence& sequence);
  // Blocks that `sequence` lacks for `tokens` in all.
  index lacking(const Sequence& sequence, index tokens) const {
    return blocks_of(tokens) - static_cast<index>(sequence.blocks.size());
  }

  Content content(std::int32_t block) const { return {block, generations_[static_cast<std::size_t>(block)]}; }
  // Is it still there?
  bool holds(const Content& content) const { return content.block >= 0 && this->content(content.block) == content; }
  // Does no sequence have it now? Then it is one of the free blocks.
  bool is_idle(std::int32_t block) const { return owners_[static_cast<std::size_t>(block)] == 0; }
  // Does it stay when its last sequence releases it?
  void keep(std::int32_t block, bool stays = true) { kept_[static_cast<std::size_t>(block)] = stays; }
  // A block that is kept becomes the next one of `sequence` too. Nobody writes to it any more.
  void share(Sequence& sequence, std::int32_t block);

  // Is every block free, idle, or of as many of these sequences as it counts, and written by none that share it? What
  // is wrong else.
  Status audit(std::span<const Sequence* const> sequences) const;

  // The slot of one position.
  std::int64_t slot(const Sequence& sequence, index position) const {
    return sequence.blocks[position / shape_.block_size] * shape_.block_size + position % shape_.block_size;
  }

 private:
  std::int32_t take();

  Shape shape_;
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> owners_;
  std::vector<std::int64_t> generations_;
  std::vector<bool> kept_;
  std::map<std::int64_t, std::int32_t> idle_;  // kept ones without an owner, by the time when they lost it
  std::vector<std::int64_t> idle_since_;
  std::int64_t time_ = 0;
};

}  // namespace inlay::exec
