// A naive model of a pool of blocks: it counts owners by looking at all sequences, and knows what every slot must hold.
#pragma once

#include <inlay/exec/block_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "tests/exec/support/block_pool.hpp"

namespace inlay::exec {

// Sequences with the tokens that each must find in its blocks.
struct Model {
  struct Text {
    Sequence sequence;
    std::vector<int> tokens = {};
    index full() const { return sequence.length / 4 * 4; }
  };

  BlockPool pool;
  std::vector<int> cache = std::vector<int>(static_cast<std::size_t>(pool.shape().blocks * 4), -1);
  std::deque<Text> texts = {};  // those that are told of stay where they are
  std::set<std::int32_t> kept = {};
  int next_token = 0;

  explicit Model(index count) : pool(blocks(count)) {}

  Text& text(std::size_t number) { return texts[number % texts.size()]; }
  index owners(std::int32_t block) const {
    index count = 0;
    for (const Text& each : texts) count += std::ranges::count(each.sequence.blocks, block);
    return count;
  }
  // What reserve() must take.
  index lacking(const Text& text, index more) const {
    const Sequence& s = text.sequence;
    const index all = (s.length + more + 3) / 4, have = static_cast<index>(s.blocks.size());
    index count = std::max<index>(all - have, 0);
    for (index i = s.length / 4; more > 0 && i < std::min(all, have); ++i) {
      const std::int32_t block = s.blocks[static_cast<std::size_t>(i)];
      if (owners(block) > 1 || kept.contains(block)) ++count;
    }
    return count;
  }
  std::set<std::int32_t> in_use() const {
    std::set<std::int32_t> used;
    for (const Text& each : texts) used.insert(each.sequence.blocks.begin(), each.sequence.blocks.end());
    for (const BlockPool::Copy& copy : pool.copies()) used.insert(copy.source);
    return used;
  }

  bool reserve(Text& text, index more) {
    const index lacks = lacking(text, more), free = pool.free_blocks(), length = text.sequence.length;
    const Sequence before = text.sequence;
    const std::vector<BlockPool::Copy> copies(pool.copies().begin(), pool.copies().end());
    EXPECT_EQ(pool.lacking(text.sequence, length + more), lacks);
    const Status status = pool.reserve(text.sequence, length + more);
    EXPECT_EQ(status.ok(), lacks <= free) << status.message();
    if (!status.ok()) {
      EXPECT_EQ(text.sequence.blocks, before.blocks);
      EXPECT_EQ(pool.free_blocks(), free);
      EXPECT_TRUE(std::ranges::equal(pool.copies(), copies));
      return false;
    }
    EXPECT_EQ(text.sequence.length, length);
    for (const std::int32_t block : text.sequence.blocks)
      if (std::ranges::find(before.blocks, block) == before.blocks.end()) kept.erase(block);
    return true;
  }
  void fork(const Text& parent) {
    const index free = pool.free_blocks();
    Text child{.sequence = {}, .tokens = parent.tokens};
    pool.fork(parent.sequence, child.sequence);
    EXPECT_EQ(child.sequence.length, parent.sequence.length);
    EXPECT_EQ(pool.free_blocks(), free);
    texts.push_back(std::move(child));
  }
  void release(std::size_t number) {
    pool.release(texts[number].sequence);
    EXPECT_TRUE(texts[number].sequence.blocks.empty());
    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(number));
  }
  // A pass that writes so many tokens of each, for which there is room. One that fails may have done anything to the
  // slots that it was to write.
  void pass(const std::vector<std::pair<Text*, index>>& parts, bool fails = false) {
    const std::vector<int> before = cache;
    for (const BlockPool::Copy& copy : pool.copies())
      for (int i = 0; i < 4; ++i)
        cache[static_cast<std::size_t>(copy.target * 4 + i)] = before[static_cast<std::size_t>(copy.source * 4 + i)];
    for (const auto& [text, more] : parts)
      for (index i = 0; i < more; ++i) {
        const std::int64_t slot = pool.slot(text->sequence, text->sequence.length + i);
        EXPECT_TRUE(pool.is_writable(static_cast<std::int32_t>(slot / 4)));
        cache[static_cast<std::size_t>(slot)] = fails ? -2 : next_token;
        if (!fails) text->tokens.push_back(next_token++);
      }
    if (fails) return;
    for (const auto& [text, more] : parts) text->sequence.length += more;
    pool.copied();
    EXPECT_TRUE(pool.copies().empty());
  }
  // One text by itself.
  void write(Text& text, index more) {
    ASSERT_TRUE(reserve(text, more));
    pass({{&text, more}});
  }

  void audit() const {
    std::vector<const Sequence*> sequences;
    for (const Text& each : texts) sequences.push_back(&each.sequence);
    ASSERT_TRUE(ok(pool.audit(sequences)));
    ASSERT_EQ(pool.free_blocks(), pool.shape().blocks - static_cast<index>(in_use().size()));
    for (std::int32_t block = 0; block < pool.shape().blocks; ++block)
      ASSERT_EQ(pool.is_idle(block), !in_use().contains(block)) << block;
    std::set<std::int32_t> targets;
    for (const BlockPool::Copy& copy : pool.copies()) ASSERT_TRUE(targets.insert(copy.target).second);
    for (const BlockPool::Copy& copy : pool.copies()) ASSERT_FALSE(targets.contains(copy.source));
    for (std::size_t number = 0; number < texts.size(); ++number)
      for (index i = 0; i < texts[number].sequence.length; ++i) {
        std::int64_t slot = pool.slot(texts[number].sequence, i);
        // What is still to be copied must lie where it will be copied from.
        for (const BlockPool::Copy& copy : pool.copies())
          if (copy.target == slot / 4) {
            slot = copy.source * 4 + slot % 4;
            break;
          }
        ASSERT_EQ(cache[static_cast<std::size_t>(slot)], texts[number].tokens[static_cast<std::size_t>(i)])
            << "text " << number << ", token " << i;
      }
  }
  void release_all() {
    while (!texts.empty()) release(0);
    audit();
    EXPECT_EQ(pool.free_blocks(), pool.shape().blocks);
  }
};

}  // namespace inlay::exec
