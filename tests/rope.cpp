#include <inlay/ops/rope.hpp>
#include <inlay/weights/rope_frequencies.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<3> x, y;
  Tensor<2> cos, sin;
  Tensor<1> positions = {};
  index first = 0;
  bool interleaved = false;

  Rope<Host> op() {
    return {.x = x, .cos = cos, .sin = sin, .positions = positions, .y = y, .first = first, .interleaved = interleaved};
  }
};

// Two products and a sum in f32, each rounded once: 2 eps (|a c| + |b s|).
double scale_of(const Case& c, index k) {
  const index dim = c.x.extents()[2], pairs = c.cos.extents()[1], head = k / dim * dim, i = k % dim - c.first;
  if (i < 0 || i >= 2 * pairs) return 0;
  const index other = c.interleaved ? i ^ 1 : (i + pairs) % (2 * pairs);
  return std::abs(c.x.get(k)) + std::abs(c.x.get(head + c.first + other));
}

struct Shape {
  index head_dim, first, pairs;
};

TEST(rope, sweep) {
  Rng rng(1);
  const index heads = 3, cached = 11;
  for (DType type : float_types)
    for (DType table : {DType::f32, type})
      for (bool interleaved : {false, true})
        for (Shape shape : {Shape{2, 0, 1}, Shape{1, 0, 0}, Shape{59, 5, 20}, Shape{64, 0, 32}, Shape{80, 0, 40},
                            Shape{111, 1, 55}, Shape{128, 64, 32}, Shape{192, 128, 32}, Shape{256, 0, 128}})
          for (const Layout& layout : layouts)
            for (index tokens : {0, 1, 5}) {
              const bool listed = tokens == 1 || shape.pairs % 4 == 0;
              Case start{.x = {type, {tokens, heads, shape.head_dim}, layout},
                         .y = {type, {tokens, heads, shape.head_dim}, layout},
                         .cos = {table, {listed ? cached : tokens, shape.pairs}, layout},
                         .sin = {table, {listed ? cached : tokens, shape.pairs}, layout},
                         .first = shape.first,
                         .interleaved = interleaved};
              start.x.uniform(rng);
              start.cos.uniform(rng);
              start.sin.uniform(rng);
              if (listed) start.positions = Tensor<1>(DType::i64, {tokens}).integers(rng, 0, cached - 1);
              start.y.poison();
              Case expected = start;
              SCOPED_TRACE(describe(expected.op()));
              Reference reference;
              ASSERT_TRUE(ok(run(reference, expected.op())));
              on_every_backend([&](const std::string&, auto run) {
                Case got = start, in_place = start;
                Rope<Host> op = in_place.op();
                op.y = in_place.x;
                ASSERT_TRUE(ok(run(got.op())));
                ASSERT_TRUE(ok(run(op)));
                expect_close(got.y, expected.y, 2, [&](index k) { return scale_of(start, k); });
                EXPECT_TRUE(got.y == in_place.x);
                EXPECT_TRUE(got.y.gaps_untouched());
                EXPECT_TRUE(in_place.x.gaps_untouched());
              });
            }
}

// The q of a fused row of q, k and v: strides of the row, the rest untouched.
TEST(rope, part_of_a_fused_row) {
  Rng rng(2);
  const index tokens = 4, heads = 2, dim = 16, row = 3 * heads * dim;
  Tensor<2> fused(DType::f32, {tokens, row}), cos(DType::f32, {tokens, 8}), sin = cos;
  fused.uniform(rng);
  cos.uniform(rng);
  sin.uniform(rng);
  on_every_backend([&](const std::string&, auto run) {
    Tensor<2> got = fused;
    const View<3> q(got.data<float>() + heads * dim, {tokens, heads, dim}, {row, dim, 1});
    ASSERT_TRUE(ok(run(Rope<Host>{.x = q, .cos = cos, .sin = sin, .y = q})));
    for (index t = 0; t < tokens; ++t)
      for (index i = 0; i < row; ++i) {
        const index k = t * row + i, in_q = i - heads * dim;
        if (in_q < 0 || in_q >= heads * dim) {
          ASSERT_EQ(got.get(k), fused.get(k));
        } else if (in_q % dim < 8) {
          const double c = cos.get(t * 8 + in_q % dim), s = sin.get(t * 8 + in_q % dim);
          ASSERT_NEAR(got.get(k), fused.get(k) * c - fused.get(k + 8) * s, 4 * 0x1p-24);
        }
      }
  });
}

// The angle is right to |angle| 2^-52, its sine to 1e-14, and one rounding to f32 follows.
TEST(rope, angles_keep_their_accuracy_far_out) {
  for (double theta : {10000.0, 500000.0})
    for (index dim : {2, 18, 128}) {
      const RopeFrequencies frequencies = *rope_frequencies({.rotary_dim = dim, .theta = theta});
      const std::int64_t places[] = {0, 1, -1, 2, 100, 4095, 131071, 1000003, 10000019, 2147483647, 1ll << 40, -70000};
      const index tokens = std::size(places), pairs = dim / 2;
      on_every_backend([&](const std::string&, auto run) {
        Tensor<2> cos(DType::f32, {tokens, pairs}), sin(DType::f32, {tokens, pairs});
        ASSERT_TRUE(ok(run(RopeTable<Host>{
            .positions = ConstView<2>(places, {1, tokens}), .inv_freq = frequencies.view(), .cos = cos, .sin = sin})));
        for (index t = 0; t < tokens; ++t)
          for (index i = 0; i < pairs; ++i) {
            const long double exact = places[t] * std::pow(static_cast<long double>(theta), -2.0L * i / dim);
            // hi + lo holds 48 bits of the frequency.
            const double bound = 0x1p-25 + std::abs(static_cast<double>(exact)) * 0x1p-46 + 1e-12;
            ASSERT_NEAR(cos.get(t * pairs + i), static_cast<double>(std::cos(exact)), bound) << places[t] << ' ' << i;
            ASSERT_NEAR(sin.get(t * pairs + i), static_cast<double>(std::sin(exact)), bound) << places[t] << ' ' << i;
          }
      });
    }
}

TEST(rope, table_against_the_reference) {
  Rng rng(3);
  for (index pairs : {0, 1, 7, 8, 9, 16, 33, 64})
    for (index rows : {1, 2})
      for (index tokens : {0, 1, 3, 40}) {
        Tensor<2> positions(DType::i32, {3, tokens}), inv_freq(DType::f32, {rows, pairs});
        Tensor<2> cos(DType::f32, {tokens, pairs}, layouts[2]), sin(DType::f32, {tokens, pairs}, layouts[1]);
        Tensor<1> axis(DType::i32, {pairs});
        positions.integers(rng, 0, 1000000);
        inv_freq.uniform(rng, -1, 1);
        axis.integers(rng, 0, 2);
        const auto op = [&](Tensor<2>& c, Tensor<2>& s) {
          return RopeTable<Host>{
              .positions = positions, .inv_freq = inv_freq, .axis = axis, .cos = c, .sin = s, .magnitude = 1.25f};
        };
        Tensor<2> c = cos, s = sin;
        Reference reference;
        ASSERT_TRUE(ok(run(reference, op(c, s))));
        on_every_backend([&](const std::string&, auto run) {
          Tensor<2> got_c = cos, got_s = sin;
          ASSERT_TRUE(ok(run(op(got_c, got_s))));
          expect_close(got_c, c, 2, [](index) { return 1.25; });
          expect_close(got_s, s, 2, [](index) { return 1.25; });
          EXPECT_TRUE(got_c.gaps_untouched() && got_s.gaps_untouched());
        });
      }
}

TEST(rope, frequencies_follow_their_rules) {
  const double tau = 2 * 3.14159265358979323846;
  const RopeParameters plain{.rotary_dim = 128, .theta = 500000};
  const auto base = [&](index i) { return std::pow(500000.0, -2.0 * i / 128); };
  const auto close = [](double got, double expected) { return std::abs(got - expected) <= 1e-13 * expected; };

  RopeParameters p = plain;
  const RopeFrequencies none = *rope_frequencies(p);
  p.scaling = RopeScaling::linear, p.factor = 4;
  const RopeFrequencies linear = *rope_frequencies(p);
  p.scaling = RopeScaling::ntk;
  const RopeFrequencies ntk = *rope_frequencies(p);
  for (index i = 0; i < 64; ++i) {
    EXPECT_TRUE(close(none[i], base(i)));
    EXPECT_TRUE(close(linear[i], base(i) / 4));
  }
  // NTK keeps the fastest pair and stretches the slowest by the factor.
  EXPECT_TRUE(close(ntk[0], 1));
  EXPECT_TRUE(close(ntk[63], base(63) / 4));

  // Llama 3.1: 8192 positions, factor 8: waves below 2048 stay, above 8192 are divided.
  p = plain;
  p.scaling = RopeScaling::llama3, p.factor = 8, p.original_context = 8192;
  const RopeFrequencies llama = *rope_frequencies(p);
  for (index i = 0; i < 64; ++i) {
    const double wave = tau / base(i);
    const double smooth = (8192 / wave - 1) / 3;
    const double expected = wave < 2048 ? base(i) : wave > 8192 ? base(i) / 8 : base(i) * ((1 - smooth) / 8 + smooth);
    EXPECT_TRUE(close(llama[i], expected)) << i;
  }
  EXPECT_EQ(llama.magnitude, 1);

  // YaRN with Qwen2.5's numbers: theta 10^6, 32768 -> 131072. The ramp runs from pair 23 to pair 40.
  p = {.rotary_dim = 128, .theta = 1e6, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 32768};
  const RopeFrequencies yarn = *rope_frequencies(p);
  const double low = std::floor(128 * std::log(32768 / (32 * tau)) / (2 * std::log(1e6)));
  const double high = std::ceil(128 * std::log(32768 / tau) / (2 * std::log(1e6)));
  EXPECT_EQ(low, 23);
  EXPECT_EQ(high, 40);
  for (index i = 0; i < 64; ++i) {
    const double f = std::pow(1e6, -2.0 * i / 128), ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    EXPECT_TRUE(close(yarn[i], f * (1 - ramp) + f / 4 * ramp)) << i;
  }
  EXPECT_EQ(yarn.magnitude, static_cast<float>(0.1 * std::log(4.0) + 1));
  p.mscale = 0.707, p.mscale_all_dim = 0.707;  // DeepSeek-V2: they cancel
  EXPECT_EQ(rope_frequencies(p)->magnitude, 1);

  const std::vector<float> divisors(64, 2.0f);
  p = plain;
  p.divisors = divisors;
  EXPECT_TRUE(close((*rope_frequencies(p))[5], base(5) / 2));
  p.scaling = RopeScaling::longrope, p.factor = 32, p.original_context = 4096;
  EXPECT_EQ(rope_frequencies(p)->magnitude, static_cast<float>(std::sqrt(1 + std::log(32.0) / std::log(4096.0))));

  p = plain;
  p.scaling = RopeScaling::dynamic, p.factor = 2, p.original_context = 4096, p.length = 4096;
  EXPECT_TRUE(close((*rope_frequencies(p))[63], base(63)));
  p.length = 8192;  // factor 2 * 2 - 1 = 3
  EXPECT_TRUE(close((*rope_frequencies(p))[63], base(63) / 3));
}

TEST(rope, axes_of_sections) {
  const std::vector<index> sections{2, 3, 1};
  EXPECT_EQ(rope_axes(sections, 6), (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(rope_axes(sections, 8), (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2, 0, 0}));
}

// Qwen3-VL's, as Transformers' apply_interleaved_mrope deals them out.
TEST(rope, axes_of_interleaved_sections) {
  using Axes = std::vector<std::int32_t>;
  const auto axes = [](const std::vector<index>& sections, index pairs) { return rope_axes(sections, pairs, true); };
  EXPECT_EQ(axes({4, 2, 2}, 8), (Axes{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(axes({2, 3, 1}, 6), (Axes{0, 1, 2, 0, 1, 0}));     // the pair that ends the turn of axis 2 is axis 0's
  EXPECT_EQ(axes({4, 2, 2, 0}, 8), axes({4, 2, 2}, 8));        // GGUF writes four sections
  EXPECT_EQ(axes({4, 0, 2, 0}, 6), (Axes{0, 0, 2, 0, 0, 2}));  // an axis in between keeps its place
  EXPECT_EQ(axes({2, 2, 0, 0}, 4), (Axes{0, 1, 0, 1}));
  EXPECT_EQ(axes({0, 0, 0, 0}, 3), (Axes{0, 0, 0}));
  EXPECT_EQ(axes({}, 3), (Axes{0, 0, 0}));

  Axes qwen3_vl;
  for (int i = 0; i < 20; ++i) qwen3_vl.insert(qwen3_vl.end(), {0, 1, 2});
  qwen3_vl.insert(qwen3_vl.end(), {0, 0, 0, 0});
  EXPECT_EQ(axes({24, 20, 20, 0}, 64), qwen3_vl);
}

TEST(rope, parameters_are_refused_by_name) {
  const auto message = [](const RopeParameters& p) { return std::string(rope_frequencies(p).error().message()); };
  EXPECT_NE(message({.rotary_dim = 7}).find("rotary_dim is 7"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .theta = 0}).find("theta"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .scaling = RopeScaling::yarn}).find("original_context"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .scaling = static_cast<RopeScaling>(7)}).find("scaling is 7"), std::string::npos);
  const std::vector<float> three(3, 1.0f);
  EXPECT_NE(message({.rotary_dim = 8, .divisors = three}).find("divisors has 3"), std::string::npos);
}

// ONNX's x is [batch, heads, sequence, head] or [batch, sequence, heads * head]: strides, one batch at a time.
TEST(rope, agrees_with_onnx) {
  if (!have_data("onnx_node/LICENSE")) return;
  struct Node {
    const char* name;
    bool interleaved, listed, flat;
  };
  for (const Node& node :
       {Node{"test_rotary_embedding", false, true, false}, Node{"test_rotary_embedding_3d_input", false, true, true},
        Node{"test_rotary_embedding_interleaved", true, true, false},
        Node{"test_rotary_embedding_no_position_ids_interleaved", true, false, false},
        Node{"test_rotary_embedding_no_position_ids_rotary_dim", false, false, false},
        Node{"test_rotary_embedding_with_rotary_dim", false, true, false}}) {
    SCOPED_TRACE(node.name);
    const OnnxTensor x = onnx_tensor(node.name, "input_0"), cos = onnx_tensor(node.name, "input_1");
    const OnnxTensor sin = onnx_tensor(node.name, "input_2"), expected = onnx_tensor(node.name, "output_0");
    const OnnxTensor positions = node.listed ? onnx_tensor(node.name, "input_3") : OnnxTensor{};
    const index batches = 2, tokens = 3, heads = 4, dim = 8, pairs = cos.dims.back(), all = tokens * heads * dim;
    on_every_backend([&](const std::string&, auto run) {
      for (index b = 0; b < batches; ++b) {
        std::vector<float> y(static_cast<std::size_t>(all));
        const View<3>::Extents shape{tokens, heads, dim};
        const View<3>::Extents strides =
            node.flat ? View<3>::Extents{heads * dim, dim, 1} : View<3>::Extents{dim, tokens * dim, 1};
        const auto rows = [&](const OnnxTensor& table) {
          const float* data = reinterpret_cast<const float*>(table.bytes.data());
          return node.listed ? ConstView<2>(data, {table.dims[0], pairs})
                             : ConstView<2>(data + b * tokens * pairs, {tokens, pairs});
        };
        Rope<Host> op{.x = ConstView<3>(reinterpret_cast<const float*>(x.bytes.data()) + b * all, shape, strides),
                      .cos = rows(cos),
                      .sin = rows(sin),
                      .y = View<3>(y.data(), shape, strides),
                      .interleaved = node.interleaved};
        if (node.listed)
          op.positions =
              ConstView<1>(reinterpret_cast<const std::int64_t*>(positions.bytes.data()) + b * tokens, {tokens});
        ASSERT_TRUE(ok(run(op)));
        for (index k = 0; k < all; ++k) ASSERT_NEAR(y[k], expected.get(b * all + k), 8 * 0x1p-24) << b << ' ' << k;
      }
    });
  }
}

TEST(rope, subnormals) {
  Rng rng(10);
  for (DType type : float_types)
    for (bool interleaved : {false, true})
      for (index pairs : subnormal_sizes) {
        Case c{.x = {type, {2, 1, 2 * pairs}},
               .y = {type, {2, 1, 2 * pairs}},
               .cos = {DType::f32, {2, pairs}},
               .sin = {DType::f32, {2, pairs}},
               .interleaved = interleaved};
        subnormals(c.x, rng), c.cos.uniform(rng), subnormals(c.sin, rng, true);
        c.y.poison();
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // Two products, with an operand each, and a sum.
          expect_close(
              got.y, expected.y, 2, [&](index k) { return scale_of(c, k); }, 5 * lost);
        });
      }
}

TEST(rope, refuses_what_the_contract_does_not_cover) {
  Tensor<3> x(DType::f32, {3, 2, 8});
  Tensor<2> cos(DType::f32, {5, 4}), three(DType::f32, {3, 4}), wide(DType::f32, {3, 5});
  Tensor<1> positions(DType::i32, {3});
  positions.fill(4);
  expect_refused(Rope<Host>{.x = x, .cos = cos, .sin = cos, .y = x}, {"cos", "token"});
  expect_refused(Rope<Host>{.x = x, .cos = wide, .sin = wide, .y = x}, {"first", "5 pairs", "8"});
  expect_refused(Rope<Host>{.x = x, .cos = three, .sin = three, .y = x, .first = 1}, {"first", "4 pairs"});
  expect_refused(Rope<Host>{.x = x, .cos = three, .sin = cos, .y = x}, {"sin", "[5, 4]", "[3, 4]"});
  positions.set(1, 5);
  expect_refused(Rope<Host>{.x = x, .cos = cos, .sin = cos, .positions = positions, .y = x},
                 {"positions[1]", "5", "0..4"});
  Tensor<2> ids(DType::i32, {1, 3}), frequencies(DType::f32, {3, 4});
  Tensor<1> axis(DType::i32, {4});
  axis.fill(0);
  Tensor<2> out_c(DType::f32, {3, 4}), out_s = out_c;
  const auto table = [&] {
    return RopeTable<Host>{
        .positions = ids, .inv_freq = three.view().slice(0, 0, 1), .axis = axis, .cos = out_c, .sin = out_s};
  };
  RopeTable<Host> op = table();
  op.inv_freq = frequencies;
  expect_refused(op, {"inv_freq", "1 row"});
  axis.set(2, 1);
  expect_refused(table(), {"axis[2]", "1", "0..0"});
}

}  // namespace
}  // namespace inlay::test
