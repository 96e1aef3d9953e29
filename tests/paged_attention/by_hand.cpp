// Answers that were worked out by hand, for the reference and every backend: what both might get wrong alike.
#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
namespace {

template <class Test> void on_reference_and_backends(Test&& test) {
  test([](const auto& op) {
    Reference reference;
    return run(reference, op);
  });
  on_every_backend([&](const std::string&, auto run) { test(run); });
}

// One head of dim 4 with keys of 1 or -1: scores are s or -s, so weights are powers of e.
struct Hand {
  static constexpr index tokens = 5;
  std::vector<float> q = {1, 1, 1, 1}, keys, values, out = {-1}, lse = {-1};
  std::int32_t table[3] = {2, 0, 1}, length[1] = {tokens};

  // Blocks of two slots; token j lies in block table[j / 2].
  Hand() : keys(3 * 2 * 4, 100), values(3 * 2, 100) {
    for (index j = 0; j < tokens; ++j) {
      const index slot = table[j / 2] * 2 + j % 2;
      for (index d = 0; d < 4; ++d) keys[slot * 4 + d] = 0;
      values[slot] = static_cast<float>(1 << j);  // 1 2 4 8 16: a sum of values tells whose they are
    }
  }
  void key(index j, float x) {
    for (index d = 0; d < 4; ++d) keys[(table[j / 2] * 2 + j % 2) * 4 + d] = x;
  }
  PagedAttention<Host> op() {
    return {.q = ConstView<3>(q.data(), {1, 1, 4}),
            .k = flat_cache(ConstView<4>(keys.data(), {3, 2, 1, 4})),
            .v = flat_cache(ConstView<4>(values.data(), {3, 2, 1, 1})),
            .block_table = ConstView<2>(table, {1, 3}),
            .kv_lens = ConstView<1>(length, {1}),
            .out = View<3>(out.data(), {1, 1, 1}),
            .lse = View<2>(lse.data(), {1, 1})};
  }
};

struct Options {
  float scale = 0, softcap = 0;
  index window_left = -1, partition = 512;
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
  ConstView<1> slopes = {}, sinks = {};
};

void expect(const Hand& start, const Options& options, double out, double lse) {
  on_reference_and_backends([&](auto run) {
    Hand h = start;
    PagedAttention<Host> op = h.op();
    op.scale = options.scale, op.softcap = options.softcap, op.window_left = options.window_left;
    op.partition = options.partition, op.bias_order = options.bias_order;
    op.alibi_slopes = options.slopes, op.sinks = options.sinks;
    ASSERT_TRUE(ok(run(op)));
    EXPECT_NEAR(h.out[0], out, 4e-7 * std::abs(out));
    EXPECT_NEAR(h.lse[0], lse, 4e-7 * (1 + std::abs(lse)));
  });
}

TEST(paged_attention, by_hand_windows) {
  const Hand h;
  expect(h, {}, 31 / 5.0, std::log(5.0));
  expect(h, {.window_left = 0}, 16, 0);
  expect(h, {.window_left = 1}, 12, std::log(2.0));
  expect(h, {.window_left = 3}, 30 / 4.0, std::log(4.0));
  expect(h, {.window_left = 4}, 31 / 5.0, std::log(5.0));
  expect(h, {.window_left = 1, .partition = 3}, 12, std::log(2.0));
  expect(h, {.partition = 2}, 31 / 5.0, std::log(5.0));
}

// Token 1 scores 4 * scale, which is 2 by default (1 / sqrt(4)), the others 0.
TEST(paged_attention, by_hand_scales_and_softcap) {
  Hand h;
  h.key(1, 1);
  const auto mean = [](double weight) { return (29 + 2 * weight) / (4 + weight); };
  expect(h, {}, mean(std::exp(2.0)), std::log(4 + std::exp(2.0)));
  expect(h, {.scale = 1}, mean(std::exp(4.0)), std::log(4 + std::exp(4.0)));
  expect(h, {.scale = -1}, mean(std::exp(-4.0)), std::log(4 + std::exp(-4.0)));
  const double capped = 1.5 * std::tanh(2 / 1.5);
  expect(h, {.softcap = 1.5f}, mean(std::exp(capped)), std::log(4 + std::exp(capped)));
}

// Slope 1/2: the biases are -2, -1.5, -1, -0.5, 0.
TEST(paged_attention, by_hand_alibi_and_its_orders) {
  const Hand h;
  const float slope[] = {0.5f};
  const ConstView<1> slopes(slope, {1});
  const auto expected = [&](auto bias) {
    double sum = 0, out = 0;
    for (int j = 0; j < 5; ++j) sum += std::exp(bias((j - 4) / 2.0)), out += std::exp(bias((j - 4) / 2.0)) * (1 << j);
    return std::pair{out / sum, std::log(sum)};
  };
  const auto check = [&](BiasOrder order, auto bias) {
    const auto [out, lse] = expected(bias);
    expect(h, {.scale = 0.25f, .softcap = 2, .bias_order = order, .slopes = slopes}, out, lse);
  };
  check(BiasOrder::scale_bias_softcap, [](double b) { return 2 * std::tanh(b / 2); });
  check(BiasOrder::scale_softcap_bias, [](double b) { return b; });
  check(BiasOrder::bias_scale_softcap, [](double b) { return 2 * std::tanh(b / 4 / 2); });
}

// A sink of log 5 weighs as much as the five tokens together.
TEST(paged_attention, by_hand_sinks) {
  Hand h;
  const float sink[] = {std::log(5.0f)};
  const ConstView<1> sinks(sink, {1});
  expect(h, {.sinks = sinks}, 31 / 10.0, std::log(10.0));
  expect(h, {.partition = 2, .sinks = sinks}, 31 / 10.0, std::log(10.0));
  h.length[0] = 0;
  expect(h, {.sinks = sinks}, 0, std::log(5.0));
}

TEST(paged_attention, the_query_sees_the_last_of_the_window) {
  using Pair = std::pair<index, index>;
  const auto range = [](index window, index length) {
    PagedAttention<Host> op;
    op.window_left = window;
    const KeyRange r = visible_keys(op, length);
    return r.empty() ? Pair(0, 0) : Pair(r.begin, r.end);
  };
  EXPECT_EQ(range(-1, 9), Pair(0, 9));
  EXPECT_EQ(range(0, 9), Pair(8, 9));
  EXPECT_EQ(range(3, 9), Pair(5, 9));
  EXPECT_EQ(range(8, 9), Pair(0, 9));
  EXPECT_EQ(range(7, 9), Pair(1, 9));
  EXPECT_EQ(range(100, 9), Pair(0, 9));
  EXPECT_EQ(range(-1, 0), Pair(0, 0));
  EXPECT_EQ(range(4, 0), Pair(0, 0));
}

}  // namespace
}  // namespace inlay::test
