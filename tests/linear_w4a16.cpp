#include <inlay/ops/linear_w4a16_import.hpp>

#include <Eigen/Core>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
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
  Tensor<3> codes, scales, zeros, offsets;
  Tensor<1> perm, bias;
  bool with_zeros = false, with_offsets = false, with_perm = false, with_bias = false;
  W4Compute compute = W4Compute::exact_float;

  index slots() const { return with_perm ? perm.size() : shape.k; }
  LinearW4a16<Host> op() {
    LinearW4a16<Host> op{.x = x, .codes = codes, .scales = scales, .y = y};
    if (with_zeros) op.zeros = zeros;
    if (with_offsets) op.offsets = offsets;
    if (with_perm) op.perm = perm;
    if (with_bias) op.bias = bias;
    op.group = shape.group;
    op.bits = shape.bits;
    op.compute = compute;
    return op;
  }
};

struct Types {
  DType x = DType::f32, y = DType::f32, scales = DType::f32, zeros = DType::u8;
};

// Codes fill their words to the last bit, and channels beyond n have NaN scales.
Case make(const Shape& s, Form form, Types types, Layout layout, Rng& rng, index slots = -1) {
  const bool with_perm = slots >= 0;
  if (!with_perm) slots = s.k;
  const std::array<index, 3> per_group{w4_panels(s.n), w4_groups(slots, s.group), w4_panel};
  const Layout packed{.row_gap = 0, .misaligned = layout.misaligned};
  Case c{.shape = s,
         .x = {types.x, {s.rows, s.k}, layout},
         .y = {types.y, {s.rows, s.n}, layout},
         .codes = {DType::u8, {w4_panels(s.n), w4_steps(slots, s.bits), 64}, packed},
         .scales = {types.scales, per_group, packed},
         .zeros = {types.zeros, per_group, packed},
         .offsets = {types.scales, per_group, packed},
         .perm = {DType::i32, {slots}},
         .bias = {types.x, {s.n}}};
  c.x.uniform(rng);
  c.bias.uniform(rng);
  c.codes.integers(rng, 0, 255);
  c.scales.uniform(rng, 0.01, 0.1);
  c.offsets.uniform(rng, -0.5, 0.5);
  if (types.zeros == DType::u8)
    c.zeros.integers(rng, 0, (1 << s.bits) - 1);
  else
    c.zeros.uniform(rng, 0, (1 << s.bits) - 1);
  for (index i = 0; i < c.scales.size(); ++i)
    if (i / (per_group[1] * w4_panel) * w4_panel + i % w4_panel >= s.n)
      c.scales.set(i, std::numeric_limits<double>::quiet_NaN());
  c.with_perm = with_perm;
  for (index i = 0; i < slots; ++i) c.perm.set(i, static_cast<double>(i % s.k));
  c.with_zeros = form == Form::zeros;
  c.with_offsets = form == Form::offsets;
  c.with_bias = (s.n + s.k) % 2;
  c.y.poison();
  return c;
}

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

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
      const index input = c.with_perm ? static_cast<index>(c.perm.get(s)) : s;
      if (input < 0) continue;
      const std::uint8_t* bytes = codes + ((i / 16 * steps + s / per_word) * 16 + i % 16) * 4;
      const std::uint32_t word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
      const double q = word >> (s % per_word * c.shape.bits) & ((1u << c.shape.bits) - 1);
      const index at = (i / 16 * groups + (c.shape.group == 0 ? 0 : s / c.shape.group)) * 16 + i % 16;
      const double scale = c.scales.get(at), zero = c.with_zeros ? c.zeros.get(at) : 1 << (c.shape.bits - 1);
      const double offset = c.with_offsets ? c.offsets.get(at) : -zero * scale;
      d.w(i, input) += q * scale + offset;
      d.size(i, input) += std::abs(q * scale + offset) + 2 * std::abs(offset);
    }
  return d;
}
Matrix values(const Tensor<2>& x) {
  Matrix m(x.extents()[0], x.extents()[1]);
  for (index k = 0; k < x.size(); ++k) m.data()[k] = x.get(k);
  return m;
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
  const auto input = [&](index s) { return c.with_perm ? static_cast<index>(c.perm.get(s)) : s; };
  for (index t = 0; t < rows; ++t)
    for (index s = 0; s < slots;) {
      const index end = std::min({slots, (s / group + 1) * group, (s / 128 + 1) * 128});
      double largest = 0;
      for (index i = s; i < end; ++i)
        if (input(i) >= 0) largest = std::max(largest, std::abs(c.x.get(t * c.shape.k + input(i))));
      const double half = largest / 127 / 2 * (1 + 1e-6) + 127 * 0x1p-126;
      for (; s < end; ++s)
        for (index n = 0; n < c.shape.n && input(s) >= 0; ++n) bound(t, n) += half * std::abs(d.w(n, input(s)));
    }
  return bound;
}

void compare(const Case& start) {
  const Dense d = dense(start);
  const Matrix x = values(start.x);
  Matrix product = x * d.w.transpose(), size = x.cwiseAbs() * d.size.transpose();
  for (index n = 0; start.with_bias && start.shape.rows > 0 && n < start.shape.n; ++n) {
    product.col(n).array() += start.bias.get(n);
    size.col(n).array() += std::abs(start.bias.get(n));
  }
  const double f32_ulps = ulps(start);
  if (start.compute == W4Compute::int8_activations) size += rounding_of_x(start, d) / (f32_ulps * epsilon(DType::f32));

  // A tiny x loses bits when 2^-12 is taken out of it: 2^-150, times codes and scales below 2^15.
  size.array() += static_cast<double>(start.slots()) * 0x1p-135 / (f32_ulps * epsilon(DType::f32));

  Case expected = start;
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
                          .zeros = turn % 5 < 2 ? DType::u8 : float_types[turn % 3]};
        const Shape shape{rows, n, k, group_sizes[turn % 6], turn % 7 < 4 ? 4 : 8};
        const Form form = static_cast<Form>(turn / 2 % 3);
        Case c = make(shape, form, types, layouts[turn % 3], rng);
        if (turn % 4 == 3) c.compute = W4Compute::int8_activations;
        ++turn;
        SCOPED_TRACE(describe(rows, n, k, "group", shape.group, "bits", shape.bits, "form", static_cast<int>(form),
                              type, types.y, types.scales, types.zeros, static_cast<int>(c.compute)));
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// Tiles of 12 and 6 rows, chunks of 240, jobs of 8 panels: one more and one less of each.
TEST(linear_w4a16, many_rows) {
  Rng rng(2);
  for (index rows : {4, 6, 7, 8, 11, 12, 25, 241}) {
    SCOPED_TRACE(describe(rows));
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
        SCOPED_TRACE(describe(type, rows, static_cast<int>(compute)));
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
      c.with_bias = false;
      c.compute = compute;
      SCOPED_TRACE(describe(magnitude, static_cast<int>(compute)));
      ASSERT_NO_FATAL_FAILURE(compare(c));
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
    start.with_bias = true;
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
  c.with_bias = true;
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
  op.offsets = c.offsets;
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
  c.perm.set(5, 64);
  expect_refused(good, {"perm[5]", "64", "-1..63"});
  c.perm.set(5, -2);
  expect_refused(good, {"perm[5]", "-2"});
}

// ---- Imports: the packed form means the very numbers that the format means ----

Matrix unpacked(const PackedW4& weight) {
  Matrix m(weight.n, weight.k);
  std::vector<float> row(static_cast<std::size_t>(weight.k));
  for (index n = 0; n < weight.n; ++n) {
    weight.unpack(n, row.data());
    for (index i = 0; i < weight.k; ++i) m(n, i) = row[static_cast<std::size_t>(i)];
  }
  return m;
}

// And the operator reads it so.
void expect_product(const PackedW4& weight, Rng& rng) {
  Tensor<2> x(DType::f32, {3, weight.k}), y(DType::f32, {3, weight.n});
  x.uniform(rng);
  const Matrix w = unpacked(weight), product = values(x) * w.transpose();
  const double size = w.cwiseAbs().maxCoeff() * static_cast<double>(weight.k);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, weight.op(x, y))));
  for (index k = 0; k < y.size(); ++k) ASSERT_NEAR(y.get(k), product.data()[k], 4 * epsilon(DType::f32) * size);
}

// Codes, zero points and scales of GPTQ and AWQ, before they are put into words.
struct Plain {
  index n, k, group, bits;
  std::vector<std::uint32_t> codes, zeros;  // [n][k], [n][groups]
  Tensor<2> scales;                         // [groups, n] f16
  index groups() const { return w4_groups(k, group); }
};
Plain plain(index n, index k, index group, index bits, Rng& rng) {
  Plain p{n, k, group, bits, {}, {}, {DType::f16, {w4_groups(k, group), n}}};
  p.scales.uniform(rng, 0.01, 0.1);
  for (index i = 0; i < n * k; ++i) p.codes.push_back(static_cast<std::uint32_t>(rng() % (1u << bits)));
  // GPTQ v1 stores zero - 1: 0 cannot be said.
  for (index i = 0; i < n * p.groups(); ++i) p.zeros.push_back(static_cast<std::uint32_t>(1 + rng() % (1u << bits)));
  return p;
}
void set_word(Tensor<2>& words, index i, index j, index shift, std::uint32_t code) {
  auto& word = words.data<std::uint32_t>()[i * words.extents()[1] + j];
  word |= code << shift;
}
void expect_weight(const PackedW4& weight, const Plain& p, const std::vector<index>& group_of) {
  const Matrix w = unpacked(weight);
  for (index n = 0; n < p.n; ++n)
    for (index i = 0; i < p.k; ++i) {
      const index g = group_of[static_cast<std::size_t>(i)];
      const double q = p.codes[static_cast<std::size_t>(n * p.k + i)];
      const double zero = p.zeros[static_cast<std::size_t>(n * p.groups() + g)];
      ASSERT_EQ(w(n, i), (q - zero) * p.scales.get(g * p.n + n)) << n << ' ' << i;  // exact: f16 scales
    }
}

TEST(linear_w4a16, imports_gptq) {
  Rng rng(20);
  for (index bits : {4, 8})
    for (bool v2 : {false, true})
      for (const char* order : {"none", "in order", "act-order", "uneven"})
        for (index group : {0, 32, 64}) {
          SCOPED_TRACE(describe(bits, "v2", static_cast<int>(v2), std::string(order), group));
          const index k = 160, n = 24, per_word = 32 / bits;
          Plain p = plain(n, k, group, bits, rng);
          if (v2)
            for (auto& zero : p.zeros) zero = std::min(zero, (1u << bits) - 1);
          Tensor<2> qweight(DType::i32, {k / per_word, n}), qzeros(DType::i32, {p.groups(), n / per_word});
          qweight.fill(0);
          qzeros.fill(0);
          for (index c = 0; c < n; ++c)
            for (index i = 0; i < k; ++i)
              set_word(qweight, i / per_word, c, i % per_word * bits, p.codes[static_cast<std::size_t>(c * k + i)]);
          for (index c = 0; c < n; ++c)
            for (index g = 0; g < p.groups(); ++g)
              set_word(qzeros, g, c / per_word, c % per_word * bits,
                       p.zeros[static_cast<std::size_t>(c * p.groups() + g)] - (v2 ? 0 : 1));
          std::vector<index> group_of(static_cast<std::size_t>(k));
          for (index i = 0; i < k; ++i) group_of[static_cast<std::size_t>(i)] = group == 0 ? 0 : i / group;
          if (order == std::string("act-order")) std::shuffle(group_of.begin(), group_of.end(), rng);
          if (order == std::string("uneven"))
            for (auto& g : group_of) g = static_cast<index>(rng()) & 1 ? 0 : p.groups() / 2;
          Tensor<1> g_idx(DType::i32, {k});
          for (index i = 0; i < k; ++i) g_idx.set(i, static_cast<double>(group_of[static_cast<std::size_t>(i)]));
          GptqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = p.scales};
          if (order != std::string("none")) from.g_idx = g_idx;
          from.group = group;
          from.bits = bits;
          from.v2 = v2;
          const auto weight = import_gptq(from, openmp(2));
          ASSERT_TRUE(weight.has_value()) << weight.error().message();
          if (order == std::string("in order")) {
            EXPECT_TRUE(weight->perm.empty());
          }
          ASSERT_NO_FATAL_FAILURE(expect_weight(*weight, p, group_of));
          ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
        }
}

TEST(linear_w4a16, imports_awq) {
  Rng rng(21);
  for (index group : {0, 32}) {
    const index k = 72, n = 40;
    Plain p = plain(n, k, group, 4, rng);
    for (auto& zero : p.zeros) zero = std::min(zero, 15u);
    Tensor<2> qweight(DType::i32, {k, n / 8}), qzeros(DType::i32, {p.groups(), n / 8});
    qweight.fill(0);
    qzeros.fill(0);
    const index order[] = {0, 2, 4, 6, 1, 3, 5, 7};  // the channel in each nibble
    for (index block = 0; block < n / 8; ++block)
      for (index nibble = 0; nibble < 8; ++nibble) {
        const index c = 8 * block + order[nibble];
        for (index i = 0; i < k; ++i)
          set_word(qweight, i, block, 4 * nibble, p.codes[static_cast<std::size_t>(c * k + i)]);
        for (index g = 0; g < p.groups(); ++g)
          set_word(qzeros, g, block, 4 * nibble, p.zeros[static_cast<std::size_t>(c * p.groups() + g)]);
      }
    AwqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = p.scales};
    from.group = group;
    const auto weight = import_awq(from);
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    std::vector<index> group_of(static_cast<std::size_t>(k));
    for (index i = 0; i < k; ++i) group_of[static_cast<std::size_t>(i)] = group == 0 ? 0 : i / group;
    ASSERT_NO_FATAL_FAILURE(expect_weight(*weight, p, group_of));
    ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
  }
}

// Equal to the format's own dequantization, bit for bit; with f16 scales to their rounding.
TEST(linear_w4a16, imports_gguf) {
  Rng rng(22);
  for (GgmlType type : {GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q8_0, GgmlType::Q4_K, GgmlType::Q6_K}) {
    SCOPED_TRACE(std::string(ggml_format(type).name));
    const index n = 19, k = 512, row = ggml_row_bytes(type, k), block = ggml_format(type).bytes;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n * row));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng());
    // Every f16 of a block becomes a number near 0.06: the scale, and the minimum where there is one.
    const bool has_min = type == GgmlType::Q4_1 || type == GgmlType::Q4_K;
    for (index at = 0; at < n * row; at += block)
      for (index f = 0; f < (has_min ? 2 : 1); ++f)
        bytes[static_cast<std::size_t>(at + (type == GgmlType::Q6_K ? 208 : 2 * f) + 1)] = 0x2b;
    Matrix expected(n, k);
    std::vector<float> x(static_cast<std::size_t>(k));
    for (index c = 0; c < n; ++c) {
      ASSERT_TRUE(dequantize_row(type, bytes.data() + c * row, k, x.data()));
      for (index i = 0; i < k; ++i) expected(c, i) = x[static_cast<std::size_t>(i)];
    }
    const auto weight = import_gguf(type, bytes.data(), n, k, {}, openmp(2));
    ASSERT_TRUE(weight.has_value()) << weight.error().message();
    EXPECT_TRUE(unpacked(*weight) == expected);
    ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
    const auto narrow = import_gguf(type, bytes.data(), n, k, DType::f16);
    ASSERT_TRUE(narrow.has_value());
    // Scale and offset are each off by 2^-11 of codes up to 255 and scales below 0.07 * 128.
    const double largest = expected.cwiseAbs().maxCoeff() * 2 + 64;
    EXPECT_LE((unpacked(*narrow) - expected).cwiseAbs().maxCoeff(), 0x1p-11 * 2 * largest);
  }
  EXPECT_FALSE(import_gguf(GgmlType::Q4_K, nullptr, 1, 255).has_value());
  EXPECT_FALSE(import_gguf(GgmlType::F16, nullptr, 1, 256).has_value());
}

TEST(linear_w4a16, imports_onnx) {
  Rng rng(23);
  for (index bits : {4, 8})
    for (const char* zero_points : {"none", "u8", "f32"})
      for (index k : {64, 75}) {
        SCOPED_TRACE(describe(bits, std::string(zero_points), k));
        const index n = 18, group = 32, blocks = (k + group - 1) / group;
        Tensor<3> b(DType::u8, {n, blocks, group * bits / 8});
        Tensor<2> scales(DType::f32, {n, blocks}), packed(DType::u8, {n, (blocks * bits + 7) / 8});
        Tensor<2> floating(DType::f32, {n, blocks});
        b.integers(rng, 0, 255);
        scales.uniform(rng, 0.01, 0.1);
        packed.integers(rng, 0, 255);
        floating.uniform(rng, 0, 15);
        OnnxWeight from{.b = b, .scales = scales};
        from.k = k;
        from.group = group;
        from.bits = bits;
        if (zero_points == std::string("u8")) from.zero_points = packed;
        if (zero_points == std::string("f32")) from.zero_points = floating;
        const auto weight = import_onnx(from);
        ASSERT_TRUE(weight.has_value()) << weight.error().message();
        const Matrix w = unpacked(*weight);
        const auto nibble = [&](double byte, index i) {
          return static_cast<double>(bits == 8 ? static_cast<int>(byte) : static_cast<int>(byte) >> (i % 2 * 4) & 15);
        };
        for (index c = 0; c < n; ++c)
          for (index i = 0; i < k; ++i) {
            const index g = i / group, in_block = i % group;
            const double q = nibble(b.get((c * blocks + g) * (group * bits / 8) + in_block * bits / 8), in_block);
            double zero = 1 << (bits - 1);
            if (zero_points == std::string("u8")) zero = nibble(packed.get(c * packed.extents()[1] + g * bits / 8), g);
            if (zero_points == std::string("f32")) zero = floating.get(c * blocks + g);
            const double scale = scales.get(c * blocks + g);
            // zero * scale is rounded once, w once more.
            ASSERT_NEAR(w(c, i), (q - zero) * scale, epsilon(DType::f32) * (zero + std::abs(q - zero)) * scale);
          }
        ASSERT_NO_FATAL_FAILURE(expect_product(*weight, rng));
      }
}

// Nearest code: half a step off, and the clamped end of an f16 scale that was rounded down.
TEST(linear_w4a16, quantizes_to_nearest) {
  Rng rng(24);
  for (index bits : {4, 8})
    for (bool symmetric : {true, false})
      for (index group : {0, 32}) {
        Tensor<2> w(DType::f32, {17, 75});
        w.uniform(rng);
        const PackedW4 weight = quantize_w4a16(w, group, bits, symmetric);
        const double step = symmetric ? 1.0 / (1 << (bits - 1)) : 2.0 / ((1 << bits) - 1);
        // The last code reaches one step less than -w's extreme in the symmetric form.
        const double reach = symmetric ? 1 : 0.5;
        const Matrix got = unpacked(weight);
        for (index k = 0; k < w.size(); ++k)
          ASSERT_NEAR(got.data()[k], w.get(k), step * reach * (1 + 0x1p-9) + 2 * epsilon(DType::f16)) << k;
      }
}

TEST(linear_w4a16, imports_refuse_what_they_do_not_know) {
  Tensor<2> qweight(DType::i32, {16, 24}), qzeros(DType::i32, {4, 3}), scales(DType::f16, {4, 24});
  Tensor<1> g_idx(DType::i32, {128});
  g_idx.fill(4);
  GptqWeight from{.qweight = qweight, .qzeros = qzeros, .scales = scales};
  from.group = 32;
  EXPECT_TRUE(import_gptq(from).has_value());
  const auto refused = [&](const char* word) {
    const auto weight = import_gptq(from);
    ASSERT_FALSE(weight.has_value());
    EXPECT_NE(weight.error().message().find(word), std::string_view::npos) << weight.error().message();
  };
  from.g_idx = g_idx;
  refused("g_idx");
  from.g_idx = {};
  from.group = 12;
  refused("group");
  from.group = 64;
  refused("qzeros");
  from.group = 32;
  from.bits = 3;
  refused("bits");
}

}  // namespace
}  // namespace inlay::test
