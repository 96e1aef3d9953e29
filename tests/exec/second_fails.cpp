// A second device that fails or hangs at any step of a model: a Status that names device, step and operator, no block
// is lost, and the next text is the CPU's.
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "executor/exec/engines/side_by_side.hpp"
#include "tests/exec/support/ranks.hpp"

namespace inlay::exec::test {

// The CPU, but for one of its steps.
struct Faulty {
  struct State {
    index fails_at = -1, hangs_at = -1, step = 0;
    std::string_view op;  // of that step
    std::mutex mutex;
    std::condition_variable changed;
    bool released = false, ended = false;

    void release() {
      const std::lock_guard lock(mutex);
      released = true;
      changed.notify_all();
    }
    Status meet(std::string_view name) {
      const index now = step++;
      if (now == fails_at || now == hangs_at) op = name;
      if (now == fails_at) return {StatusCode::internal, "it was told to fail"};
      if (now != hangs_at) return {};
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return released; });
      return {};
    }
  };

  using Space = Host;
  static constexpr std::string_view name = "faulty";
  static constexpr bool groups_experts = true;

  Cpu cpu = Cpu(serial());
  std::shared_ptr<State> state = std::make_shared<State>();
};
template <class Op> Status supports(const Faulty& faulty, const Op& op) { return supports(faulty.cpu, op); }
template <class Op> std::size_t scratch_bytes(const Faulty& faulty, const Op& op) {
  return scratch_bytes(faulty.cpu, op);
}
template <class Op> Status compute(Faulty& faulty, const Op& op, const Workspace& workspace) {
  if (Status status = faulty.state->meet(Op::name); !status.ok()) return status;
  return compute(faulty.cpu, op, workspace);
}

namespace {

using inlay::test::ok;

constexpr index prompt = 9, generated = 2;

struct Made {
  std::shared_ptr<Faulty::State> state;
  std::unique_ptr<Engine> engine;
};
Made made(const std::string& place, double watchdog_seconds) {
  Faulty faulty;
  Made all{faulty.state, nullptr};
  const ModelConfig config = tiny();
  auto engine = SideBySideEngine<Faulty>::make(
      config, std::move(*random_weights(config, "w4a16", serial(), 7)),
      {.cpu = Cpu(serial()), .second = std::move(faulty), .place = place, .watchdog_seconds = watchdog_seconds},
      {.max_tokens = 16, .context = config.context, .cache = cache_shape(config, DType::f16, 4, config.context)});
  EXPECT_TRUE(engine.has_value()) << engine.error().message();
  all.engine = std::move(*engine);
  return all;
}
std::vector<float> expected() {
  const Made whole = made("all=cpu", 1e9);
  return logits_of(*whole.engine, prompt, generated);
}
void expect_no_block_lost(Engine& engine) {
  EXPECT_TRUE(ok(engine.blocks().audit({})));
  EXPECT_EQ(engine.blocks().free_blocks(), engine.blocks().shape().blocks);
}

TEST(second_fails, a_failure_at_every_step_is_named_and_the_next_text_is_the_cpus) {
  const std::vector<float> bits = expected();
  index steps = 0;
  {
    const Made sound = made("all=faulty", 1e9);
    EXPECT_EQ(logits_of(*sound.engine, prompt, generated), bits);
    steps = sound.state->step;
  }
  ASSERT_GT(steps, 60);
  for (index at = 0; at < steps; ++at) {
    const Made each = made("all=faulty", 1e9);
    each.state->fails_at = at;
    std::vector<float> logits;
    const Status status = add_logits_of(*each.engine, prompt, generated, logits);
    const std::string message(status.message());
    EXPECT_EQ(message.rfind("device faulty, step ", 0), 0u) << at << ": " << message;
    EXPECT_NE(message.find(" (" + std::string(each.state->op) + "): it was told to fail"), std::string::npos)
        << message;
    expect_no_block_lost(*each.engine);
    EXPECT_EQ(logits_of(*each.engine, prompt, generated), bits) << "behind a failure at " << at;
    EXPECT_EQ(each.state->step, at + 1) << "it was asked again";
    ASSERT_EQ(each.engine->fallbacks().size(), 1u);
    EXPECT_EQ(each.engine->fallbacks()[0].op, "every operator");
    expect_no_block_lost(*each.engine);
  }
}

TEST(second_fails, what_hangs_in_a_linear_is_left_behind) {
  const std::vector<float> bits = expected();
  for (const index at : {0, 4, 7, 8, 13}) {
    const Made each = made("linears=faulty", 0.2);
    each.state->hangs_at = at;
    std::vector<float> logits;
    const Status status = add_logits_of(*each.engine, prompt, generated, logits);
    EXPECT_NE(status.message().find("(linear_w4a16): is not done after 200000.000000 us, the device's watchdog"),
              std::string::npos)
        << status.message();
    expect_no_block_lost(*each.engine);
    EXPECT_EQ(logits_of(*each.engine, prompt, generated), bits) << "while step " << at << " hangs";
    each.state->release();
    EXPECT_EQ(logits_of(*each.engine, prompt, generated), bits);
  }
}

// A step that hangs may still write into the cache, and texts wait until it has ended.
TEST(second_fails, what_may_write_into_the_cache_is_waited_for) {
  const std::vector<float> bits = expected();
  const Made each = made("all=faulty", 0.2);
  each.state->hangs_at = 5;
  std::vector<float> logits;
  EXPECT_FALSE(add_logits_of(*each.engine, prompt, generated, logits).ok());
  EXPECT_EQ(add_logits_of(*each.engine, prompt, generated, logits).message(),
            "device faulty is lost: a step of an earlier run is still under way");
  expect_no_block_lost(*each.engine);
  each.state->release();
  Status status;
  do {
    logits.clear();
    status = add_logits_of(*each.engine, prompt, generated, logits);
  } while (!status.ok());
  EXPECT_EQ(logits, bits);
}

}  // namespace
}  // namespace inlay::exec::test
