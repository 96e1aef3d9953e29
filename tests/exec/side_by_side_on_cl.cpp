// The CPU and OpenCL at once: each element has the bits of the device that computed it, whether Cl looks at host memory
// or copies it, and whatever the chunks of a prompt are.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <inlay/core/staging.hpp>
#include <inlay/exec/device/cl_over_host.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/ops/swiglu.hpp>

#include "tests/exec/support/recorded_passes.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::exec::test {

// Cl by itself: operands of a step are copied to memory of its own, and results are copied back.
struct StagedCl {
  using Space = Host;
  static constexpr std::string_view name = "staged cl";
  static constexpr bool groups_experts = true;
  Cl& cl;
};
template <class Op> Status supports(const StagedCl&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(const StagedCl&, const Op&) { return 0; }
template <class Op> Status compute(StagedCl& staged, const Op& op, const Workspace&) {
  return run_from_host(staged.cl, op);
}

namespace {

using inlay::test::ok;

class SideBySideOnCl : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
};

TEST_F(SideBySideOnCl, each_element_has_the_bits_of_its_device) {
  for (const auto& [config, type, kv_type] :
       {std::tuple(tiny(), "w4a16", DType::f16), std::tuple(tiny_mixture(), "f16", DType::i8)}) {
    RecordedPassesFor<ClOverHost, StagedCl> passes(config, type, kv_type);
    Cl own = std::move(*Cl::make());
    StepRunner<StagedCl> staged(StagedCl{own});
    StepRunner cpu{Cpu(serial())};
    const auto contents = [&](auto& on_cl, unsigned every) {  // all steps on cl, or one of so many
      passes.reset();
      unsigned number = 0;
      for (const GraphStep& step : std::as_const(passes.graph()).steps())
        EXPECT_TRUE(ok(number++ % every == 0 ? on_cl.run(step) : cpu.run(step)));
      return passes.contents();
    };
    for (const bool copies : {false, true}) {
      ClOverHost over(std::move(*Cl::make()), copies);
      ASSERT_TRUE(ok(over.share(passes.graph(), [](std::size_t) { return true; })));
      StepRunner runner(std::ref(over));
      for (const unsigned every : {1u, 2u, 3u})
        EXPECT_EQ(contents(runner, every), contents(staged, every))
            << type << ", copies " << copies << ", one of " << every;
    }
  }
}

TEST_F(SideBySideOnCl, what_was_not_shared_is_refused) {
  ClOverHost over(std::move(*Cl::make()));
  std::vector<float> memory(64);
  const View<2> low(memory.data(), {2, 8}), high(memory.data() + 32, {2, 8});
  StepGraph graph;
  GraphRecorder<ClOverHost> record(graph);
  record(Swiglu<Host>{.gate = low, .up = high, .y = low});
  ASSERT_TRUE(ok(record.take_status()));
  StepRunner runner(std::ref(over));
  EXPECT_EQ(runner.run(graph.steps()[0]).message(),
            "gate lies in memory that cl does not know; it must have been shared");
  ASSERT_TRUE(ok(over.share(byte_range(low), ClOverHost::Contents::stay)));
  ASSERT_TRUE(ok(over.share(byte_range(high), ClOverHost::Contents::stay)));
  EXPECT_EQ(runner.run(graph.steps()[0]).message(), "y is written, and lies in memory that was said to stay as it is");
  ASSERT_TRUE(ok(over.share(byte_range(low), ClOverHost::Contents::change)));
  EXPECT_TRUE(ok(runner.run(graph.steps()[0])));
  EXPECT_EQ(over.regions(), 2u);
  ASSERT_TRUE(ok(over.share(byte_range(ConstView<1>(memory.data(), {64})), ClOverHost::Contents::change)));
  EXPECT_EQ(over.regions(), 1u) << "regions that one covers are one";
  EXPECT_TRUE(ok(runner.run(graph.steps()[0])));
  over.forget(byte_range(ConstView<1>(memory.data(), {64})));
  EXPECT_EQ(over.regions(), 0u);
}

Session of_two(const ModelConfig& config, const std::string& type, index chunk, index chunks,
               const std::string& place = {}) {
  return session(
      config, type,
      SideBySide<ClOverHost>{
          .cpu = Cpu(serial()), .second = ClOverHost(std::move(*Cl::make())), .place = place, .chunks = chunks},
      {.chunk = chunk, .block_size = 4});
}

TEST_F(SideBySideOnCl, a_prompt_is_what_it_is_on_the_cpu_in_whatever_chunks) {
  const ModelConfig config = tiny();
  for (const std::string place : {"", "layers:1-1=cl,attention=cpu"}) {
    Session cpu = session(config, "w4a16", Eager(Cpu(serial())), {.chunk = 64, .block_size = 4});
    Session one = of_two(config, "w4a16", 8, 1, place), three = of_two(config, "w4a16", 8, 3, place);
    for (const index length : {15, 16, 17, 33}) {
      const auto prompt = tokens(length, config.vocab);
      std::vector<std::vector<float>> logits, next;
      for (Session* each : {&cpu, &one, &three}) {
        each->reset();
        logits.push_back(all(*each, each->append(prompt, length)));
        next.push_back(all(*each, each->decode(5)));
      }
      EXPECT_LE(distance(logits[1], logits[0]), 2e-5 * magnitude(logits[0])) << place << " " << length;
      EXPECT_LE(distance(next[1], next[0]), 2e-5 * magnitude(next[0])) << place << " " << length;
      EXPECT_EQ(logits[1], logits[2]) << "three chunks at once, " << place << " " << length;
      EXPECT_EQ(next[1], next[2]) << place << " " << length;
    }
    EXPECT_TRUE(three.fallbacks().empty());
  }
}

TEST_F(SideBySideOnCl, another_text_may_come) {
  const ModelConfig config = tiny_mixture();
  Session two = of_two(config, "f16", 8, 2);
  const auto prompt = tokens(21, config.vocab);
  const auto logits = all(two, two.append(prompt, 3));
  two.reset();
  all(two, two.append(tokens(40, config.vocab), 40));  // more logits: they lie elsewhere
  two.reset();
  EXPECT_EQ(all(two, two.append(prompt, 3)), logits);
}

}  // namespace
}  // namespace inlay::exec::test
