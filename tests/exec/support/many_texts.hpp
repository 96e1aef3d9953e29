// Texts that arrive while others are written, each as it is alone and all by passes that they share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/serve/batcher.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {

struct Asked {
  std::vector<Token> prompt;
  index tokens;
  index arrives;     // in this step
  index choice = 0;  // above 0: it forks from the text before it, and its first token is another one
};

inline std::vector<Asked> asked(index vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Asked> all;
  std::vector<Token> common;  // every second prompt begins with some of it
  for (int i = 0; i < 30; ++i) common.push_back(static_cast<Token>(random() % static_cast<unsigned>(vocab)));
  for (int i = 0; i < 14; ++i) {
    Asked each{{}, 1 + static_cast<index>(random() % 45), i < 5 ? 0 : static_cast<index>(random() % 30)};
    for (unsigned n = 1 + random() % 30; n > 0; --n)
      each.prompt.push_back(static_cast<Token>(random() % static_cast<unsigned>(vocab)));
    if (i % 2 == 0)
      std::copy_n(common.begin(), std::min(each.prompt.size() - 1, std::size_t{5} + random() % 25),
                  each.prompt.begin());
    for (; each.choice < (i % 4 == 0 ? 4 : 1); ++each.choice) all.push_back(each);
  }
  std::stable_sort(all.begin(), all.end(), [](const Asked& a, const Asked& b) { return a.arrives < b.arrives; });
  return all;
}

inline Token largest(const float* logits, index vocab) {
  return static_cast<Token>(std::max_element(logits, logits + vocab) - logits);
}

// What the text writes behind so many tokens: the largest; as the first one that of rank `choice`.
inline Token next_token(const Asked& text, std::size_t written, const float* logits, index vocab) {
  if (written > 0) return largest(logits, vocab);
  std::vector<Token> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });
  return order[static_cast<std::size_t>(text.choice)];
}

using Logits = std::vector<std::vector<float>>;  // of each token that is written

inline Logits alone(Session& session, const Asked& text) {
  Logits rows;
  session.reset();
  rows.push_back(all(session, session.append(text.prompt)));
  while (static_cast<index>(rows.size()) < text.tokens) {
    const Token next = next_token(text, rows.size() - 1, rows.back().data(), session.config().vocab);
    rows.push_back(all(session, session.decode(next)));
  }
  return rows;
}

struct Counts {
  index preemptions = 0, swaps = 0, reused = 0, copies = 0;
};

template <class Run>
std::unique_ptr<Engine> engine(const ModelConfig& config, const std::string& type, Run run,
                               const EngineOptions& options) {
  auto weights = random_weights(config, type, serial(), 7);
  EXPECT_TRUE(weights.has_value());
  auto made = make_engine(config, std::move(*weights), std::move(run), options);
  EXPECT_TRUE(made.has_value()) << made.error().message();
  return std::move(*made);
}

// The same by passes that all share, of an engine whose cache nobody uses besides.
inline std::vector<Logits> together(Engine& engine, const std::vector<Asked>& asked, const Batcher::Options& batching,
                                    Counts& counts) {
  const index vocab = engine.config().vocab;
  EXPECT_TRUE(inlay::test::ok(engine.reserve_logits(batching.requests)));
  Batcher batcher(engine.blocks(), batching, engine.swap_space());
  std::vector<Request> texts;
  for (const Asked& each : asked)
    texts.push_back({.rank = static_cast<index>(texts.size()),
                     .known = each.prompt,
                     .prompt = static_cast<index>(each.prompt.size()),
                     .most = static_cast<index>(each.prompt.size()) + each.tokens - 1});
  std::vector<Logits> rows(asked.size());
  std::size_t arrived = 0;
  for (index step = 0; step < 2000; ++step) {
    for (; arrived < asked.size() && asked[arrived].arrives <= step; ++arrived)
      if (asked[arrived].choice == 0) {
        EXPECT_TRUE(inlay::test::ok(batcher.submit(texts[arrived])));
      }
    Batch batch;
    std::vector<Request*> written;
    for (const Batcher::Part& part : batcher.next())
      if (part.has_logits) written.push_back(part.request);
    EXPECT_TRUE(inlay::test::ok(batcher.fill(batch)));
    if (batch.size() == 0) {
      if (arrived == asked.size()) break;
      continue;
    }
    const Status passed = engine.forward(batch, 0);
    EXPECT_TRUE(inlay::test::ok(passed));
    if (!passed.ok()) break;
    batcher.computed();
    std::vector<const Sequence*> sequences, swapped;
    for (const Request& text : texts) sequences.push_back(&text.sequence), swapped.push_back(&text.swapped);
    EXPECT_TRUE(inlay::test::ok(engine.blocks().audit(sequences)));
    if (engine.swap_space() != nullptr) {
      EXPECT_TRUE(inlay::test::ok(engine.swap_space()->blocks().audit(swapped)));
    }
    counts.copies += batch.views().copies.extents[0];
    EXPECT_EQ(batch.logit_rows(), static_cast<index>(written.size()));
    for (std::size_t row = 0; row < written.size(); ++row) {
      const auto logits = engine.logits(static_cast<index>(row), 1);
      EXPECT_TRUE(logits.has_value());
      const float* const values = logits->template as<float>();
      const auto advance = [&](Request& text) {
        const auto rank = static_cast<std::size_t>(text.rank);
        text.known.push_back(next_token(asked[rank], rows[rank].size(), values, vocab));
        rows[rank].emplace_back(values, values + vocab);
        if (static_cast<index>(text.known.size()) > text.most) batcher.remove(text);
      };
      // Those that fork from it have the same logits.
      const auto first = static_cast<std::size_t>(written[row]->rank);
      std::size_t end = first + 1;
      if (rows[first].empty())
        for (; end < asked.size() && asked[end].choice > 0; ++end) batcher.fork(*written[row], texts[end]);
      for (std::size_t each = first; each < end; ++each) advance(texts[each]);
    }
  }
  EXPECT_EQ(batcher.running() + batcher.waiting(), 0);
  EXPECT_EQ(engine.blocks().free_blocks(), engine.blocks().shape().blocks);
  if (const SwapSpace* const space = engine.swap_space()) {
    EXPECT_EQ(space->blocks().free_blocks(), space->blocks().shape().blocks);
  }
  counts.preemptions += batcher.preemptions();
  counts.swaps += batcher.swaps();
  counts.reused += batcher.reused();
  return rows;
}

}  // namespace inlay::exec::test
