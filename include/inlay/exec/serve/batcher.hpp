// Who computes what in the next pass, where many texts share one cache (Yu et al., Orca, 2022; Agrawal et al.,
// Sarathi-Serve, 2024).
//
// Of a text some tokens are known, its prompt and what was generated, and some of them computed: their keys and values
// lie in the cache. A pass lets computed catch up with known; where it does, the logits of the last token give one
// more.
//
//   waiting --admitted--> running --removed-->
//      ^-----preempted------'
//
// Those that write come first, one token each, so that no prompt holds them up. A quarter of a pass is left for
// prompts, so that they do not wait either; they are cut into chunks.
//
// The order is that of arrival. A text is admitted where there is room for all that is known of it and one more, and a
// block is left for each that runs. A few later ones may go by a large one that waits, and then none does.
//
// What a prompt has in common with the beginning of another one of the same salt is not computed again
// (serve/prefix_cache.hpp). Where it is being computed, the later one waits for it.
//
// Where a text that writes finds no block, the youngest gives its blocks back and waits again. Those that nobody took
// meanwhile it finds in the cache; what they held is computed a second time, its prompt as a prompt and what was
// generated as generated, which gives the same bits (exec/batch.hpp). Where there is a swap space, and room in it, they
// are copied there first, and back into other blocks in place of being computed.
//
// A text whose prompt is computed can fork: another one with the same prompt goes on from its blocks, and shares them
// until either writes. Where there is no place for it, it waits, as one that was preempted.
//
// The oldest is never preempted by another, and what the whole cache could not hold is refused: so all end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/serve/prefix_cache.hpp>
#include <inlay/exec/serve/swap_space.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

struct Request {
  index rank = 0;                 // the order of arrival; no two have one
  std::vector<Token> known = {};  // the prompt, then what was generated
  index prompt = 0;               // tokens of the prompt
  index most = 0;                 // that will ever be computed: the last one that is known never is
  Sequence sequence = {};         // its blocks; the length is what is computed
  Sequence swapped = {};          // its blocks in the swap space, while it waits
  std::string cache_salt = {};    // it shares no block with a request of another salt
  index passed = 0;               // how often later ones went by while it was the first to wait

  index computed() const { return sequence.length; }
  bool writes() const { return computed() >= prompt; }
  index missing() const { return static_cast<index>(known.size()) - computed(); }
};

class Batcher {
 public:
  struct Options {
    index tokens = 256;   // of one pass
    index requests = 32;  // that run at once, at most three quarters of the tokens
    index passes = 8;     // how often later requests go by the first that waits
    bool reuse_prefixes = true;
    std::string model = {};  // a salt of the cache, beside the requests'
  };
  // Tokens of one request in a pass, behind those that are computed: generated ones, or a chunk of its prompt.
  struct Part {
    Request* request;
    index count;
    bool has_logits;  // they are the last that are known
  };

  static Status check(const Options& options);
  // By options that `check` takes. `swap_space` may be none; it outlives the batcher.
  Batcher(BlockPool& pool, const Options& options, SwapSpace* swap_space = nullptr)
      : pool_(&pool), options_(options), prefixes_(pool, options.model), swap_space_(swap_space) {}

  // Waits from now on, until it is removed; it must not move. Refused is what the cache could never hold.
  Status submit(Request& request);
  // `child`, of the same prompt, salt and most, and with no blocks, begins where `request` is, all of which is
  // computed: at once, or when it is admitted. Not between next and computed.
  void fork(const Request& request, Request& child);
  // `other`, of the same tokens, goes on in place of `request`, which is removed. No third has a rank between them. Not
  // between next and computed.
  void replace(Request& request, Request& other);
  // It has ended, or nobody wants it any more: its blocks come back. Not between next and computed.
  void remove(Request& request);

  // The parts of the next pass, generated tokens first; their blocks are taken. Valid until the next call.
  std::span<const Part> next();
  // The same as a batch.
  Status fill(Batch& batch) const;
  // That pass has run.
  void computed();

  index running() const { return static_cast<index>(running_.size()); }
  index waiting() const { return static_cast<index>(waiting_.size()); }
  index preemptions() const { return preemptions_; }
  // Those of them that went to the swap space.
  index swaps() const { return swaps_; }
  // Tokens that were found in the cache.
  index reused() const { return reused_; }

 private:
  using List = std::vector<Request*>;  // by rank

  void add_generated();
  void add_prompts();
  void admit();
  // So that no step of it asks for memory.
  void reserve_places(Request& request) const;
  // Blocks for `tokens` of a running request, at the cost of younger ones; false where it was itself the youngest.
  bool make_room(Request& request, index tokens);
  void preempt_youngest();
  void swap_out(Request& request);
  // What is not in the cache any more, of a request that has just been admitted.
  void swap_in(Request& request);
  // Of the tokens of a prompt, or of those that are computed again, as many as the pass has room for.
  void add_rest(Request& request);
  void add(Request& request, index count);

  BlockPool* pool_;
  Options options_;
  PrefixCache prefixes_;
  SwapSpace* swap_space_;
  List waiting_, running_;
  std::vector<Part> parts_;
  index left_ = 0;  // tokens of the pass
  index preemptions_ = 0, swaps_ = 0, reused_ = 0;
};

}  // namespace inlay::exec
