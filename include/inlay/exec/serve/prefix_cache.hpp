// Blocks that another text begins with are not computed again (as vLLM's automatic prefix caching).
//
//   prompt   | block 0 | block 1 | block 2 | rest |      entries   0 <- 1 <- 2     each knows its tokens and the one
//   before
//
// An entry is found by a hash of its tokens and of all before them, and believed for its tokens and its place: whatever
// the hash, a block is shared by equal texts alone. Only whole blocks count, and of these none that holds the last
// token that is known: that is computed for its logits.
//
// The hash begins with salts: model, type of the cache, and the salt of the text's user, so that texts of two users
// never share a block and neither can tell by the time of its answer what the other asked. A block that holds generated
// tokens has another kind than a block of a prompt, since its bits are those of another attention (exec/batch.hpp). The
// kind says how long the prompt was: such a block is found by a text that was preempted, or by one that generated the
// same behind the same prompt, and never by a prompt.
//
// An entry is pending from when a text is admitted until its block is computed. Who begins alike waits for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

  // `model`: what the keys and values are of, where it is not the pool's alone.
  explicit PrefixCache(BlockPool& pool, std::string_view model = {}, Hash hash = mixed);

  // The tokens of a prompt, then what was generated.
  struct Text {
    std::span<const Token> known;
    index prompt = 0;            // tokens of the prompt
    std::string_view salt = {};  // texts of two salts share nothing
  };
  struct Match {
    std::vector<std::int32_t> blocks;  // that hold the beginning of the text, computed
    bool is_pending = false;           // the next one is being computed
  };
  // Valid until blocks are taken.
  Match find(const Text& text) const;

  // The sequence has blocks for the whole prompt: those that are not computed yet are pending.
  void announce(const Text& text, const Sequence& sequence);
  // So much of the text is computed: whole blocks are kept from now on.
  void publish(const Text& text, const Sequence& sequence);

 private:
  enum class Tag : char { model = 1, kv_type, salt, generated };  // of a salt

  // A whole block of a text.
  struct Block {
    std::span<const Token> tokens;
    std::string_view salt;  // of the first; those behind it know it by what stands before them
    index prompt = 0;       // 0: its tokens are of the prompt; else some are generated, behind a prompt of so many
  };
  struct Entry {
    BlockPool::Content content, before;  // of the first: block -1
    std::vector<Token> tokens;
    std::string salt;
    index prompt = 0;
    bool computed = false;
  };

  std::uint64_t salted(std::uint64_t hash, Tag tag, std::string_view bytes) const;
  // visit(hash, block) for each whole block, until it returns false.
  template <class Visit> void walk(const Text& text, Visit&& visit) const;
  bool is(const Entry& entry, const BlockPool::Content& before, const Block& block) const;
  void enter(const Text& text, const Sequence& sequence, bool computed);

  BlockPool* pool_;
  Hash hash_;
  std::uint64_t first_;  // the hash of what all texts have in common
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace inlay::exec
