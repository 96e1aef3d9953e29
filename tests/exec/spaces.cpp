// Models on backends with memory of their own, and on chains of backends of which one declines operators: the same
// logits, weights brought once, logits brought back only where they are asked for.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/exec/engine_on.hpp>
#include <inlay/ops/add.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/handed_out.hpp"
#include "tests/support/test_space.hpp"

namespace inlay::exec::test {

// A device that declines what it is told to, and counts what crosses its border.
class Picky : public inlay::test::TestDevice {
 public:
  static constexpr std::string_view name = "picky";

  std::set<std::string_view> declined;
  std::size_t uploaded = 0, downloaded = 0;

  Status upload(inlay::test::TestPointer to, std::span<const std::byte> from) {
    uploaded += from.size();
    return TestDevice::upload(to, from);
  }
  Status download(std::span<std::byte> to, inlay::test::ConstTestPointer from) {
    downloaded += to.size();
    return TestDevice::download(to, from);
  }
};

// The same in host memory: its kernels are the reference.
struct PickyHost {
  using Space = Host;
  static constexpr std::string_view name = "picky host";
  std::set<std::string_view> declined;
};

template <class Backend, class Op> Status picky(const Backend& backend, const Op&) {
  if (!backend.declined.contains(Op::name)) return {};
  return unsupported(std::string(Op::name) + " is not to its taste");
}
template <class Op> Status supports(const Picky& backend, const Op& op) { return picky(backend, op); }
template <class Op> Status supports(const PickyHost& backend, const Op& op) { return picky(backend, op); }
template <class Op> std::size_t scratch_bytes(const PickyHost&, const Op&) { return 0; }
template <class Op> Status compute(const PickyHost&, const Op& op, Workspace) { return reference::compute(op); }

namespace {

using inlay::test::ok, inlay::test::TestDevice;

const std::set<std::string_view> everything = {"rope_table",      "embedding",       "rms_norm", "linear",
                                               "linear_int8",     "linear_w4a16",    "rope",     "reshape_and_cache",
                                               "flash_attention", "paged_attention", "swiglu",   "sampling"};

// A prompt in chunks, then some tokens: all logits on the way.
std::vector<float> story(Session session) {
  const auto prompt = tokens(21, session.config().vocab);
  std::vector<float> logits = all(session, session.append(prompt, 21));
  for (const Token token : {5, 17, 3}) {
    const auto next = all(session, session.decode(token));
    logits.insert(logits.end(), next.begin(), next.end());
  }
  return logits;
}

constexpr Session::Options options{.chunk = 8, .kv_type = DType::f32, .block_size = 5};
constexpr Session::Options of_int8_cache{.chunk = 8, .kv_type = DType::i8, .block_size = 5};

ModelConfig with_everything() {
  ModelConfig config = tiny();
  config.qkv_bias = true;
  config.qk_norm = QkNorm::head;
  config.sliding_window = 5;
  return config;
}

TEST(spaces, a_device_gives_the_bits_of_the_backend_that_it_imitates) {
  for (const ModelConfig& config : {tiny(), with_everything(), tiny_mixture()})
    for (const char* type : {"f32", "f16", "int8", "w4a16"}) {
      SCOPED_TRACE(type);
      const auto expected = story(session(config, type, Eager(Reference()), options));
      TestDevice device;
      EXPECT_EQ(story(session(config, type, Chain(std::ref(device)), options)), expected);
    }
  TestDevice device;
  EXPECT_EQ(story(session(with_everything(), "f32", Chain(std::ref(device)), of_int8_cache)),
            story(session(with_everything(), "f32", Eager(Reference()), of_int8_cache)));
}

TEST(spaces, declined_operators_run_on_the_next_backend) {
  const ModelConfig config = with_everything();
  for (const auto& [type, of_cache] :
       {std::pair("f32", options), std::pair("w4a16", options), std::pair("f32", of_int8_cache)}) {
    const auto expected = story(session(config, type, Eager(Reference()), of_cache));
    for (const auto& declined : {std::set<std::string_view>{"rope"},
                                 {"flash_attention", "paged_attention"},
                                 {"reshape_and_cache"},
                                 {"rms_norm", "swiglu"},
                                 everything}) {
      SCOPED_TRACE(*declined.begin());
      Picky device;
      device.declined = declined;
      EXPECT_EQ(story(session(config, type, Chain(std::ref(device), Reference()), of_cache)), expected);
    }
  }
}

TEST(spaces, a_device_that_declines_everything_gives_the_bits_of_its_fallback) {
  const ModelConfig config = with_everything();
  Picky device;
  device.declined = everything;
  const Cpu cpu(inlay::test::handed_out(2));
  EXPECT_EQ(story(session(config, "f16", Chain(std::ref(device), cpu), options)),
            story(session(config, "f16", Eager(cpu), options)));
}

TEST(spaces, backends_of_one_memory_need_no_copies) {
  const ModelConfig config = tiny();
  const PickyHost host{{"linear", "rope"}};
  EXPECT_EQ(story(session(config, "f32", Chain(host, Reference()), options)),
            story(session(config, "f32", Eager(Reference()), options)));
}

TEST(spaces, a_fallback_is_told_once) {
  const ModelConfig config = tiny();
  Picky device;
  device.declined = {"rope", "swiglu"};
  Session made = session(config, "f32", Chain(std::ref(device), PickyHost{{"swiglu"}}, Reference()), options);
  EXPECT_TRUE(made.fallbacks().empty());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ok(made.append(tokens(4, config.vocab))));
  std::vector<std::string> told;
  for (const Fallback& f : made.fallbacks())
    told.push_back(std::string(f.op) + ", " + std::string(f.from) + " to " + std::string(f.to) + ": " + f.reason);
  EXPECT_EQ(told, (std::vector<std::string>{"rope, picky to picky host: rope is not to its taste",
                                            "swiglu, picky to picky host: swiglu is not to its taste",
                                            "swiglu, picky host to reference: swiglu is not to its taste"}));
}

TEST(spaces, weights_are_brought_once_and_logits_stay) {
  const ModelConfig config = tiny();
  Picky device;
  Session made = session(config, "f32", Chain(std::ref(device)), options);
  EXPECT_GE(device.uploaded, made.linear_bytes());
  EXPECT_EQ(device.downloaded, 0u);
  ASSERT_TRUE(ok(made.append(tokens(8, config.vocab))));
  device.uploaded = 0;
  for (int i = 0; i < 4; ++i) {
    const auto token = made.sample({.logits = {}, .tokens = {}, .temperature = 0});
    ASSERT_TRUE(token.has_value()) << token.error().message();
    ASSERT_TRUE(ok(made.decode(*token)));
  }
  EXPECT_LT(device.uploaded, 4 * 100u);  // a token, its place and its blocks
  EXPECT_EQ(device.downloaded, 4 * sizeof(Token));
  (void)made.logits();
  EXPECT_EQ(device.downloaded, 4 * sizeof(Token) + static_cast<std::size_t>(config.vocab) * sizeof(float));
}

TEST(spaces, drawing_needs_logits_and_gives_no_probabilities) {
  const ModelConfig config = tiny();
  Session made = session(config, "f32", Eager(Reference()), options);
  const auto early = made.sample({.logits = {}, .tokens = {}});
  ASSERT_FALSE(early.has_value());
  EXPECT_NE(early.error().message().find("appended first"), std::string_view::npos);
  ASSERT_TRUE(ok(made.append(tokens(8, config.vocab))));
  std::vector<float> probs(static_cast<std::size_t>(config.vocab));
  const auto refused = made.sample({.logits = {}, .tokens = {}, .probs = {probs.data(), {1, config.vocab}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("probs"), std::string_view::npos);
}

TEST(spaces, what_is_drawn_on_a_device_is_what_the_host_draws) {
  const ModelConfig config = tiny();
  const std::vector<Token> history = {4, 9, 4};
  const auto draw = [&](Session session) {
    std::vector<Token> drawn;
    EXPECT_TRUE(ok(session.append(tokens(8, config.vocab), 3)));
    for (index step = 0; step < 10; ++step) {
      const auto token = session.sample({.logits = {},
                                         .history = {history.data(), {1, 3}},
                                         .tokens = {},
                                         .top_p = 0.9f,
                                         .repetition_penalty = 1.3f,
                                         .seed = 7,
                                         .step = step});
      EXPECT_TRUE(token.has_value());
      drawn.push_back(token.value_or(-1));
      EXPECT_TRUE(ok(session.decode(drawn.back())));
    }
    return drawn;
  };
  const auto expected = draw(session(config, "f32", Eager(Reference()), options));
  Picky device;
  EXPECT_EQ(draw(session(config, "f32", Chain(std::ref(device)), options)), expected);
  device.declined = {"sampling"};
  EXPECT_EQ(draw(session(config, "f32", Chain(std::ref(device), Reference()), options)), expected);
}

TEST(chain, host_operands_are_brought_to_a_device) {
  Picky device;
  Chain run(std::ref(device), Reference());
  const std::vector<float> x = {1, 2, 3, 4}, twice = {2, 4, 6, 8};
  const ConstView<2> rows(x.data(), {1, 4});
  for (const bool declines : {false, true}) {
    if (declines) device.declined = {"add"};
    std::vector<float> y(4);
    run(Add<Host>{.a = rows, .b = rows, .y = {y.data(), {1, 4}}});
    EXPECT_TRUE(ok(run.take_status()));
    EXPECT_EQ(y, twice);
    EXPECT_EQ(run.fallbacks().size(), declines ? 1u : 0u);
  }
}

TEST(chain, the_first_failure_stays_until_it_is_taken) {
  Chain run(PickyHost{{"add"}});
  const std::vector<float> x(4, 1.0f);
  std::vector<float> y(4, 7.0f);
  const ConstView<2> rows(x.data(), {1, 4});
  const Add<Host> declined{.a = rows, .b = rows, .y = {y.data(), {1, 4}}};
  const Swiglu<Host> runs{.gate = rows, .up = rows, .y = {y.data(), {1, 4}}};
  run(declined);
  run(runs);
  EXPECT_EQ(y, std::vector<float>(4, 7.0f));
  const Status status = run.take_status();
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("add"), std::string_view::npos);
  run(runs);
  EXPECT_TRUE(ok(run.take_status()));
  EXPECT_NE(y, std::vector<float>(4, 7.0f));
}

}  // namespace
}  // namespace inlay::exec::test
