#include <inlay/weights/linear_w4a16_import.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/matrix.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

enum class Form { symmetric, zeros, offsets };

struct Shape {
  index rows, n, k, group, bits;
};

struct Case {
  Shape shape;
  Tensor<2> x, y;
  Tensor<3> codes, scales, zeros = {}, offsets = {};
  Tensor<1> perm = {}, bias = {};
  W4Compute compute = W4Compute::exact_float;

  index slots() const { return perm.present() ? perm.size() : shape.k; }
  index input(index slot) const { return perm.present() ? static_cast<index>(perm.get(slot)) : slot; }
  LinearW4a16<Host> op() {
    LinearW4a16<Host> op{.x = x, .codes = codes, .scales = scales, .y = y};
    op.zeros = zeros, op.offsets = offsets;
    op.perm = perm, op.bias = bias;
    op.group = shape.group, op.bits = shape.bits;
    op.compute = compute;
    return op;
  }
  void add_bias(Rng& rng) { bias = Tensor<1>(x.dtype(), {shape.n}).uniform(rng); }
};

struct Types {
  DType x = DType::f32, y = DType::f32, scales = DType::f32, zeros = DType::u8, offsets = scales;
};

// Codes fill their words to the last bit, and channels beyond n have NaN scales.
Case make(const Shape& s, Form form, Types types, Layout layout, Rng& rng, index slots = -1) {
  const bool permuted = slots >= 0;
  if (!permuted) slots = s.k;
  const std::array<index, 3> per_group{w4_panels(s.n), w4_groups(slots, s.group), w4_panel};
  const Layout packed{.row_gap = 0, .misaligned = layout.misaligned};
  Case c{.shape = s,
         .x = {types.x, {s.rows, s.k}, layout},
         .y = {types.y, {s.rows, s.n}, layout},
         .codes = {DType::u8, {w4_panels(s.n), w4_steps(slots, s.bits), 64}, packed},
         .scales = {types.scales, per_group, packed}};
  c.x.uniform(rng);
  c.codes.integers(rng, 0, 255);
  c.scales.uniform(rng, 0.01, 0.1);
  if (form == Form::offsets) c.offsets = Tensor<3>(types.offsets, per_group, packed).uniform(rng, -0.5, 0.5);
  if (form == Form::zeros) {
    c.zeros = {types.zeros, per_group, packed};
    if (types.zeros == DType::u8)
      c.zeros.integers(rng, 0, (1 << s.bits) - 1);
    else
      c.zeros.uniform(rng, 0, (1 << s.bits) - 1);
  }
  for (index i = 0; i < c.scales.size(); ++i)
    if (i / (per_group[1] * w4_panel) * w4_panel + i % w4_panel >= s.n)
      c.scales.set(i, std::numeric_limits<double>::quiet_NaN());
  if (permuted) {
    c.perm = {DType::i32, {slots}};
    for (index i = 0; i < slots; ++i) c.perm.set(i, static_cast<double>(i % s.k));
  }
  if ((s.n + s.k) % 2) c.add_bias(rng);
  c.y.poison();
  return c;
}

// The weight as the drawing in the contract says, element by element and in double: w, and
// |w| + 2 |zero * scale|, in units of which f32 rounds.
struct Dense {
  Matrix w, size;
};
Dense dense(Case c) {
  const auto* codes = c.codes.data<std::uint8_t>();
  const index slots = c.slots(), n = c.shape.n, per_word = 32 / c.shape.bits;
  const index steps = w4_steps(slots, c.shape.bits), groups = w4_groups(slots, c.shape.group);
  Dense d{Matrix::Zero(n, c.shape.k), Matrix::Zero(n, c.shape.k)};
  for (index i = 0; i < n; ++i)
    for (index s = 0; s < slots; ++s) {
      const index input = c.input(s);
      if (input < 0) continue;
      const std::uint8_t* bytes = codes + ((i / 16 * steps + s / per_word) * 16 + i % 16) * 4;
      const std::uint32_t word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
      const double q = word >> (s % per_word * c.shape.bits) & ((1u << c.shape.bits) - 1);
      const index at = (i / 16 * groups + (c.shape.group == 0 ? 0 : s / c.shape.group)) * 16 + i % 16;
      const double scale = c.scales.get(at), zero = c.zeros.present() ? c.zeros.get(at) : 1 << (c.shape.bits - 1);
      const double offset = c.offsets.present() ? c.offsets.get(at) : -zero * scale;
      d.w(i, input) += q * scale + offset;
      d.size(i, input) += std::abs(q * scale + offset) + 2 * std::abs(offset);
    }
  return d;
}

// The sum is a chain of at most 128 products q * x, at most `group` where that is less, and of two
// products for each segment; then come the rounding of zero * scale and the bias, and everything
// twice where fma is not fused. |q * scale| <= |w| + |zero * scale| bounds the products.
double ulps(const Case& c) {
  const index slots = c.slots(), group = c.shape.group == 0 ? slots : c.shape.group;
  const index segments = (slots + 127) / 128 + w4_groups(slots, c.shape.group);
  return static_cast<double>(2 * std::min<index>({slots, group, 128}) + 4 * segments + 6);
}

// What int8_activations adds: half a step of every segment, |w| times; twice for the two roundings of
// the step. A subnormal step counts as zero: 127 of them.
Matrix rounding_of_x(const Case& c, const Dense& d) {
  const index slots = c.slots(), rows = c.shape.rows;
  const index group = c.shape.group == 0 ? std::max<index>(slots, 1) : c.shape.group;
  Matrix bound = Matrix::Zero(rows, c.shape.n);
  for (index t = 0; t < rows; ++t)
    for (index s = 0; s < slots;) {
      const index end = std::min({slots, (s / group + 1) * group, (s / 128 + 1) * 128});
      double largest = 0;
      for (index i = s; i < end; ++i)
        if (c.input(i) >= 0) largest = std::max(largest, std::abs(c.x.get(t * c.shape.k + c.input(i))));
      const double half = largest / 127 / 2 * (1 + 1e-6) + 127 * 0x1p-126;
      for (; s < end; ++s)
        for (index n = 0; n < c.shape.n && c.input(s) >= 0; ++n) bound(t, n) += half * std::abs(d.w(n, c.input(s)));
    }
  return bound;
}

void compare(const Case& start) {
  const Dense d = dense(start);
  const Matrix x = matrix(start.x);
  Matrix product = x * d.w.transpose(), size = x.cwiseAbs() * d.size.transpose();
  for (index n = 0; start.bias.present() && start.shape.rows > 0 && n < start.shape.n; ++n) {
    product.col(n).array() += start.bias.get(n);
    size.col(n).array() += std::abs(start.bias.get(n));
  }
  const double f32_ulps = ulps(start);
  if (start.compute == W4Compute::int8_activations) size += rounding_of_x(start, d) / (f32_ulps * epsilon(DType::f32));

  // A tiny x loses bits when 2^-12 is taken out of it: 2^-150, times codes and scales below 2^15.
  size.array() += static_cast<double>(start.slots()) * 0x1p-135 / (f32_ulps * epsilon(DType::f32));

  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  for (index k = 0; k < expected.y.size(); ++k)
    ASSERT_NEAR(
        expected.y.get(k), product.data()[k],
        1e-12 * size.data()[k] + epsilon(start.y.dtype()) * std::abs(product.data()[k]) + underflow(start.y.dtype()));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.y, expected.y, f32_ulps, [&](index k) { return size.data()[k]; });
    EXPECT_TRUE(got.y.gaps_untouched());
  });
}

const index row_sizes[] = {0, 1, 2, 3, 5, 13};
const index channel_sizes[] = {1, 15, 16, 17, 33, 129};
const index input_sizes[] = {1, 7, 8, 9, 31, 64, 65, 255, 257, 520};
const index group_sizes[] = {0, 8, 16, 32, 64, 128};

TEST(linear_w4a16, sweep) {
  Rng rng(1);
  index turn = 0;  // walks through the other dimensions, all of them prime to each other
  for (index rows : row_sizes)
    for (index n : channel_sizes)
      for (index k : input_sizes) {
        const DType type = float_types[turn % 3];
        const Types types{.x = type,
                          .y = turn % 2 ? type : DType::f32,
                          .scales = float_types[turn / 3 % 3],
                          .zeros = turn % 5 < 2 ? DType::u8 : float_types[turn % 3],
                          .offsets = float_types[(turn % 5 < 3 ? turn / 3 : turn) % 3]};
        const Shape shape{rows, n, k, group_sizes[turn % 6], turn % 7 < 4 ? 4 : 8};
        const Form form = static_cast<Form>(turn / 2 % 3);
        Case c = make(shape, form, types, layouts[turn % 3], rng);
        if (turn % 4 == 3) c.compute = W4Compute::int8_activations;
        ++turn;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// Tiles of 12 and 6 rows, chunks of 240, jobs of 8 panels: one more and one less of each.
TEST(linear_w4a16, many_rows) {
  Rng rng(2);
  for (index rows : {4, 6, 7, 8, 11, 12, 25, 241}) {
    for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations}) {
      Case c = make({rows, rows == 241 ? 145 : 49, 264, 32, 4}, Form::symmetric, {}, {}, rng);
      c.compute = compute;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
  }
}

// Row by row, in a batch, on any number of threads: the same bits.
TEST(linear_w4a16, a_row_alone_and_in_a_batch_are_bitwise_equal) {
  Rng rng(3);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (index bits : {4, 8})
      for (index rows : {2, 6, 15}) {
        Case start = make({rows, 81, 531, 64, bits}, Form::zeros, {.scales = DType::f16}, {}, rng);
        start.compute = compute;
        for (Isa isa : available_isas()) {
          SCOPED_TRACE(describe(std::string(inlay::name(isa)), bits, rows, static_cast<int>(compute)));
          Case alone = start;
          for (index t = 0; t < rows; ++t) {
            LinearW4a16<Host> op = alone.op();
            op.x = op.x.slice(0, t, 1);
            op.y = op.y.slice(0, t, 1);
            const Cpu cpu(isa, serial());
            ASSERT_TRUE(ok(run_with_scratch(cpu, op)));
          }
          for (int threads : {1, 2, 3}) {
            Case batch = start;
            const Cpu cpu(isa, openmp(threads));
            ASSERT_TRUE(ok(run_with_scratch(cpu, batch.op())));
            expect_equal(batch.y, alone.y);
          }
        }
      }
}

// Slots in any order, some without input; an input that no slot names is never read.
TEST(linear_w4a16, perm) {
  Rng rng(4);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (DType type : float_types)
      for (index rows : {1, 3, 14}) {
        Case c = make({rows, 20, 70, 32, 4}, Form::zeros, {.x = type}, layouts[1], rng, 75);
        std::vector<double> order(75, -1);
        for (index i = 0; i < 70; ++i) order[static_cast<std::size_t>(i)] = static_cast<double>(i);
        std::shuffle(order.begin(), order.end(), rng);
        for (index s = 0; s < 75; ++s) c.perm.set(s, order[static_cast<std::size_t>(s)]);
        c.compute = compute;
        ASSERT_NO_FATAL_FAILURE(compare(c));
        Case unread = c;
        for (index s = 0; s < 75; ++s)
          if (unread.perm.get(s) == 33) unread.perm.set(s, -1);
        for (index t = 0; t < rows; ++t) unread.x.set(t * 70 + 33, std::numeric_limits<double>::quiet_NaN());
        on_every_backend([&](const std::string&, auto run) {
          Case got = unread;
          ASSERT_TRUE(ok(run(got.op())));
          for (index k = 0; k < got.y.size(); ++k) ASSERT_TRUE(std::isfinite(got.y.get(k)));
        });
      }
}

// -128 * 255 and 127 * 255 over a long row: integer sums neither saturate nor overflow.
TEST(linear_w4a16, int8_extremes) {
  Rng rng(5);
  for (index bits : {4, 8})
    for (double sign : {-1.0, 1.0}) {
      Case c = make({2, 17, 4100, 0, bits}, Form::zeros, {}, {}, rng);
      c.codes.fill(255);
      c.zeros.fill(0);
      c.x.fill(sign);
      c.compute = W4Compute::int8_activations;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(linear_w4a16, huge_and_tiny_activations) {
  Rng rng(6);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (double magnitude : {0.0, 1e-39, 1e-37, 1e5, 1e30}) {
      Case c = make({3, 17, 300, 32, 4}, Form::offsets, {}, {}, rng);
      c.x.uniform(rng, -magnitude, magnitude);
      c.bias = {};
      c.compute = compute;
      SCOPED_TRACE(magnitude);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Codes are subnormal operands on some machines: flushing may take what is small from x, and never a code.
TEST(linear_w4a16, subnormals) {
  Rng rng(10);
  for (index rows : {1, 3})
    for (index bits : {4, 8})
      for (bool small : {false, true}) {
        SCOPED_TRACE(small ? "subnormal x" : "x");
        Case c = make({rows, 33, 100, 32, bits}, Form::zeros, {}, {}, rng);
        if (small) subnormals(c.x, rng, true);
        const Dense d = dense(c);
        const Matrix size = matrix(c.x).cwiseAbs() * d.size.transpose();
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          const auto scale = [&](index k) { return size.data()[k] + std::abs(c.bias.get(k % 33)); };
          // Each x, times its weight, and the result.
          expect_close(got.y, expected.y, ulps(c), scale, lost * (1 + d.size.rowwise().sum().maxCoeff()));
        });
      }
}

TEST(linear_w4a16, a_row_that_is_not_finite_stays_so_and_leaves_the_others_alone) {
  Rng rng(7);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      for (index rows : {1, 3}) {
        Case start = make({rows, 33, 100, 32, 4}, Form::symmetric, {}, {}, rng);
        start.x.set(41, bad);
        start.compute = compute;
        on_every_backend([&](const std::string&, auto run) {
          Case got = start;
          ASSERT_TRUE(ok(run(got.op())));
          for (index k = 0; k < got.y.size(); ++k) ASSERT_EQ(std::isfinite(got.y.get(k)), k >= 33) << k;
        });
      }
}

TEST(linear_w4a16, no_inputs_gives_the_bias) {
  Rng rng(8);
  for (index rows : {1, 2}) {
    Case start = make({rows, 18, 0, 32, 4}, Form::symmetric, {}, {}, rng);
    start.add_bias(rng);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.y.size(); ++k) ASSERT_EQ(got.y.get(k), got.bias.get(k % 18));
    });
  }
}

TEST(linear_w4a16, refuses_what_the_contract_does_not_cover) {
  Rng rng(9);
  Case c = make({2, 17, 64, 32, 4}, Form::zeros, {}, {}, rng, 64);
  const LinearW4a16<Host> good = c.op();
  EXPECT_TRUE(ok(check(good)));
  LinearW4a16<Host> op = good;
  op.bits = 5;
  expect_refused(op, {"bits", "5", "4 or 8"});
  op = good;
  op.group = 12;
  expect_refused(op, {"group", "12", "multiple of 8"});
  op.group = -8;
  expect_refused(op, {"group", "-8"});
  op.group = 16;
  expect_refused(op, {"scales", "[2, 2, 16]", "[2, 4, 16]"});
  op = good;
  op.bits = 8;
  expect_refused(op, {"codes", "[2, 8, 64]", "[2, 16, 64]"});
  op = good;
  Tensor<3> offsets(DType::f32, c.scales.extents());
  op.offsets = offsets;
  expect_refused(op, {"offsets", "zeros"});
  op = good;
  op.scales.dtype = DType::i8;
  expect_refused(op, {"scales", "i8", "f16"});
  op = good;
  op.y.dtype = DType::bf16;
  expect_refused(op, {"y", "bf16"});
  op = good;
  op.bias.extents[0] = 16;
  expect_refused(op, {"bias", "16", "17"});
  op = good;
  op.y = View<2>(c.x.data<float>(), {2, 17});
  expect_refused(op, {"y", "overlaps", "x"});
  op = good;
  op.compute = static_cast<W4Compute>(2);
  expect_refused(op, {"compute", "2", "0..1"});
  c.perm.set(5, 64);
  expect_refused(good, {"perm[5]", "64", "-1..63"});
  c.perm.set(5, -2);
  expect_refused(good, {"perm[5]", "-2"});
}

}  // namespace
}  // namespace inlay::test
