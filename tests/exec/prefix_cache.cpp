// Blocks that two texts share: found by a hash of all that they depend on, and believed for what they hold.
#include <inlay/exec/serve/prefix_cache.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/exec/support/block_pool.hpp"

namespace inlay::exec {
namespace {

std::vector<Token> hashed;
std::uint64_t listed(std::uint64_t hash, Token token) {
  hashed.push_back(token);
  return hash;
}

// What is hashed of two texts differs, whatever of them differs, and neither is the beginning of the other.
TEST(prefix_cache, salts_are_tagged_and_have_their_length) {
  std::vector<std::vector<Token>> all;
  // The first of these tokens are bytes of a salt, and the second text goes on behind that byte.
  const std::vector<Token> texts[] = {{97, 98, 3, 4, 1}, {98, 3, 4, 1, 5}};
  for (const DType type : {DType::f16, DType::bf16, DType::i8})
    for (const char* model : {"", "a", "ab"})
      for (const char* salt : {"", "a", "b", "ab", "ba"})
        for (int i = 0; i < 8; ++i) {
          const std::vector<Token>& known = texts[i / 4];
          const index prompt = std::array<index, 4>{5, 3, 2, 1}[static_cast<std::size_t>(i % 4)];
          BlockPool::Shape shape = blocks(4, 2);
          shape.dtype = type;
          BlockPool pool(shape);
          hashed.clear();
          PrefixCache cache(pool, model, listed);
          Sequence sequence;
          ASSERT_TRUE(ok(pool.reserve(sequence, 5)));
          sequence.length = 4;
          cache.publish({known, prompt, salt}, sequence);
          all.push_back(hashed);
        }
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (a == b) continue;
      const std::size_t common = std::min(all[a].size(), all[b].size());
      EXPECT_FALSE(std::equal(all[a].begin(), all[a].begin() + static_cast<std::ptrdiff_t>(common), all[b].begin()))
          << a << " and " << b;
    }
}

// Whatever the hash, a block is found for its tokens, for those before it, and for its salt and kind.
TEST(prefix_cache, believes_tokens_and_not_their_hash) {
  for (const PrefixCache::Hash hash : {PrefixCache::Hash(PrefixCache::mixed),
                                       PrefixCache::Hash([](std::uint64_t, Token) { return std::uint64_t{1}; })}) {
    BlockPool pool(blocks(20, 2));
    PrefixCache cache(pool, "a model", hash);
    const auto text = [](const std::vector<Token>& known, const char* salt = "") {
      return PrefixCache::Text{known, static_cast<index>(known.size()), salt};
    };
    const std::vector<Token> prompt = {1, 2, 3, 4, 5},
                             others[] = {{2, 2, 3, 4, 5}, {1, 3, 3, 4, 5}, {65, 321, 3, 4, 5}};
    Sequence sequence, second;
    ASSERT_TRUE(ok(pool.reserve(sequence, 6)));
    cache.announce(text(prompt), sequence);
    EXPECT_TRUE(cache.find(text(prompt)).blocks.empty());
    EXPECT_TRUE(cache.find(text(prompt)).is_pending);
    sequence.length = 3;
    cache.publish(text(prompt), sequence);
    EXPECT_EQ(cache.find(text(prompt)).blocks, std::vector(1, sequence.blocks[0]));
    sequence.length = 5;
    cache.publish(text(prompt), sequence);
    const bool collide = hash != PrefixCache::Hash(PrefixCache::mixed);  // the first block alone has the entry
    EXPECT_EQ(cache.find(text(prompt)).blocks.size(), collide ? 1u : 2u);
    EXPECT_FALSE(cache.find(text(prompt)).is_pending);
    for (const auto& other : others) EXPECT_TRUE(cache.find(text(other)).blocks.empty());
    EXPECT_TRUE(cache.find(text(prompt, "you")).blocks.empty());
    // The same tokens of another kind: the first of them only, or three, are the prompt.
    EXPECT_TRUE(cache.find({prompt, 1, ""}).blocks.empty());
    EXPECT_EQ(cache.find({prompt, 3, ""}).blocks.size(), 1u);
    // The same tokens behind others are another block.
    const std::vector<Token> twice = {1, 2, 1, 2, 5};
    EXPECT_EQ(cache.find(text(twice)).blocks.size(), 1u);
    const std::vector<Token> behind = {3, 4, 5};
    EXPECT_TRUE(cache.find(text(behind)).blocks.empty());
    // Until the block is taken for something else.
    pool.release(sequence);
    EXPECT_EQ(cache.find(text(prompt)).blocks.size(), collide ? 1u : 2u);
    ASSERT_TRUE(ok(pool.reserve(second, 40)));
    EXPECT_TRUE(cache.find(text(prompt)).blocks.empty());
    // What was generated is found behind as long a prompt, and by no other.
    second.length = 5;
    cache.publish({prompt, 1, ""}, second);
    EXPECT_EQ(cache.find({prompt, 1, ""}).blocks.size(), collide ? 1u : 2u);
    EXPECT_TRUE(cache.find({prompt, 2, ""}).blocks.empty());
    EXPECT_TRUE(cache.find(text(prompt)).blocks.empty());
    // Nor where the two boundaries lie in one block.
    BlockPool wide(blocks(4, 4));
    PrefixCache of_wide(wide, {}, hash);
    Sequence answer;
    ASSERT_TRUE(ok(wide.reserve(answer, 5)));
    answer.length = 4;
    of_wide.publish({prompt, 2}, answer);
    EXPECT_EQ(of_wide.find({prompt, 2}).blocks.size(), 1u);
    EXPECT_TRUE(of_wide.find({prompt, 3}).blocks.empty());
  }
}

// Who waits for a beginning that is being computed goes on by itself where that comes to nothing.
TEST(prefix_cache, a_beginning_that_is_given_up_is_pending_no_more) {
  BlockPool pool(blocks(20, 2));
  PrefixCache cache(pool);
  const std::vector<Token> known = {1, 2, 3, 4, 5};
  const PrefixCache::Text prompt{known, 5};
  Sequence sequence;
  ASSERT_TRUE(ok(pool.reserve(sequence, 6)));
  cache.announce(prompt, sequence);
  ASSERT_TRUE(cache.find(prompt).is_pending);
  pool.release(sequence);
  EXPECT_FALSE(cache.find(prompt).is_pending);
  EXPECT_TRUE(cache.find(prompt).blocks.empty());
}

}  // namespace
}  // namespace inlay::exec
