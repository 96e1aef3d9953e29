// Texts that share a cache, without a model: what a pass computes is counted, and every token comes at once.
#pragma once

#include <inlay/exec/serve/batcher.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/exec/support/block_pool.hpp"

namespace inlay::exec {

// What a slot of the cache holds: a number for the token and all before it, for the attention that computed each, and
// for who may see it.
using Value = std::uint64_t;
inline std::vector<Value> values_of(const Request& text) {
  std::vector<Value> values;
  Value value = std::hash<std::string>{}(text.cache_salt);
  for (index i = 0; i < static_cast<index>(text.known.size()); ++i)
    values.push_back(value =
                         PrefixCache::mixed(value, 2 * text.known[static_cast<std::size_t>(i)] + (i < text.prompt)));
  return values;
}

// A text, and how many more of the same prompt fork from it when that is computed.
struct Text : Request {
  index forks = 0;
};

// A swap space of numbers; what is copied is refused where `fails` says so.
struct SimulatedSwap final : SwapSpace {
  const BlockPool& of;
  std::vector<Value>& cache;
  BlockPool pool;
  std::vector<Value> values = std::vector<Value>(static_cast<std::size_t>(pool.shape().blocks * size()));
  std::function<bool()> fails = [] { return false; };
  index copied = 0;  // blocks, in both ways

  SimulatedSwap(const BlockPool& pool_of_cache, std::vector<Value>& values_of_cache, index count)
      : of(pool_of_cache), cache(values_of_cache), pool(exec::blocks(count, of.shape().block_size)) {}
  index size() const { return of.shape().block_size; }

  Status swap_out(const Sequence& sequence, Sequence& kept) override {
    if (fails()) return {StatusCode::internal, "as asked for"};
    if (Status status = pool.reserve(kept, sequence.length); !status.ok()) return status;
    kept.length = sequence.length;
    copy(sequence, cache, 0, kept, values, kept.length);
    return {};
  }
  Status swap_in(const Sequence& kept, index first, const Sequence& sequence) override {
    if (fails()) return {StatusCode::internal, "as asked for"};
    for (index i = first; i < pool.blocks_of(kept.length); ++i) {
      EXPECT_TRUE(of.is_writable(sequence.blocks[static_cast<std::size_t>(i)])) << "a block of others is written";
    }
    copy(kept, values, first, sequence, cache, kept.length);
    return {};
  }
  void forget(Sequence& kept) override { pool.release(kept); }
  const BlockPool& blocks() const override { return pool; }

 private:
  void copy(const Sequence& from, const std::vector<Value>& source, index first, const Sequence& to,
            std::vector<Value>& target, index length) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(pool.blocks_of(length)); ++i, ++copied)
      std::copy_n(source.begin() + from.blocks[i] * size(), size(), target.begin() + to.blocks[i] * size());
  }
};

// Texts that end when they have all of their tokens. Each step proves what must hold after every one: that a text's
// blocks hold what it would have computed by itself, too.
struct Simulation {
  BlockPool pool;
  std::vector<Value> cache =
      std::vector<Value>(static_cast<std::size_t>(pool.shape().blocks * pool.shape().block_size));
  Batcher::Options options;
  SimulatedSwap swap;
  Batcher batcher;
  std::vector<std::unique_ptr<Text>> texts = {};  // by rank
  index ranks = 0, steps = 0, copies = 0;
  std::vector<index> ended = {};  // their ranks, in order

  // `swap_blocks`: of the swap space; 0: there is none.
  Simulation(const BlockPool::Shape& shape, const Batcher::Options& given, index swap_blocks = 0)
      : pool(shape),
        options(given),
        swap(pool, cache, swap_blocks),
        batcher(pool, given, swap_blocks > 0 ? &swap : nullptr) {
    EXPECT_TRUE(ok(Batcher::check(given)));
  }

  // A prompt of its own, or `begins` and then its own.
  Text* submit(index prompt, index more, std::vector<Token> begins = {}, std::string salt = {}, index forks = 0) {
    auto text = std::make_unique<Text>(Text{{.rank = ranks,
                                             .known = std::move(begins),
                                             .prompt = prompt,
                                             .most = prompt + more,
                                             .cache_salt = std::move(salt)},
                                            forks});
    text->known.resize(static_cast<std::size_t>(prompt), static_cast<Token>(1000 + ranks));
    ranks += 1 + forks;
    if (!batcher.submit(*text).ok()) return nullptr;
    texts.push_back(std::move(text));
    return texts.back().get();
  }
  // The next of a prompt, which has `forks` behind it.
  Text& add_behind(const Text& text, index rank, index forks) {
    auto made = std::make_unique<Text>(Text{
        {.rank = rank, .known = text.known, .prompt = text.prompt, .most = text.most, .cache_salt = text.cache_salt},
        forks});
    const auto by_rank = [](const auto& a, const auto& b) { return a->rank < b->rank; };
    return **texts.insert(std::lower_bound(texts.begin(), texts.end(), made, by_rank), std::move(made));
  }
  void fork(Text& text) {
    for (index i = 1; i <= text.forks; ++i) batcher.fork(text, add_behind(text, text.rank + i, 0));
    text.forks = 0;
  }
  // The text ends before its prompt is computed, and the next one of the prompt goes on.
  void replace(Text& text) {
    const index running = batcher.running(), waiting = batcher.waiting(), free = pool.free_blocks();
    Text& next = add_behind(text, text.rank + 1, text.forks - 1);
    const index computed = text.computed();
    batcher.replace(text, next);
    EXPECT_EQ(next.computed(), computed);
    EXPECT_EQ(batcher.running(), running);
    EXPECT_EQ(batcher.waiting(), waiting);
    EXPECT_EQ(pool.free_blocks(), free);
    std::erase_if(texts, [&](const auto& each) { return each.get() == &text; });
  }
  Text* any(index number) {
    return texts.empty() ? nullptr : texts[static_cast<std::size_t>(number) % texts.size()].get();
  }
  void remove(Request* text) {
    batcher.remove(*text);
    std::erase_if(texts, [&](const auto& each) { return each.get() == text; });
  }

  // Tokens that each text computed. A pass that fails computed none, whatever it did.
  std::map<index, index> step(bool fails = false) {
    ++steps;
    const auto runs = [](const auto& each) { return !each->sequence.blocks.empty(); };
    const auto oldest = std::find_if(texts.begin(), texts.end(), runs);
    const Request* const first = oldest == texts.end() ? nullptr : oldest->get();
    const index before = first ? first->computed() : 0, preempted = batcher.preemptions();
    std::set<index> running;
    for (const auto& each : texts)
      if (runs(each)) running.insert(each->rank);
    std::map<index, index> computed;
    std::vector<Text*> caught_up;
    index all = 0;
    bool prompts = false;
    const std::span<const Batcher::Part> parts = batcher.next();
    for (const auto& [request, count, has_logits] : parts) {
      EXPECT_GT(count, 0);
      EXPECT_TRUE(computed.emplace(request->rank, count).second) << "a text has two parts of one pass";
      EXPECT_FALSE(request->writes() && prompts) << "a generated token stands behind a prompt";
      prompts = prompts || !request->writes();
      if (!request->writes()) {
        EXPECT_LE(request->computed() + count, request->prompt) << "one part is both";
      }
      EXPECT_EQ(has_logits, request->missing() == count);
      EXPECT_TRUE(batcher.preemptions() == preempted || running.contains(request->rank))
          << "a text is admitted in the pass that preempts another";
      EXPECT_LE(pool.lacking(request->sequence, request->computed() + count), 0) << "computed without a block";
      if (has_logits) caught_up.push_back(static_cast<Text*>(request));
      all += count;
    }
    bool gave_way = false;  // an older one, of those that ran
    for (const auto& each : texts) {
      if (!running.contains(each->rank)) continue;
      EXPECT_FALSE(gave_way && runs(each)) << "a text is preempted before the younger " << each->rank;
      gave_way = gave_way || !runs(each);
    }
    compute(parts, fails);
    EXPECT_LE(all, options.tokens);
    EXPECT_LE(batcher.running(), options.requests);
    if (fails) {
      audit();
      return {};
    }
    batcher.computed();
    if (first) {
      EXPECT_GT(first->computed(), before) << "the oldest that runs stands still";
    }
    EXPECT_TRUE(texts.empty() || all > 0) << "nothing is computed";
    for (std::size_t at = 0; at < caught_up.size(); ++at) {
      Text& text = *caught_up[at];
      const index forks = text.forks;
      fork(text);
      for (index i = 1; i <= forks; ++i) caught_up.push_back(with_rank(text.rank + i));
    }
    for (Text* text : caught_up) {
      text->known.push_back(static_cast<Token>(1 + text->rank % 2));
      if (static_cast<index>(text->known.size()) <= text->most) continue;
      ended.push_back(text->rank);
      remove(text);
    }
    audit();
    return computed;
  }
  Text* with_rank(index rank) {
    return std::find_if(texts.begin(), texts.end(), [&](const auto& each) { return each->rank == rank; })->get();
  }
  // The pass, as the batch tells it: blocks are copied, and then what is written is one text's alone.
  void compute(std::span<const Batcher::Part> parts, bool fails) {
    Batch batch;
    EXPECT_TRUE(ok(batcher.fill(batch)));
    const index size = pool.shape().block_size;
    const auto views = batch.views();
    const std::int64_t *slot = views.slots.as<std::int64_t>(), *copy = views.copies.as<std::int64_t>();
    for (index i = 0; i < views.copies.extents[0]; ++i, copy += 2, ++copies)
      std::copy_n(cache.begin() + copy[0] * size, size, cache.begin() + copy[1] * size);
    for (const auto& [request, count, has_logits] : parts) {
      const std::vector<Value> values = values_of(*request);
      for (index i = 0; i < count; ++i, ++slot) {
        EXPECT_TRUE(pool.is_writable(static_cast<std::int32_t>(*slot / size))) << "a block of others is written";
        cache[static_cast<std::size_t>(*slot)] = fails ? 0 : values[static_cast<std::size_t>(request->computed() + i)];
      }
    }
  }
  void audit() const {
    std::vector<const Sequence*> sequences, swapped;
    for (const auto& each : texts) {
      sequences.push_back(&each->sequence);
      swapped.push_back(&each->swapped);
      EXPECT_TRUE(each->sequence.blocks.empty() || each->swapped.blocks.empty()) << "a text has two copies";
      const std::vector<Value> values = values_of(*each);
      for (index i = 0; i < each->computed(); ++i)
        ASSERT_EQ(cache[static_cast<std::size_t>(pool.slot(each->sequence, i))], values[static_cast<std::size_t>(i)])
            << "text " << each->rank << ", token " << i;
    }
    EXPECT_TRUE(ok(pool.audit(sequences)));
    EXPECT_TRUE(ok(swap.pool.audit(swapped)));
  }
  void run_to_end(index most) {
    while (!texts.empty() && steps < most && !::testing::Test::HasFailure()) step();
    EXPECT_TRUE(texts.empty()) << texts.size() << " texts did not end in " << steps << " steps";
    EXPECT_EQ(pool.free_blocks(), pool.shape().blocks);
    EXPECT_EQ(swap.pool.free_blocks(), swap.pool.shape().blocks);
  }
};

}  // namespace inlay::exec
