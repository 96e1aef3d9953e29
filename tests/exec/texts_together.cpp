// Many texts at once are what each is alone: every logit of every token, bit for bit, whoever shares the passes,
// however prompts are cut, and where a text was preempted and computed a second time.
#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/serve/batcher.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::exec {
namespace {

using inlay::test::ok;
using test::all, test::session, test::tiny, test::tiny_latent, test::tiny_mixture;

struct Asked {
  std::vector<Token> prompt;
  index tokens;
  index arrives;     // in this step
  index choice = 0;  // above 0: it forks from the text before it, and its first token is another one
};

std::vector<Asked> asked(index vocab, unsigned seed) {
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

Token largest(const float* logits, index vocab) {
  return static_cast<Token>(std::max_element(logits, logits + vocab) - logits);
}
// What the text writes behind so many tokens: the largest; as the first one that of rank `choice`.
Token next_token(const Asked& text, std::size_t written, const float* logits, index vocab) {
  if (written > 0) return largest(logits, vocab);
  std::vector<Token> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });
  return order[static_cast<std::size_t>(text.choice)];
}

using Logits = std::vector<std::vector<float>>;  // of each token that is written

Logits alone(Session& session, const Asked& text) {
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
  index preemptions = 0, reused = 0, copies = 0;
};

// The same by passes that all share.
template <class Run>
std::vector<Logits> together(const ModelConfig& config, const std::string& type, Run run,
                             const std::vector<Asked>& asked, const EngineOptions& options,
                             const Batcher::Options& batching, Counts& counts) {
  auto weights = random_weights(config, type, serial(), 7);
  EXPECT_TRUE(weights.has_value());
  auto engine = make_engine(config, std::move(*weights), std::move(run), options);
  EXPECT_TRUE(engine.has_value()) << engine.error().message();
  EXPECT_TRUE(ok((*engine)->reserve_logits(batching.requests)));
  Batcher batcher((*engine)->blocks(), batching);
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
        EXPECT_TRUE(ok(batcher.submit(texts[arrived])));
      }
    Batch batch;
    std::vector<Request*> written;
    for (const Batcher::Part& part : batcher.next())
      if (part.has_logits) written.push_back(part.request);
    EXPECT_TRUE(ok(batcher.fill(batch)));
    if (batch.size() == 0) {
      if (arrived == asked.size()) break;
      continue;
    }
    const Status passed = (*engine)->forward(batch, 0);
    EXPECT_TRUE(ok(passed));
    if (!passed.ok()) break;
    batcher.computed();
    counts.copies += batch.views().copies.extents[0];
    EXPECT_EQ(batch.logit_rows(), static_cast<index>(written.size()));
    for (std::size_t row = 0; row < written.size(); ++row) {
      const auto logits = (*engine)->logits(static_cast<index>(row), 1);
      EXPECT_TRUE(logits.has_value());
      const float* const values = logits->template as<float>();
      const auto advance = [&](Request& text) {
        const auto rank = static_cast<std::size_t>(text.rank);
        text.known.push_back(next_token(asked[rank], rows[rank].size(), values, config.vocab));
        rows[rank].emplace_back(values, values + config.vocab);
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
  EXPECT_EQ((*engine)->blocks().free_blocks(), options.cache.blocks);
  counts.preemptions += batcher.preemptions();
  counts.reused += batcher.reused();
  return rows;
}

// `run()` makes the backend; `small`: slots of a block where the cache is small.
void expect_as_alone(const ModelConfig& config, const std::string& type, const std::function<Eager()>& run,
                     Activations activations = Activations::exact, index small = 5) {
  Counts counts;
  auto texts = asked(config.vocab, 3);
  Session one = session(config, type, run(), {.kv_type = DType::f16, .activations = activations});
  std::vector<Logits> expected;
  for (const Asked& each : texts) expected.push_back(alone(one, each));
  // Who asks on with what was answered, while it lies in the cache: as a prompt it has other bits.
  for (std::size_t i = 0; i < 4; ++i) {
    Asked next = texts[i];
    next.choice = 0;
    for (std::size_t written = 0; written < expected[i].size() && next.prompt.size() < 45; ++written)
      next.prompt.push_back(next_token(texts[i], written, expected[i][written].data(), config.vocab));
    next.tokens = 20;
    expected.push_back(alone(one, next));
    texts.push_back(std::move(next));
  }
  // Room for all, and so little that they are preempted; passes that hold whole prompts, and small ones.
  for (const auto& [blocks, size] : {std::pair<index, index>{200, 16}, {80 / small + 1, small}})
    for (const index tokens : {96, 11}) {
      SCOPED_TRACE("blocks " + std::to_string(blocks) + " of " + std::to_string(size) + ", passes of " +
                   std::to_string(tokens));
      const EngineOptions options{.max_tokens = tokens,
                                  .context = config.context,
                                  .activations = activations,
                                  .cache = cache_shape(config, DType::f16, size, blocks * size)};
      const auto got = together(config, type, run(), texts, options, {.tokens = tokens, .requests = 8}, counts);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        ASSERT_EQ(got[i].size(), expected[i].size()) << "text " << i;
        for (std::size_t token = 0; token < got[i].size(); ++token)
          ASSERT_EQ(got[i][token], expected[i][token]) << "text " << i << ", token " << token;
      }
    }
  EXPECT_GE(counts.preemptions, 3);
  EXPECT_GE(counts.reused, 80);
  EXPECT_GE(counts.copies, 12);
}

TEST(texts_together, texts_are_as_alone_on_every_level_of_the_cpu) {
  ModelConfig windowed = tiny();
  windowed.set_layers({{.hidden = 80}, {.hidden = 80, .window = 9}});
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)));
    const auto run = [&] { return Eager(Cpu(isa, inlay::test::handed_out(3))); };
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(windowed, "f32", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny(), "w4a16", run, Activations::int8));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_mixture(), "f16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_mixture(), "w4a16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_latent(24), "f32", run));
  }
}

TEST(texts_together, texts_are_as_alone_on_the_reference) {
  expect_as_alone(tiny(), "f32", [] { return Eager(Reference{}); });
  expect_as_alone(tiny_mixture(), "w4a16", [] { return Eager(Reference{}); });
}

#ifdef INLAY_HAS_NPU
TEST(texts_together, texts_are_as_alone_on_the_npu) {
  const auto run = [] { return Eager(std::move(*Npu::make({.device = "hexagon-htp-like"})), Cpu{}); };
  // A tile of its flash attention is whole blocks: its bits depend on their size, and not on who shares a pass.
  expect_as_alone(tiny(), "w4a16", run, Activations::exact, 16);
}
#endif

#ifdef INLAY_HAS_CL
TEST(texts_together, texts_are_as_alone_on_opencl) {
  const auto there = Cl::make();
  INLAY_NEEDS(there.has_value(), "cl", std::string(there.error().message()));
  expect_as_alone(tiny(), "w4a16", [] { return Eager(std::move(*Cl::make())); });
}
#endif

}  // namespace
}  // namespace inlay::exec
