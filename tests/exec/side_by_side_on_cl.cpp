// The CPU and OpenCL at once: each element has the bits of the device that computed it, whether Cl looks at host memory
// or copies it, and whatever the chunks of a prompt are.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/staging.hpp>
#include <inlay/exec/device/cl_over_host.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/ops/swiglu.hpp>

#include "tests/exec/support/cut_passes.hpp"
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

// Linears of both devices, cut in every way there is, at the same time.
TEST_F(SideBySideOnCl, each_element_of_a_cut_linear_has_the_bits_of_its_device) {
  ModelConfig biased = tiny();
  biased.qkv_bias = true;
  for (const auto& [config, type, words] :
       {std::tuple(biased, "w4a16", "rows:0.4"), std::tuple(tiny(), "f16", "sequence:0.3"),
        std::tuple(biased, "int8", "multi-sequence:0.8"), std::tuple(tiny(), "w4a16", "hybrid")}) {
    SCOPED_TRACE(std::string(type) + " " + words);
    RecordedPassesFor<ClOverHost, StagedCl> passes(config, type, DType::f16);
    Cl own = std::move(*Cl::make());
    StepRunner<StagedCl> staged(StagedCl{own});
    StepRunner cpu{Cpu(serial())};
    CutPasses cut(passes, words);
    ASSERT_GE(cut.cuts(), 12);
    const auto bits = cut.expected(cpu, staged);
    ASSERT_TRUE(ok(cut.rewrite()));
    const Edges edges = Edges::of(passes.graph().accesses());
    cut.expect_parts_side_by_side(edges);
    for (const bool copies : {false, true}) {
      ClOverHost over(std::move(*Cl::make()), copies);
      ASSERT_TRUE(ok(over.share(passes.graph(), [](std::size_t) { return true; })));
      StepRunner runner(std::ref(over));
      CpuDevice first({.name = "cpu"}, computed_by(Cpu(serial()))),
          second({.name = "cl"}, [&](const GraphStep&step) { return runner.run(step); });
      Device* const devices[] = {&first, &second};
      DeviceThreads threads(devices);
      DeviceTimeline timeline;
      passes.reset();
      ASSERT_TRUE(
          ok(run_steps({.graph = passes.graph(), .edges = edges, .devices = devices, .placement = cut.placement()},
                       threads, timeline)));
      EXPECT_EQ(passes.contents(), bits) << "copies " << copies;
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
               const std::string& place = {}, const std::string& split = {}, std::optional<DeviceList> devices = {}) {
  return session(config, type,
                 SideBySide<ClOverHost>{.cpu = Cpu(serial()),
                                        .second = ClOverHost(std::move(*Cl::make())),
                                        .place = place,
                                        .split = split,
                                        .devices = std::move(devices),
                                        .chunks = chunks},
                 {.chunk = chunk, .block_size = 4});
}

// What each session makes of a prompt, and of a token behind it.
struct Written {
  std::vector<std::vector<float>> logits, next;
};
Written written(std::initializer_list<Session*> sessions, const std::vector<std::int32_t>& prompt) {
  Written result;
  for (Session* each : sessions) {
    each->reset();
    result.logits.push_back(all(*each, each->append(prompt, std::ssize(prompt))));
    result.next.push_back(all(*each, each->decode(5)));
  }
  return result;
}

TEST_F(SideBySideOnCl, a_prompt_is_what_it_is_on_the_cpu_in_whatever_chunks) {
  const ModelConfig config = tiny();
  for (const std::string place : {"", "layers:1-1=cl,attention=cpu"}) {
    Session cpu = session(config, "w4a16", Eager(Cpu(serial())), {.chunk = 64, .block_size = 4});
    Session one = of_two(config, "w4a16", 8, 1, place), three = of_two(config, "w4a16", 8, 3, place);
    for (const index length : {15, 16, 17, 33}) {
      const auto prompt = tokens(length, config.vocab);
      const auto [logits, next] = written({&cpu, &one, &three}, prompt);
      EXPECT_LE(distance(logits[1], logits[0]), 2e-5 * magnitude(logits[0])) << place << " " << length;
      EXPECT_LE(distance(next[1], next[0]), 2e-5 * magnitude(next[0])) << place << " " << length;
      EXPECT_EQ(logits[1], logits[2]) << "three chunks at once, " << place << " " << length;
      EXPECT_EQ(next[1], next[2]) << place << " " << length;
    }
    EXPECT_TRUE(three.fallbacks().empty());
  }
}

// Lengths about a multiple of the chunk, with a layer whose window ends within a chunk, cut in every way.
TEST_F(SideBySideOnCl, cuts_and_windows_are_the_whole_prompts) {
  const ModelConfig config = windowed();
  for (const std::string split : {"none", "rows", "sequence", "multi-sequence", "hybrid:0.3"}) {
    Session cpu = session(config, "w4a16", Eager(Cpu(serial())), {.chunk = 64, .block_size = 4});
    Session whole = of_two(config, "w4a16", 64, 1, "", split), chunks = of_two(config, "w4a16", 8, 3, "", split);
    for (const index length : {7, 8, 9, 23, 24, 25}) {
      const auto prompt = tokens(length, config.vocab);
      const auto [logits, next] = written({&cpu, &whole, &chunks}, prompt);
      EXPECT_LE(distance(logits[1], logits[0]), 2e-5 * magnitude(logits[0])) << split << " " << length;
      EXPECT_LE(distance(logits[2], logits[0]), 2e-5 * magnitude(logits[0])) << split << " " << length;
      EXPECT_LE(distance(next[2], next[0]), 2e-5 * magnitude(next[0])) << split << " " << length;
      if (split == "none" || split == "rows") {  // a token's device does not depend on the chunk
        EXPECT_EQ(logits[2], logits[1]) << split << " " << length;
        EXPECT_EQ(next[2], next[1]) << split << " " << length;
      }
    }
  }
}

// Both devices take as long for a linear, by tokens: a solver halves prompts, and leaves a token to the CPU.
TEST_F(SideBySideOnCl, a_solver_cuts_what_is_worth_it) {
  const ModelConfig config = tiny();
  RecordedPassesFor<ClOverHost> passes(config, "w4a16", DType::f16, {{{0, 16, true}}});
  DeviceList list{.devices = {}, .sync_us = 1};
  for (const char* name : {"cpu", "cl"}) {
    Profile profile(name);
    for (const GraphStep& step : std::as_const(passes.graph()).steps()) {
      if (!step.has_parts()) continue;
      for (const index tokens : {index{1}, index{16}})
        profile.add(step.part({.tokens = std::min(tokens, step.rows), .channels = step.width}),
                    10.0 * static_cast<double>(std::min(tokens, step.rows)));
    }
    list.devices.push_back({.name = name, .profile = std::move(profile)});
  }
  Session solved = of_two(config, "w4a16", 64, 1, "", "", list),
          halves = of_two(config, "w4a16", 64, 1, "", "sequence:0.5"),
          cpu = session(config, "w4a16", Eager(Cpu(serial())), {.chunk = 64, .block_size = 4});
  const auto prompt = tokens(16, config.vocab);
  const auto logits = all(solved, solved.append(prompt, 16));
  EXPECT_EQ(logits, all(halves, halves.append(prompt, 16)));
  EXPECT_NE(logits, all(cpu, cpu.append(prompt, 16))) << "the halves have the same bits: nothing is shown";
  list.sync_us = 1000;
  Session declined = of_two(config, "w4a16", 64, 1, "", "", list);
  EXPECT_EQ(all(declined, declined.append(prompt, 16)), all(cpu, (cpu.reset(), cpu.append(prompt, 16))));
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
