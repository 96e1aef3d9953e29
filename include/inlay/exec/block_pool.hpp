// Who has which block of a paged KV cache: fixed blocks that sequences take, share and give back. It knows no memory,
// and is the same for the caches of all spaces.
//
//   free --reserve--> of sequences, one or several --release--> free, or kept, where somebody may begin alike
//                            ^                          |
//                            +----------share-----------+         (serve/prefix_cache.hpp)
//
// A kept block is taken for something else where no free one is left, the one that lay idle longest first.
//
// A sequence that forks shares all of its blocks with the other one, the partial last block too. What is shared or kept
// is never written: the first that goes on from a shared block gets a copy of it (copy-on-write; Kwon et al.,
// PagedAttention, 2023), and the last that is left has the block to itself.
//
//   a | 0 | 1 |    fork     a | 0 | 1 |    reserve(a)    a | 0 | 2 |    copies: 1 -> 2
//                           b | 0 | 1 |                  b | 0 | 1 |    b writes to 1, behind the copy
//
// The copies run at the beginning of the next pass, before anything is written. Until then a pin holds their sources.
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
  struct LayerShape {
    index kv_heads = 0, head_dim = 0, value_dim = 0;  // without kv heads: it has no cache
    bool operator==(const LayerShape&) const = default;
  };
  struct Shape {
    index layers = 0, kv_heads = 0, head_dim = 0;
    index value_dim = 0;       // 0: head_dim
    DType dtype = DType::f16;  // f32 f16 bf16 i8
    index block_size = 16;     // slots
    index blocks = 0;
    std::vector<LayerShape> per_layer = {};  // empty: all are alike

    LayerShape layer(index i) const {
      if (!per_layer.empty()) return per_layer[static_cast<std::size_t>(i)];
      return {kv_heads, head_dim, value_dim > 0 ? value_dim : head_dim};
    }
    bool is_quantized() const { return dtype == DType::i8; }  // its elements have scales
  };
  // What a block holds since it was last taken.
  struct Content {
    std::int32_t block = -1;
    std::int64_t generation = 0;
    bool operator==(const Content&) const = default;
  };
  // A block that the next pass must copy before it writes.
  struct Copy {
    std::int32_t source = -1, target = -1;
    bool operator==(const Copy&) const = default;
  };

  explicit BlockPool(const Shape& shape);

  const Shape& shape() const { return shape_; }
  // That can be taken, kept ones included.
  index free_blocks() const { return static_cast<index>(free_.size() + idle_.size()); }
  // Those of them that are kept.
  index idle_blocks() const { return static_cast<index>(idle_.size()); }
  index blocks_of(index tokens) const { return (tokens + shape_.block_size - 1) / shape_.block_size; }

  // Room for `tokens` in all, of which those behind its length may be written; the sequence keeps what it has if there
  // is none. A block that must not be written is replaced, and copied if some of its tokens are the sequence's.
  Status reserve(Sequence& sequence, index tokens);
  void release(Sequence& sequence);
  // Blocks that reserve() takes for `tokens` in all.
  index lacking(const Sequence& sequence, index tokens) const;

  // The child, which has no blocks, gets those that hold the parent's tokens; no free one is needed.
  void fork(const Sequence& parent, Sequence& child);
  // In one sequence alone, and not kept.
  bool is_writable(std::int32_t block) const {
    const auto at = static_cast<std::size_t>(block);
    return owners_[at] == 1 && !kept_[at];
  }
  // The copies that the next pass must run: no target occurs twice, nor as a source.
  std::span<const Copy> copies() const { return copies_; }
  // They have run.
  void copied();

  Content content(std::int32_t block) const { return {block, generations_[static_cast<std::size_t>(block)]}; }
  // Is it still there?
  bool holds(const Content& content) const { return content.block >= 0 && this->content(content.block) == content; }
  // Does no sequence have it now, and no copy need it? Then it is one of the free blocks.
  bool is_idle(std::int32_t block) const {
    const auto at = static_cast<std::size_t>(block);
    return owners_[at] == 0 && pins_[at] == 0;
  }
  // Does it stay when its last sequence releases it?
  void keep(std::int32_t block, bool stays = true) { kept_[static_cast<std::size_t>(block)] = stays; }
  // A block that is kept becomes the next one of `sequence` too. Nobody writes to it any more.
  void share(Sequence& sequence, std::int32_t block);

  // Is every block free, idle, pinned, or of as many of these sequences as it counts; is what is kept full, and each
  // pending copy one to a block of theirs? What is wrong else.
  Status audit(std::span<const Sequence* const> sequences) const;

  // The slot of one position.
  std::int64_t slot(const Sequence& sequence, index position) const {
    return sequence.blocks[position / shape_.block_size] * shape_.block_size + position % shape_.block_size;
  }

 private:
  std::int32_t take();
  // Places among the blocks of `sequence` where its next tokens, up to `tokens` in all, come to lie.
  struct Places {
    index begin, end;
  };
  Places next_places(const Sequence& sequence, index tokens) const;
  std::vector<Copy>::iterator find_target(std::int32_t block);
  // A sequence less has the block; a copy to it that nobody wants any more is dropped.
  void disown(std::int32_t block);
  void pin(std::int32_t block) { ++pins_[static_cast<std::size_t>(block)]; }
  void unpin(std::int32_t block);
  // Free, or kept for who begins alike, if nobody has it any more.
  void give_back(std::int32_t block);

  Shape shape_;
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> owners_, pins_;  // sequences, and pending copies out of it
  std::vector<std::int64_t> generations_;
  std::vector<bool> kept_;
  std::map<std::int64_t, std::int32_t> idle_;  // kept ones without an owner, by the time when they lost it
  std::vector<std::int64_t> idle_since_;
  std::int64_t time_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace inlay::exec
