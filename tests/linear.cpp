#include <inlay/weights/linear_pack.hpp>

#include <map>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/matrix.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

enum class Form { packed, rows };

// Everything that one case needs, so that backends start from the same bytes.
struct Case {
  Tensor<2> x, rows, y;
  Tensor<3> packed;
  Tensor<1> bias = {};
  Form form = Form::packed;

  Linear<Host> op() {
    Linear<Host> op{.x = x, .bias = bias, .y = y};
    if (form == Form::packed)
      op.weight = packed;
    else
      op.weight_rows = rows;
    return op;
  }
  void add_bias(Rng& rng) { bias = Tensor<1>(DType::f32, {rows.extents()[0]}).uniform(rng); }
  Case& pack() {
    packed = Tensor<3>(rows.dtype(), linear_packed_extents(rows.extents()[0], rows.extents()[1], rows.dtype()));
    packed.fill(std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(ok(pack_linear(serial(), rows, packed)));
    return *this;
  }
};

struct Types {
  DType x, weight, y;
};

// What models need: all of one type, f32 activations with any weight, and 16-bit outputs.
const std::vector<Types> types = {{DType::f32, DType::f32, DType::f32},   {DType::f32, DType::f16, DType::f32},
                                  {DType::f32, DType::bf16, DType::f32},  {DType::f16, DType::f16, DType::f16},
                                  {DType::bf16, DType::bf16, DType::f32}, {DType::bf16, DType::bf16, DType::bf16},
                                  {DType::bf16, DType::f32, DType::bf16}};

Case make(Types type, index tokens, index n, index k, Layout layout, Rng& rng) {
  Case c{.x = {type.x, {tokens, k}, layout},
         .rows = {type.weight, {n, k}, layout},
         .y = {type.y, {tokens, n}, layout},
         .packed = {}};
  c.x.uniform(rng);
  c.rows.uniform(rng);
  c.y.poison();
  c.pack();
  return c;
}

// A block of 192 terms is one chain of fma (a product and an add at the scalar level), the sums of
// the blocks are another: each term passes min(k, 192) + k/192 roundings, one of its product and one
// of the bias.
double ulps(index k) { return static_cast<double>(std::min<index>(k, 192) + k / 192 + 3); }

// sum_k |x[t,k] w[n,k]| + |bias[n]|, the magnitude that those roundings are relative to, for each y.
Matrix magnitudes(const Case& c) {
  Matrix sums = matrix(c.x).cwiseAbs() * matrix(c.rows).cwiseAbs().transpose();
  if (c.bias.present())
    for (index i = 0; i < sums.size(); ++i) sums.data()[i] += std::abs(c.bias.get(i % c.bias.size()));
  return sums;
}

void compare(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  const Matrix scale = magnitudes(start);
  for (Form form : {Form::packed, Form::rows}) {
    SCOPED_TRACE(form == Form::packed ? "packed" : "rows");
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      got.form = form;
      ASSERT_TRUE(ok(run(got.op())));
      expect_close(got.y, expected.y, ulps(start.x.extents()[1]), [&](index i) { return scale.data()[i]; });
      EXPECT_TRUE(got.y.gaps_untouched());
    });
  }
}

// Sizes around the tiles (2, 6 and 12 rows), panels (16) and groups of panels, and blocks of k (192).
TEST(linear, sweep) {
  Rng rng(1);
  const std::vector<index> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 25};
  const std::vector<index> channels = {1, 15, 16, 17, 31, 33, 48, 65, 129, 145};
  const std::vector<index> depths = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 65, 111, 191, 192, 193, 257, 385};
  std::size_t at = 0;
  for (Types type : types)
    for (index k : depths)
      for (int repeat = 0; repeat < 2; ++repeat, ++at) {
        const index m = tokens[at * 5 % tokens.size()], n = channels[at * 3 % channels.size()];
        const Layout& layout = layouts[at % layouts.size()];
        Case c = make(type, m, n, k, layout, rng);
        if (at % 2) c.add_bias(rng);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(linear, more_rows_than_a_chunk) {
  Rng rng(2);
  for (Types type : {types[0], types[2], types[5]})
    ASSERT_NO_FATAL_FAILURE(compare(make(type, 131, 20, 41, layouts[1], rng)));
}

TEST(linear, every_type_of_bias) {
  Rng rng(3);
  for (DType type : float_types) {
    Case c = make(types[0], 2, 19, 33, {}, rng);
    c.bias = Tensor<1>(type, {19}, {.row_gap = 0, .misaligned = 1});
    c.bias.uniform(rng);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(linear, nothing_to_do_and_empty_sums) {
  Rng rng(4);
  for (Types type : {types[0], types[5]}) {
    compare(make(type, 0, 17, 8, {}, rng));
    compare(make(type, 3, 0, 8, {}, rng));
    Case c = make(type, 3, 17, 0, {}, rng);  // y is the bias alone
    c.add_bias(rng);
    compare(c);
  }
}

// Bit for bit: the number of threads, the form of the weight and the rows of the batch change nothing.
TEST(linear, a_row_does_not_depend_on_its_batch_threads_or_form_of_weight) {
  Rng rng(5);
  constexpr index tokens = 142, n = 70, k = 269;
  for (Types type : types) {
    SCOPED_TRACE(describe(type.x, type.weight, type.y));
    Case start = make(type, tokens, n, k, layouts[2], rng);
    start.add_bias(rng);
    std::map<Isa, Tensor<2>> first;
    for (const Cpu& cpu : cpus()) {
      SCOPED_TRACE(name(cpu));
      for (Form form : {Form::packed, Form::rows}) {
        Case whole = start;
        whole.form = form;
        ASSERT_TRUE(ok(run_with_scratch(cpu, whole.op())));
        ASSERT_TRUE(first.try_emplace(cpu.isa(), whole.y).first->second == whole.y);
        if (cpu.parallel().width > 1) continue;
        Case parts = start;
        parts.form = form;
        for (index row = 0, count = 1; row < tokens; row += count, count = count % 26 + 1) {
          count = std::min(count, tokens - row);
          Linear<Host> op = parts.op();
          op.x = op.x.slice(0, row, count);
          op.y = op.y.slice(0, row, count);
          ASSERT_TRUE(ok(run_with_scratch(cpu, op)));
        }
        ASSERT_TRUE(parts.y == whole.y);
      }
    }
  }
}

// One chain of fused multiply-adds: its width does not show. (bf16 x with bf16 weights takes the dot
// product where there is one, which flushes subnormals and adds odd k first.)
TEST(linear, levels_with_fma_agree_bit_for_bit) {
  Rng rng(6);
  for (Types type : {types[0], types[1], types[2], types[3]}) {
    Case start = make(type, 14, 37, 600, {}, rng);
    std::map<Isa, Tensor<2>> all;
    for (Isa isa : available_isas()) {
      if (isa == Isa::scalar) continue;
      Case got = start;
      const Cpu cpu(isa, serial());
      ASSERT_TRUE(ok(run_with_scratch(cpu, got.op())));
      all.emplace(isa, got.y);
      EXPECT_TRUE(all.begin()->second == got.y) << inlay::name(isa);
    }
  }
}

TEST(linear, reference_and_kernels_agree_with_eigen) {
  Rng rng(7);
  for (Types type : {types[0], types[2], types[4]}) {
    const Case start = make(type, 24, 100, 777, layouts[1], rng);
    const Matrix expected = matrix(start.x) * matrix(start.rows).transpose();
    const Matrix scale = magnitudes(start);
    Case textbook = start;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, textbook.op())));
    for (index i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(textbook.y.get(i), expected.data()[i], 2 * epsilon(DType::f32) * std::abs(expected.data()[i]));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(got.y.get(i), expected.data()[i], (ulps(777) + 1) * epsilon(DType::f32) * scale.data()[i]);
    });
  }
}

// The x of a row meets no other row's, a channel's weight no other channel's, padding nobody.
TEST(linear, infinities_and_nan_stay_in_their_row_and_channel) {
  Rng rng(10);
  constexpr index tokens = 14, n = 35, k = 33;
  for (Types type : types)
    for (double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Case start = make(type, tokens, n, k, {}, rng);
      start.x.set(3 * k + k - 1, bad);     // row 3, the k beside the padding
      start.rows.set(34 * k + 2, bad);     // channel 34, beside the padding
      start.rows.set(7 * k + k - 1, 0.0);  // 0 * bad
      start.pack();
      for (Form form : {Form::packed, Form::rows})
        on_every_backend([&](const std::string&, auto run) {
          Case got = start;
          got.form = form;
          ASSERT_TRUE(ok(run(got.op())));
          for (index t = 0; t < tokens; ++t)
            for (index i = 0; i < n; ++i)
              ASSERT_EQ(std::isfinite(got.y.get(t * n + i)), t != 3 && i != 34) << t << ' ' << i;
          ASSERT_TRUE(std::isnan(got.y.get(3 * n + 7)));
        });
    }
}

// The dot product instruction flushes what is below 2^-126, in operands and sums: each term loses
// less than 2^-126 * max(1, |other operand|) twice.
TEST(linear, subnormal_bf16_vanish_at_most) {
  Rng rng(11);
  constexpr index k = 40;
  Case start = make({DType::bf16, DType::bf16, DType::f32}, 3, 17, k, {}, rng);
  start.rows.uniform(rng, -0x1p-127, 0x1p-127);
  start.pack();
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < got.y.size(); ++i) ASSERT_NEAR(got.y.get(i), expected.y.get(i), 2 * k * 0x1p-126);
  });
}

TEST(linear, subnormals) {
  Rng rng(20);
  for (const Types& type : types)
    for (index k : subnormal_sizes)
      for (Form form : {Form::packed, Form::rows}) {
        Case c = make(type, 3, 33, k, {}, rng);
        subnormals(k % 2 ? c.x : c.rows, rng, k % 3 == 0);
        c.pack();
        c.form = form;
        const Matrix scale = magnitudes(c);
        // The instruction that multiplies bf16 flushes whatever the mode (docs/ops/linear.md).
        const bool always = type.x == DType::bf16 && type.weight == DType::bf16;
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // For each term an operand, a product and a sum; all other factors are at most 1.
          const double all_lost = 3 * static_cast<double>(k) * (always ? smallest_normal() : lost);
          expect_close(
              got.y, expected.y, ulps(k), [&](index i) { return scale.data()[i]; }, all_lost);
        });
      }
}

TEST(linear, refuses_what_the_contract_does_not_cover) {
  Rng rng(12);
  Case c = make(types[0], 2, 20, 8, {}, rng);
  Linear<Host> op = c.op();
  op.weight = {};
  expect_refused(op, {"weight", "must be given"});
  op = c.op();
  op.weight_rows = c.rows;
  expect_refused(op, {"weight", "left out"});
  op = c.op();
  op.weight.extents[0] = 1;
  expect_refused(op, {"weight", "[1, 8, 16]", "[2, 8, 16]"});
  op = c.op();
  op.weight.dtype = DType::bf16;
  expect_refused(op, {"weight", "[2, 8, 16]", "[2, 4, 32]"});
  op = c.op();
  op.weight.strides[1] = 17;
  expect_refused(op, {"weight", "contiguous"});
  op = c.op();
  op.weight.dtype = DType::i8;
  expect_refused(op, {"weight", "i8", "f32 f16 bf16"});
  op = c.op();
  op.y.dtype = DType::f16;
  expect_refused(op, {"y", "f16", "f32"});
  op = c.op();
  op.y.extents[0] = 3;
  expect_refused(op, {"y", "3", "2"});
  op = c.op();
  op.y.data = c.x.data<float>();
  expect_refused(op, {"y", "overlaps", "x"});
  op = c.op();
  op.weight = {};
  op.weight_rows = c.rows;
  op.weight_rows.extents[1] = 7;
  expect_refused(op, {"weight_rows", "[20, 7]", "[20, 8]"});
  op = c.op();
  Tensor<1> seven(DType::f32, {7});
  op.bias = seven;
  expect_refused(op, {"bias", "7", "20"});
  op = c.op();
  op.x.data = nullptr;
  expect_refused(op, {"x", "null"});
}

TEST(linear, wants_its_workspace) {
  Rng rng(13);
  Case c = make(types[0], 2, 20, 8, {}, rng);
  const Status status = run(Cpu(serial()), c.op());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("workspace"), std::string_view::npos);
}

}  // namespace
}  // namespace inlay::test
