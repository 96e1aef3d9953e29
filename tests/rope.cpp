#include <inlay/ops/rope.hpp>

#include <set>

#include "cpu_kernels/support/elementwise.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
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
  bool interleaved = false, in_place = false;

  Rope<Host> op() {
    View<3> to = in_place ? x.view() : y.view();
    return {
        .x = x, .cos = cos, .sin = sin, .positions = positions, .y = to, .first = first, .interleaved = interleaved};
  }
  const Tensor<3>& result() const { return in_place ? x : y; }
  Case unrounded() const {
    Case wide = *this;
    wide.x = x.widened(), wide.y = y.widened(), wide.cos = cos.widened(), wide.sin = sin.widened();
    return wide;
  }
};

// Two products and a sum in f32, each rounded once, and what is expected is rounded once too: 3 eps (|a c| + |b s|).
// What is not turned is copied.
constexpr double ulps = 3;
double scale_of(const Case& c, index k) {
  const index dim = c.x.extents()[2], heads = c.x.extents()[1], pairs = c.cos.extents()[1];
  const index head = k / dim * dim, i = k % dim - c.first, t = k / dim / heads;
  if (i < 0 || i >= 2 * pairs) return 0;
  const index pair = c.interleaved ? i / 2 : i % pairs, other = c.interleaved ? i ^ 1 : (i + pairs) % (2 * pairs);
  const index at = (c.positions.present() ? static_cast<index>(c.positions.get(t)) : t) * pairs + pair;
  return std::abs(c.x.get(k) * c.cos.get(at)) + std::abs(c.x.get(head + c.first + other) * c.sin.get(at));
}

void compare(const Case& start) {
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    expect_close(got.result(), expected.result(), ulps, [&](index k) { return scale_of(start, k); });
    EXPECT_TRUE(got.y.gaps_untouched() && got.x.gaps_untouched());
    if (!got.in_place) {
      EXPECT_TRUE(got.x == start.x);
    }
  });
}

struct Shape {
  index head_dim, first, pairs;
};

Case make(DType type, DType table, index tokens, index heads, Shape shape, DType ids, Layout layout, Rng& rng) {
  const index rows = ids == DType::f32 ? tokens : 11;  // a cache where ids point into it
  Case c{.x = {type, {tokens, heads, shape.head_dim}, layout},
         .y = {type, {tokens, heads, shape.head_dim}, {layout.row_gap + 2, layout.misaligned}},
         .cos = {table, {rows, shape.pairs}, layout},
         .sin = {table, {rows, shape.pairs}, {layout.row_gap + 4, layout.misaligned}},
         .first = shape.first};
  c.x.uniform(rng), c.cos.uniform(rng), c.sin.uniform(rng);
  if (ids != DType::f32) c.positions = Tensor<1>(ids, {tokens}).integers(rng, 0, rows - 1);
  c.y.poison();
  return c;
}

TEST(rope, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (DType table : std::set{DType::f32, type})
      for (bool interleaved : {false, true})
        for (Shape shape :
             {Shape{2, 0, 1}, Shape{1, 0, 0}, Shape{59, 5, 20}, Shape{64, 0, 32}, Shape{80, 0, 40}, Shape{111, 1, 55},
              Shape{128, 64, 32}, Shape{192, 128, 32}, Shape{256, 0, 128}, Shape{17, 3, 7}, Shape{17, 0, 8},
              Shape{18, 0, 9}, Shape{31, 1, 15}, Shape{32, 0, 16}, Shape{34, 0, 17}, Shape{65, 2, 31}})
          for (const Layout& layout : layouts)
            for (index tokens : {0, 1, 5}) {
              const DType ids = tokens == 1 ? DType::i32 : (shape.pairs + tokens) % 4 == 1 ? DType::i64 : DType::f32;
              Case c = make(type, table, tokens, 3, shape, ids, layout, rng);
              c.interleaved = interleaved;
              ASSERT_NO_FATAL_FAILURE(compare(c));
              c.in_place = tokens > 1;
              if (c.in_place) {
                ASSERT_NO_FATAL_FAILURE(compare(c));
              }
            }
}

// More tokens than one thread takes, and so many that the last piece is cut short.
TEST(rope, threads_share_the_tokens) {
  Rng rng(2);
  const index heads = 3, dim = 63, grain = cpu::elementwise_grain / (heads * dim);
  for (index tokens : {grain, grain + 1, grain + 2, 2 * grain + 7, 3 * grain + 11})
    for (bool listed : {false, true})
      ASSERT_NO_FATAL_FAILURE(compare(
          make(DType::bf16, DType::f32, tokens, heads, {dim, 1, 30}, listed ? DType::i64 : DType::f32, {}, rng)));
}

// x by heads and y by tokens, and the other way: each view has strides of its own.
TEST(rope, strides_of_x_and_y_apart) {
  Rng rng(3);
  const index tokens = 5, heads = 3, dim = 37, pairs = 17;
  for (DType type : float_types)
    for (bool interleaved : {false, true})
      for (bool turned : {false, true}) {
        Case c = make(type, type, tokens, heads, {dim, 2, pairs}, DType::f32, {}, rng);
        c.interleaved = interleaved;
        Case expected = c.unrounded();
        Reference reference;
        ASSERT_TRUE(ok(run(reference, expected.op())));
        // [heads, tokens, dim + 3] in memory, seen as [tokens, heads, dim].
        const auto by_heads = [&](Tensor<3>& memory) {
          View<3> view = memory;
          view.extents = {tokens, heads, dim};
          view.strides = {dim + 3, tokens * (dim + 3), 1};
          return view;
        };
        on_every_backend([&](const std::string&, auto run) {
          Tensor<3> memory(type, {heads, tokens, dim + 3}), y = c.y;
          memory.poison();
          View<3> view = by_heads(memory);
          Rope<Host> op = c.op();
          if (turned)
            op.y = view;
          else
            op.x = view, op.y = y;
          for (index t = 0; t < tokens && !turned; ++t)
            for (index h = 0; h < heads; ++h)
              for (index i = 0; i < dim; ++i) put(view, t, h, i, c.x.get((t * heads + h) * dim + i));
          ASSERT_TRUE(ok(run(op)));
          Tensor<3> got(type, {tokens, heads, dim});
          for (index k = 0; k < got.size(); ++k)
            got.set(k, turned ? at(view, k / dim / heads, k / dim % heads, k % dim) : y.get(k));
          expect_close(got, expected.y, ulps, [&](index k) { return scale_of(c, k); });
          for (index k = 0; k < memory.size(); ++k)
            if (k % (dim + 3) >= dim) {
              ASSERT_TRUE(std::isnan(memory.get(k))) << "between rows: " << k;
            }
        });
      }
}

// The q of a fused row of q, k and v: strides of the row, the rest untouched.
TEST(rope, part_of_a_fused_row) {
  Rng rng(4);
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
        } else {
          const bool second = in_q % dim >= 8;
          const index other = second ? k - 8 : k + 8;
          const double c = cos.get(t * 8 + in_q % 8), s = sin.get(t * 8 + in_q % 8);
          const double kept = fused.get(k) * c, crossed = fused.get(other) * s;
          ASSERT_NEAR(got.get(k), second ? crossed + kept : kept - crossed,
                      2 * 0x1p-24 * (std::abs(kept) + std::abs(crossed)));
        }
      }
  });
}

// No arithmetic on what is not turned: signs of zero, infinities, NaN and subnormal numbers come through, bit by bit.
TEST(rope, what_lies_beside_the_pairs_is_copied) {
  Rng rng(5);
  const double inf = std::numeric_limits<double>::infinity();
  for (DType type : float_types)
    for (bool interleaved : {false, true}) {
      Case start = make(type, DType::f32, 3, 2, {41, 7, 9}, DType::f32, layouts[2], rng);
      start.interleaved = interleaved;
      const double special[] = {-0.0, inf, -inf, std::nan(""), 2 * underflow(type), -2 * underflow(type), 0.0};
      for (index k = 0; k < start.x.size(); ++k)
        if (scale_of(start, k) == 0) start.x.set(k, special[k % 7]);
      on_every_backend([&](const std::string&, auto run) {
        Case got = start;
        ASSERT_TRUE(ok(run(got.op())));
        for (index k = 0; k < got.y.size(); ++k)
          if (scale_of(start, k) == 0) {
            const double y = got.y.get(k), x = start.x.get(k);
            ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : y == x) << k;
            ASSERT_EQ(std::signbit(y), std::signbit(x)) << k;
          }
      });
    }
}

// Turned by nothing is not changed, by a quarter it is swapped, and only the second half changes its sign.
TEST(rope, quarter_turns_are_exact) {
  for (bool interleaved : {false, true})
    for (index pairs : {1, 3, 8, 19})
      on_every_backend([&](const std::string&, auto run) {
        for (index quarter = 0; quarter < 4; ++quarter) {
          const double c = quarter == 0 ? 1 : quarter == 2 ? -1 : 0, s = quarter == 1 ? 1 : quarter == 3 ? -1 : 0;
          Tensor<3> x(DType::f32, {1, 1, 2 * pairs}), y = x;
          Tensor<2> cos(DType::f32, {1, pairs}), sin(DType::f32, {1, pairs});
          for (index k = 0; k < x.size(); ++k) x.set(k, static_cast<double>(k + 1));
          cos.fill(c), sin.fill(s), y.poison();
          ASSERT_TRUE(ok(run(Rope<Host>{.x = x, .cos = cos, .sin = sin, .y = y, .interleaved = interleaved})));
          for (index i = 0; i < pairs; ++i) {
            const index first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
            const double a = x.get(first), b = x.get(second);
            ASSERT_EQ(y.get(first), a * c - b * s) << quarter << ' ' << i;
            ASSERT_EQ(y.get(second), a * s + b * c) << quarter << ' ' << i;
          }
        }
      });
}

// ONNX's x is [batch, heads, sequence, head] or [batch, sequence, heads * head]: strides, one batch at a time.
TEST(rope, agrees_with_onnx) {
  INLAY_NEEDS_DATA("onnx_node/LICENSE");
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
          expect_close(got.y, expected.y, ulps, [&](index k) { return scale_of(c, k); }, {.lost = 5 * lost});
        });
      }
}

}  // namespace
}  // namespace inlay::test
