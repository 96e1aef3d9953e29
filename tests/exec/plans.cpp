// Passes that are captured once and replayed: the bits of passes that are not, whatever is in the batch, and no memory
// asked for. A capture writes nothing; what a pass does not bring is not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <inlay/exec/buckets.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/plan_cache.hpp>
#include <inlay/exec/plan/recorder.hpp>

#include "tests/exec/support/as_eager.hpp"
#include "tests/support/growth.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

TEST(plans, replay_is_eager_bit_for_bit_on_every_level_of_the_cpu) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)));
    const auto run = [&] { return Eager(Cpu(isa, inlay::test::handed_out(3))); };
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(windowed(), "f32", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(tiny(), "w4a16", run, Activations::int8));
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(tiny_mixture(), "f16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(tiny_mixture(), "w4a16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(test::tiny_latent(48, true), "w4a16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_eager(windowed(), "w4a16", run, Activations::exact, 5, DType::i8));
  }
}

TEST(plans, replay_is_eager_bit_for_bit_on_the_reference) {
  const auto run = [] { return Eager(Reference{}); };
  expect_as_eager(windowed(), "f32", run);
  expect_as_eager(tiny_mixture(), "w4a16", run);
  expect_as_eager(test::tiny_latent(48, true), "f16", run);
  expect_as_eager(windowed(), "f32", run, Activations::exact, 5, DType::i8);
}

#ifdef INLAY_HAS_NPU
TEST(plans, replay_is_eager_bit_for_bit_on_the_npu) {
  const auto run = [] { return Eager(std::move(*Npu::make({.device = "hexagon-htp-like"})), Cpu{}); };
  expect_as_eager(tiny(), "w4a16", run, Activations::exact, 16);
  expect_as_eager(tiny(), "w4a16", run, Activations::exact, 16, DType::i8);
  expect_as_eager(tiny_mixture(), "f16", run, Activations::exact, 16);
}

// What reads no list is replayed there, too.
TEST(plans, the_npu_replays_linears) {
  Chain chain(std::move(*Npu::make({.device = "hexagon-htp-like"})), Cpu(serial()));
  std::vector<float> x(32), weight(16 * 32), y(16), expected(16);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3, x[i % 32] = weight[i];
  Linear<Host> op{.x = View<2>(x.data(), {1, 32}),
                  .weight_rows = View<2>(weight.data(), {16, 32}),
                  .y = View<2>(expected.data(), {1, 16})};
  chain(op);
  ASSERT_TRUE(ok(chain.take_status()));
  op.y.data = y.data();
  Recorder record(chain, {});
  record(op);
  EXPECT_EQ(record.eager_steps(), 0u);
  const auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value()) << tape.error().message();
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(y, expected);
  EXPECT_NE(y[0], 0);
}
#endif

// An engine that writes one text.
struct Writer {
  explicit Writer(Plans plans, index context = 96, index block_size = 5)
      : made(engine(tiny(), "f32", Eager(Cpu(inlay::test::handed_out(2))),
                    {.max_tokens = 16,
                     .context = context,
                     .cache = cache_shape(tiny(), DType::f16, block_size, 96),
                     .plans = plans})) {
    EXPECT_TRUE(ok(made->reserve_logits(1)));
  }
  Status decode(Token token) {
    batch.clear();
    if (Status status = batch.add_generated(made->blocks(), text, {&token, 1}); !status.ok()) return status;
    Status status = made->forward(batch, 0);
    text.length += status.ok();
    return status;
  }
  std::vector<float> logits() {
    const auto row = made->logits(0, 1);
    return {row->as<float>(), row->as<float>() + row->size()};
  }
  const PlanCache::Counts& counts() const { return made->plan_counts(); }

  std::unique_ptr<Engine> made;
  Sequence text;
  Batch batch;
};

TEST(plans, a_replay_takes_no_memory) {
  for (const Plans plans : {Plans::decode, Plans::piecewise}) {
    Writer text(plans);
    for (Token token = 1; token <= 82; ++token) ASSERT_TRUE(ok(text.decode(token)));  // 17 blocks: the width is 32
    const index captured = text.counts().captured;
    text.batch.clear();
    const Token token = 83;
    ASSERT_TRUE(ok(text.batch.add_generated(text.made->blocks(), text.text, {&token, 1})));
    const inlay::test::Growth growth;
    ASSERT_TRUE(ok(text.made->forward(text.batch, 0)));
    EXPECT_EQ(growth.allocations(), 0u);
    EXPECT_EQ(text.counts().captured, captured);
  }
}

// One plan serves until a text has twice the blocks: of 1, 2, 3 and 4, of 5 to 8, ..
TEST(plans, tables_are_captured_at_powers_of_two) {
  Writer text(Plans::decode), eager(Plans::off);
  for (Token token = 1; token <= 95; ++token) {
    ASSERT_TRUE(ok(text.decode(token)));
    ASSERT_TRUE(ok(eager.decode(token)));
    ASSERT_EQ(text.logits(), eager.logits()) << token;
  }
  EXPECT_EQ(text.counts().captured, 6);  // 1, 2, 4, 8, 16 and 32 blocks
  EXPECT_EQ(text.counts().replayed, 89);
}

// Attention runs between pieces: they know neither how deep a text is nor which tokens are generated.
TEST(plans, pieces_serve_all_passes_of_so_many_tokens) {
  Writer text(Plans::piecewise), eager(Plans::off);
  for (Token token = 1; token <= 80; ++token) {
    ASSERT_TRUE(ok(text.decode(token)));
    ASSERT_TRUE(ok(eager.decode(token)));
    ASSERT_EQ(text.logits(), eager.logits()) << token;
  }
  EXPECT_EQ(text.counts().captured, 1);
  EXPECT_EQ(text.counts().replayed, 79);
  EXPECT_EQ(text.counts().pieces, pieces_of(tiny().layers));
  // A prompt of four tokens; one of two beside two that are generated; one of three beside one.
  std::vector<float> expected[3];
  for (Writer* each : {&eager, &text}) {
    Sequence prompts[3];
    for (const index generated : {0, 2, 1}) {
      each->batch.clear();
      const auto written = tokens(generated, 101), read = tokens(4 - generated, 101);
      if (generated > 0) {
        ASSERT_TRUE(ok(each->batch.add_generated(each->made->blocks(), each->text, written, 0)));
      }
      ASSERT_TRUE(ok(each->batch.add_prompt(each->made->blocks(), prompts[generated], read, 1)));
      ASSERT_TRUE(ok(each->made->forward(each->batch, 0)));
      each->text.length += generated;
      if (each == &eager) expected[generated] = each->logits();
      EXPECT_EQ(each->logits(), expected[generated]) << generated;
    }
  }
  EXPECT_EQ(text.counts().captured, 2);
}

TEST(plans, memory_that_moves_ends_what_was_captured) {
  for (const Plans plans : {Plans::decode, Plans::piecewise}) {
    Writer text(plans, 96, 16), eager(Plans::off, 96, 16);
    const auto expect_captures = [&](index captured) {
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(ok(text.decode(7)));
        ASSERT_TRUE(ok(eager.decode(7)));
        EXPECT_EQ(text.logits(), eager.logits());
      }
      EXPECT_EQ(text.counts().captured, captured);
    };
    expect_captures(1);
    ASSERT_TRUE(ok(text.made->reserve_logits(1)));  // as before: they stay
    expect_captures(1);
    ASSERT_TRUE(ok(text.made->reserve_logits(3)));
    expect_captures(2);
  }
}

// Longer texts than the engine was made for have tables that Params has no room for.
TEST(plans, params_grow_with_the_tables) {
  for (const Plans plans : {Plans::decode, Plans::piecewise}) {
    Writer text(plans, 5), eager(Plans::off, 5);
    for (Token token = 1; token <= 30; ++token) {
      ASSERT_TRUE(ok(text.decode(token)));
      ASSERT_TRUE(ok(eager.decode(token)));
      ASSERT_EQ(text.logits(), eager.logits()) << token;
    }
    EXPECT_EQ(text.counts().captured, 4);
  }
}

TEST(plans, one_of_another_generation_is_refused) {
  Chain chain{Cpu(serial())};
  float from[1] = {3}, to[1] = {5};
  Recorder record(chain, {});
  record(Add<Host>{.a = View<2>(from, {1, 1}), .b = View<2>(from, {1, 1}), .y = View<2>(to, {1, 1})});
  auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value());
  const Plan plan(std::move(*tape), 2);
  const Status stale = plan.replay(3);
  EXPECT_EQ(stale.code(), StatusCode::invalid_argument);
  EXPECT_NE(stale.message().find("generation 2"), std::string_view::npos) << stale.message();
  EXPECT_EQ(to[0], 5);
  ASSERT_TRUE(ok(plan.replay(2)));
  EXPECT_EQ(to[0], 6);
}

TEST(plan_cache, the_plan_used_last_stays) {
  PlanCache cache(Plans::full);
  const auto key = [](index tokens) { return PlanKey{.tokens = tokens}; };
  for (index i = 0; i < 64; ++i) cache.keep(key(i), Plan(Tape(), 0));
  EXPECT_NE(cache.find(key(0), 0), nullptr);
  cache.keep(key(64), Plan(Tape(), 0));
  EXPECT_EQ(cache.size(), PlanCache::most);
  EXPECT_NE(cache.find(key(0), 0), nullptr);
  EXPECT_EQ(cache.find(key(1), 0), nullptr);
  EXPECT_NE(cache.find(key(2), 0), nullptr);
  EXPECT_EQ(cache.find(key(2), 1), nullptr);  // its generation is over
  EXPECT_EQ(cache.size(), PlanCache::most - 1);
}

TEST(plans, passes_differ_by_who_has_logits) {
  std::vector<float> expected[2];
  for (const Plans plans : {Plans::off, Plans::full, Plans::piecewise}) {
    Writer two(plans);
    for (const int with_logits : {0, 1}) {
      two.batch.clear();
      Sequence texts[2];
      for (const int i : {0, 1})
        ASSERT_TRUE(ok(two.batch.add_prompt(two.made->blocks(), texts[i], tokens(3 + i, 101), i == with_logits)));
      ASSERT_TRUE(ok(two.made->forward(two.batch, 0)));
      if (plans == Plans::off) expected[with_logits] = two.logits();
      EXPECT_EQ(two.logits(), expected[with_logits]);
      for (Sequence& text : texts) two.made->blocks().release(text);
    }
  }
  EXPECT_NE(expected[0], expected[1]);
}

// Rows of logits may go anywhere in what was reserved, and be those of some tokens or of the last ones.
TEST(plans, chunks_of_a_prompt_write_rows_of_their_own) {
  const auto prompt = tokens(27, tiny().vocab);
  std::vector<std::vector<float>> expected;
  for (const Plans plans : {Plans::off, Plans::full, Plans::piecewise}) {
    Session text = session(tiny(), "f32", Eager(Cpu(serial())), {.chunk = 8, .plans = plans});
    std::vector<std::vector<float>> got;
    for (int again = 0; again < 2; ++again)
      for (const index rows : {27, 11, 9, 1}) {
        text.reset();
        got.push_back(all(text, text.append(prompt, rows)));
        got.push_back(all(text, text.decode(5)));
      }
    if (plans == Plans::off) expected = got;
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace inlay::exec::test
