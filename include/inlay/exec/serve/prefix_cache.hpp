// Blocks of prompts that another text begins with are not computed again (as vLLM's automatic prefix caching).
//
//   prompt   | block 0 | block 1 | block 2 | rest |      entries   0 <- 1 <- 2     each knows its tokens and the one
//   before
//
// An entry is found by a hash of its tokens and of all before them, and believed for its tokens and its place: whatever
// the hash, a block is shared by equal prompts alone. Only whole blocks of a prompt count, and of these none that holds
// its last token: that is computed for its logits. What was generated is none: its bits are those of another attention
// (exec/batch.hpp).
//
// An entry is pending from when a text is admitted until its block is computed. Who begins alike waits for it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <inlay/exec/block_pool.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

class PrefixCache {
 public:
  // The hash of some tokens and one more.
  using Hash = std::uint64_t (*)(std::uint64_t, Token);
  static std::uint64_t mixed(std::uint64_t hash, Token token);

  explicit PrefixCache(BlockPool& pool, Hash hash = mixed) : pool_(&pool), hash_(hash) {}

  struct Match {
    std::vector<std::int32_t> blocks;  // that hold the beginning of the prompt, computed
    bool is_pending = false;           // the next one is being computed
  };
  // Of a prompt; valid until blocks are taken.
  Match find(std::span<const Token> prompt) const;

  // The sequence has blocks for the whole prompt: those that are not computed yet are pending.
  void announce(std::span<const Token> prompt, const Sequence& sequence);
  // So much of it is computed: whole blocks are kept from now on.
  void publish(std::span<const Token> prompt, const Sequence& sequence);

 private:
  struct Entry {
    BlockPool::Content content, before;  // of the first: block -1
    std::vector<Token> tokens;
    bool computed = false;
  };
  // visit(hash, tokens) for each block that counts, until it returns false.
  template <class Visit> void walk(std::span<const Token> prompt, Visit&& visit) const;
  bool is(const Entry& entry, const BlockPool::Content& before, std::span<const Token> tokens) const;

  BlockPool* pool_;
  Hash hash_;
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace inlay::exec
