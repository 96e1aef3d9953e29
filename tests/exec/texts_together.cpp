// Many texts at once are what each is alone: every logit of every token, bit for bit, whoever shares the passes,
// however prompts are cut, and where a text was preempted and computed a second time.
#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/kv_pool.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/exec/support/many_texts.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::exec {
namespace {

using test::alone, test::asked, test::next_token, test::session, test::together;
using test::Asked, test::Counts, test::Logits, test::tiny, test::tiny_latent, test::tiny_mixture, test::windowed;

// `run()` makes the backend; `small`: slots of a block where the cache is small.
template <class MakeRun>
void expect_as_alone(const ModelConfig& config, const std::string& type, const MakeRun& run,
                     Activations activations = Activations::exact, index small = 5, DType kv_type = DType::f16) {
  Counts counts;
  auto texts = asked(config.vocab, 3);
  Session one = session(config, type, run(), {.kv_type = kv_type, .activations = activations});
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
                                  .cache = cache_shape(config, kv_type, size, blocks * size)};
      auto engine = test::engine(config, type, run(), options);
      const auto got = together(*engine, texts, {.tokens = tokens, .requests = 8}, counts);
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
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name(isa)));
    const auto run = [&] { return Eager(Cpu(isa, inlay::test::handed_out(3))); };
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(windowed(), "f32", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny(), "w4a16", run, Activations::int8));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_mixture(), "f16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_mixture(), "w4a16", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(tiny_latent(24), "f32", run));
    ASSERT_NO_FATAL_FAILURE(expect_as_alone(windowed(), "f32", run, Activations::exact, 5, DType::i8));
  }
}

TEST(texts_together, texts_are_as_alone_on_the_reference) {
  expect_as_alone(tiny(), "f32", [] { return Eager(Reference{}); });
  expect_as_alone(tiny_mixture(), "w4a16", [] { return Eager(Reference{}); });
  expect_as_alone(
      tiny(), "f32", [] { return Eager(Reference{}); }, Activations::exact, 5, DType::i8);
}

#ifdef INLAY_HAS_NPU
TEST(texts_together, texts_are_as_alone_on_the_npu) {
  const auto run = [] { return Eager(std::move(*Npu::make({.device = "hexagon-htp-like"})), Cpu{}); };
  // A tile of its flash attention is whole blocks: its bits depend on their size, and not on who shares a pass.
  for (const DType kv_type : {DType::f16, DType::i8})
    expect_as_alone(tiny(), "w4a16", run, Activations::exact, 16, kv_type);
}

// Linears on the one, attention on the other, and what is copied between blocks before both.
TEST(texts_together, texts_are_as_alone_on_the_cpu_and_the_npu_at_once) {
  for (const char* place : {"", "layers:0-0=npu"})
    expect_as_alone(
        tiny(), "w4a16",
        [&] {
          return SideBySide<Npu>{
              .cpu = Cpu(), .second = std::move(*Npu::make({.device = "hexagon-htp-like"})), .place = place};
        },
        Activations::exact, 16);
}
#endif

#ifdef INLAY_HAS_CL
TEST(texts_together, texts_are_as_alone_on_opencl) {
  const auto there = Cl::make();
  INLAY_NEEDS(there.has_value(), "cl", std::string(there.error().message()));
  for (const DType kv_type : {DType::f16, DType::i8})
    expect_as_alone(
        tiny(), "w4a16", [] { return Eager(std::move(*Cl::make())); }, Activations::exact, 5, kv_type);
}
#endif

}  // namespace
}  // namespace inlay::exec
