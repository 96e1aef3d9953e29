// Layers that differ: each runs with its own window, its own theta and its own width.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/tensors.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

// Three layers of which no two are alike; the first and the last share a rope.
ModelConfig uneven() {
  ModelConfig config = tiny();
  config.layers = 3;
  config.ropes = {config.ropes[0], config.ropes[0]};
  config.ropes[0].theta = 1e6, config.ropes[1].theta = 1e4;
  config.set_layers({{.hidden = 80, .window = 0, .rope = 0},
                     {.hidden = 48, .window = 5, .rope = 1},
                     {.hidden = 33, .window = 9, .rope = 0}});
  return config;
}

// What the operators of each layer were given.
struct Seen {
  std::vector<index> windows, widths;
  std::vector<double> second_frequencies;  // of each table
  std::vector<const void*> tables, turned;

  template <class Op> void operator()(const Op& op) {
    if constexpr (std::is_same_v<Op, FlashAttention<Host>> || std::is_same_v<Op, PagedAttention<Host>>)
      windows.push_back(op.window_left);
    if constexpr (std::is_same_v<Op, Swiglu<Host>>) widths.push_back(op.y.extents[1]);
    if constexpr (std::is_same_v<Op, RopeTable<Host>>) {
      second_frequencies.push_back(static_cast<double>(op.inv_freq.template as<float>()[1]));
      tables.push_back(op.cos.data);
    }
    if constexpr (std::is_same_v<Op, Rope<Host>>) turned.push_back(op.cos.data);
  }
};

TEST(layers, each_runs_with_its_own_facts) {
  const ModelConfig config = uneven();
  ASSERT_EQ(config.per_layer.size(), 3u);
  EXPECT_EQ(config.hidden, 80);
  EXPECT_EQ(config.sliding_window, 9);
  auto weights = random_weights(config, "f32", serial(), 7);
  ASSERT_TRUE(weights.has_value()) << weights.error().message();
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(*weights), 16, tensors);
  ASSERT_TRUE(decoder.has_value()) << decoder.error().message();
  auto pool = KvPool<>::make({.layers = 3, .kv_heads = 2, .head_dim = 12, .block_size = 16, .blocks = 4}, tensors);
  ASSERT_TRUE(pool.has_value());
  for (const bool generated : {false, true}) {
    Sequence sequence;
    Batch batch;
    ASSERT_TRUE(ok(generated ? batch.add_generated(*pool, sequence, tokens(1, config.vocab))
                             : batch.add_prompt(*pool, sequence, tokens(4, config.vocab))));
    std::vector<float> logits(static_cast<std::size_t>(config.vocab));
    Seen seen;
    decoder->forward(seen, *pool, batch.views(), View<2>(logits.data(), {1, config.vocab}));
    EXPECT_EQ(seen.windows, (std::vector<index>{-1, 4, 8}));
    EXPECT_EQ(seen.widths, (std::vector<index>{80, 48, 33}));
    // theta^(-2 / 12), one table for each theta; q and k of a layer turn by the same.
    ASSERT_EQ(seen.second_frequencies.size(), 2u);
    EXPECT_NEAR(seen.second_frequencies[0], 0.1, 1e-6);
    EXPECT_NEAR(seen.second_frequencies[1], std::pow(1e4, -1.0 / 6), 1e-6);
    const void *a = seen.tables[0], *b = seen.tables[1];
    EXPECT_NE(a, b);
    EXPECT_EQ(seen.turned, (std::vector<const void*>{a, a, b, b, a, a}));
    pool->release(sequence);
  }
}

TEST(layers, every_backend_runs_them) {
  const ModelConfig config = uneven();
  const auto prompt = tokens(21, config.vocab);
  Session reference = session(config, "f32", Eager(Reference{}), {.kv_type = DType::f32});
  const auto expected = all(reference, reference.append(prompt, 21)), next = all(reference, reference.decode(5));
  for (const Cpu& cpu : cpus()) {
    SCOPED_TRACE(inlay::test::name(cpu));
    Session fast = session(config, "f32", Eager(cpu), {.chunk = 8, .kv_type = DType::f32});
    EXPECT_LE(distance(all(fast, fast.append(prompt, 21)), expected), 2e-5 * magnitude(expected));
    EXPECT_LE(distance(all(fast, fast.decode(5)), next), 2e-5 * magnitude(next));
  }
}

// The long way of saying that all layers are alike.
TEST(layers, alike_ones_are_the_whole_models) {
  ModelConfig whole = tiny();
  whole.sliding_window = 5;
  ModelConfig each = tiny();
  each.per_layer.assign(2, {.hidden = whole.hidden, .window = 5, .rope = 0});
  const auto prompt = tokens(21, whole.vocab);
  Session one = session(whole, "f32", Eager(Cpu()), {}), other = session(each, "f32", Eager(Cpu()), {});
  EXPECT_EQ(all(one, one.append(prompt, 21)), all(other, other.append(prompt, 21)));
  each.set_layers(each.per_layer);
  EXPECT_TRUE(each.per_layer.empty());
  EXPECT_EQ(each.sliding_window, 5);
}

}  // namespace
}  // namespace inlay::exec::test
