// A server that writes asks for no memory, however many texts there are: what a text will need it has when it begins.
#include <inlay/exec/serve/server.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/eager.hpp>
#include <inlay/model/load.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/growth.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec {
namespace {

using inlay::test::ok;

// Thirty-two texts of our model, whose tables are of unequal width; how often the steps behind `warm` ask for memory.
// `change` has a request before it is submitted.
template <class Change> std::vector<std::size_t> allocations(index warm, index steps, Change&& change) {
  auto file = load_model(inlay::test::source_path("models/stories.gguf"));
  EXPECT_TRUE(file.has_value()) << file.error().message();
  auto tokenizer = Tokenizer::make(file->tokenizer);
  const auto shared = std::make_shared<const ModelFile>(std::move(*file));
  auto server = Server::make(shared, Eager(Cpu(inlay::test::handed_out(2))), *tokenizer,
                             {.cache_tokens = 32 * 128, .batch = {.tokens = 256, .requests = 32}});
  EXPECT_TRUE(server.has_value()) << server.error().message();
  for (int i = 0; i < 32; ++i) {
    // Of 5 to 36 tokens, no two of which begin alike.
    TextRequest text{
        .prompt = std::vector<Token>(static_cast<std::size_t>(5 + i), 300 + i), .tokens = 90, .ignore_eos = true};
    change(i, text);
    EXPECT_TRUE(server->submit(std::move(text)).has_value());
  }
  std::vector<std::size_t> counts;
  for (index step = 0; step < warm + steps; ++step) {
    const test::Growth growth;
    EXPECT_TRUE(ok(server->step()));
    if (step < warm) continue;
    counts.push_back(growth.allocations());
    EXPECT_EQ(server->batcher().running(), 32);
  }
  EXPECT_EQ(server->batcher().preemptions(), 0);
  return counts;
}

// Warm: prompts are computed, plans captured. No text comes to 64 tokens, behind which tables are wider.
constexpr index warm = 16, steps = 12;
const std::vector<std::size_t> none(static_cast<std::size_t>(steps), 0);

TEST(server_memory, steps_ask_for_none) {
  EXPECT_EQ(allocations(warm, steps, [](int, TextRequest&) {}), none);
}

TEST(server_memory, nor_where_texts_are_drawn_and_penalised) {
  EXPECT_EQ(allocations(warm, steps,
                        [](int i, TextRequest& text) {
                          text.sampling.temperature = 0.8f;
                          text.sampling.top_k = 20;
                          text.sampling.top_p = 0.9f;
                          text.sampling.repetition_penalty = 1.1f;
                          text.sampling.seed = i;
                        }),
            none);
}

TEST(server_memory, nor_where_logits_are_biased) {
  EXPECT_EQ(allocations(warm, steps,
                        [](int i, TextRequest& text) {
                          text.sampling.temperature = 0.8f;
                          text.sampling.top_p = 0.9f;
                          text.sampling.seed = i;
                          text.biases = {{static_cast<Token>(300 + i), 1.5f}};
                        }),
            none);
}

}  // namespace
}  // namespace inlay::exec
