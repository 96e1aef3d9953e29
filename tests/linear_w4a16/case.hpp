// One case of linear_w4a16: everything that it needs, so that backends start from the same bytes; and what it means.
#pragma once

#include <inlay/weights/linear_w4a16_import.hpp>

#include <map>

#include "cpu_kernels/linear/cuts.hpp"
#include "cpu_kernels/linear/w4a16_form.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/matrix.hpp"
#include "tests/support/subnormals.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

enum class Form { symmetric, zeros, offsets, codebook };
inline constexpr int forms = 4;

// How a code becomes a number in a kernel.
struct CodeKind {
  Form form;
  index bits;
};
inline constexpr index code_bits[] = {4, 5, 6, 8};
inline constexpr CodeKind code_kinds[] = {
    {Form::zeros, 4}, {Form::zeros, 5}, {Form::zeros, 6}, {Form::zeros, 8}, {Form::codebook, 4}};

struct Shape {
  index rows, n, k, group, bits;
};

struct Case {
  Shape shape;
  Tensor<2> x, y;
  Tensor<3> codes, scales, zeros = {}, offsets = {}, super_scales = {}, super_offsets = {};
  Tensor<1> codebook = {}, perm = {}, bias = {};
  W4Compute compute = W4Compute::exact_float;

  index slots() const { return perm.present() ? perm.size() : shape.k; }
  index input(index slot) const { return perm.present() ? static_cast<index>(perm.get(slot)) : slot; }
  LinearW4a16<Host> op() {
    LinearW4a16<Host> op{.x = x, .codes = codes, .scales = scales, .y = y};
    op.zeros = zeros, op.offsets = offsets;
    op.super_scales = super_scales, op.super_offsets = super_offsets;
    op.codebook = codebook, op.perm = perm, op.bias = bias;
    op.group = shape.group, op.bits = shape.bits;
    op.compute = compute;
    return op;
  }
  Case unrounded() const {
    Case wide = *this;
    wide.y = y.widened();
    return wide;
  }
  void add_bias(DType type, Rng& rng) { bias = Tensor<1>(type, {shape.n}, layouts[2]).uniform(rng); }
};

// Scales of i8 are in units of super-blocks, and offsets with them.
constexpr bool may_have_units(index group) { return group > 0 && w4_super_block % group == 0; }

struct Types {
  DType x = DType::f32, y = DType::f32, scales = DType::f32, zeros = DType::u8, offsets = scales;
};

// Codes fill their words to the last bit, and channels beyond n have NaN scales, or units of scales. A codebook has
// codes of 4 bits, whatever `s` says; its values lie in the whole range of their type or close together, in any order.
inline Case make(Shape s, Form form, Types types, Layout layout, Rng& rng, index slots = -1) {
  const bool permuted = slots >= 0;
  if (form == Form::codebook) s.bits = 4;
  if (!permuted) slots = s.k;
  const std::array<index, 3> per_group{w4_panels(s.n), w4_groups(slots, s.group), w4_panel};
  const std::array<index, 3> per_super_block{w4_panels(s.n), w4_super_blocks(slots), w4_panel};
  const Layout packed{.row_gap = 0, .misaligned = layout.misaligned};
  const bool in_units = types.scales == DType::i8;
  const auto units = [&](double low, double high) {
    return Tensor<3>(DType::f16, per_super_block, packed).uniform(rng, low, high);
  };
  Case c{.shape = s,
         .x = {types.x, {s.rows, s.k}, layout},
         .y = {types.y, {s.rows, s.n}, layout},
         .codes = {DType::u8, {w4_panels(s.n), w4_steps(slots, s.bits), w4_step_bytes(s.bits)}, packed},
         .scales = {types.scales, per_group, packed}};
  c.x.uniform(rng);
  c.codes.integers(rng, 0, 255);
  if (in_units) {
    c.scales.integers(rng, -128, 127);
    c.super_scales = units(0.0001, 0.001);
  } else {
    c.scales.uniform(rng, 0.01, 0.1);
  }
  if (form == Form::offsets && in_units) {
    c.offsets = Tensor<3>(DType::i8, per_group, packed).integers(rng, -128, 127);
    c.super_offsets = units(-0.005, 0.005);
  } else if (form == Form::offsets) {
    c.offsets = Tensor<3>(types.offsets, per_group, packed).uniform(rng, -0.5, 0.5);
  }
  if (form == Form::zeros) {
    c.zeros = {types.zeros, per_group, packed};
    if (types.zeros == DType::u8)
      c.zeros.integers(rng, 0, (1 << s.bits) - 1);
    else
      c.zeros.uniform(rng, 0, (1 << s.bits) - 1);
  }
  if (form == Form::codebook) {
    const int far = rng() % 2 ? 128 : 12;
    c.codebook = Tensor<1>(DType::i8, {w4_codebook}, packed).integers(rng, -far, far - 1);
  }
  Tensor<3>& floats = in_units ? c.super_scales : c.scales;
  for (index i = 0; i < floats.size(); ++i)
    if (i / (floats.extents()[1] * w4_panel) * w4_panel + i % w4_panel >= s.n)
      floats.set(i, std::numeric_limits<double>::quiet_NaN());
  if (permuted) {
    c.perm = {DType::i32, {slots}};
    for (index i = 0; i < slots; ++i) c.perm.set(i, static_cast<double>(i % s.k));
  }
  c.y.poison();
  return c;
}

// The weight as the drawing in the contract says, by slots: codes and, for each of them, its scale and its offset.
struct Weight {
  Matrix q, scale, offset;  // [n, slots]
  explicit Weight(Case c) {
    const index slots = c.slots(), n = c.shape.n, bits = c.shape.bits, of_step = bits == 8 ? 4 : 8;
    const index step_bytes = bits == 5 ? 80 : bits == 6 ? 96 : 64;
    const index steps = w4_steps(slots, c.shape.bits), groups = w4_groups(slots, c.shape.group);
    const auto* codes = c.codes.data<std::uint8_t>();
    q = scale = offset = Matrix::Zero(n, slots);
    double least = 0;
    for (index i = 0; i < c.codebook.size(); ++i)
      least = i == 0 ? c.codebook.get(i) : std::min(least, c.codebook.get(i));
    for (index i = 0; i < n; ++i)
      for (index s = 0; s < slots; ++s) {
        const std::uint8_t* const step = codes + (i / 16 * steps + s / of_step) * step_bytes;
        const index c16 = i % 16, j = s % of_step;
        index code = bits == 8 ? step[4 * c16 + j] : step[4 * c16 + j / 2] >> (j % 2 * 4) & 15;
        if (bits == 5) code += 16 * (step[64 + c16] >> j & 1);
        // From the lowest pair on: slots 0 4 1 5 2 6 3 7.
        if (bits == 6) code += 16 * (step[64 + 2 * c16 + j % 4 / 2] >> (j % 2 * 4 + j / 4 * 2) & 3);
        const index at = (i / 16 * groups + (c.shape.group == 0 ? 0 : s / c.shape.group)) * 16 + i % 16;
        const index super_at = (i / 16 * w4_super_blocks(slots) + s / 256) * 16 + i % 16;
        const auto in_units = [&](const Tensor<3>& of_groups, const Tensor<3>& units) {
          return of_groups.get(at) * (units.present() ? units.get(super_at) : 1);
        };
        const double zero = c.codebook.present() ? -least : c.zeros.present() ? c.zeros.get(at) : 1 << (bits - 1);
        q(i, s) = c.codebook.present() ? c.codebook.get(code) - least : static_cast<double>(code);
        scale(i, s) = in_units(c.scales, c.super_scales);
        offset(i, s) = c.offsets.present() ? in_units(c.offsets, c.super_offsets) : -zero * scale(i, s);
      }
  }
  Matrix w() const { return (q.array() * scale.array() + offset.array()).matrix(); }
};

// body(begin, end): slots that share a scale and a block, one after the other.
template <class Body> void each_segment(const Case& c, Body&& body) {
  const index slots = c.slots(), group = c.shape.group == 0 ? std::max<index>(slots, 1) : c.shape.group;
  for (index s = 0, end = 0; s < slots; s = end) {
    end = std::min({slots, (s / group + 1) * group, (s / cpu::w4_block + 1) * cpu::w4_block});
    body(s, end);
  }
}

// x by slots. For int8_activations as its page says: each segment in steps of max|x| / 127, in f32.
struct Activations {
  Matrix x, step;  // [rows, slots]; step is 1 where x is not rounded
  explicit Activations(const Case& c) : x(c.shape.rows, c.slots()), step(Matrix::Ones(c.shape.rows, c.slots())) {
    for (index t = 0; t < x.rows(); ++t) {
      for (index s = 0; s < x.cols(); ++s) x(t, s) = c.input(s) < 0 ? 0 : c.x.get(t * c.shape.k + c.input(s));
      if (c.compute == W4Compute::exact_float) continue;
      each_segment(c, [&](index s, index end) {
        const float largest = static_cast<float>(x.row(t).segment(s, end - s).cwiseAbs().maxCoeff());
        const float scale = largest / 127, inverse = scale >= 0x1p-126f ? 1 / scale : 0;
        for (; s < end; ++s) {
          x(t, s) = std::nearbyint(static_cast<float>(x(t, s)) * inverse) * static_cast<double>(scale);
          step(t, s) = scale;
        }
      });
    }
  }
};

// What a case gives, and what its bound is a multiple of.
struct Answer {
  Matrix y, walk;
};

// The walk of the roundings (tests/linear/case.hpp says what that is). exact_float: the products and their sums in a
// segment, times its scale; the sum of x, times its offset; the offset; the total. int8_activations: the sums of a
// segment are exact, so only what follows them.
inline Answer answer(const Case& c) {
  const Weight weight(c);
  const Activations a(c);
  const bool exact = c.compute == W4Compute::exact_float;
  Answer result{Matrix(c.shape.rows, c.shape.n), Matrix(c.shape.rows, c.shape.n)};
  for (index t = 0; t < c.shape.rows; ++t)
    for (index n = 0; n < c.shape.n; ++n) {
      double total = 0, squares = 0;
      each_segment(c, [&](index s, index end) {
        const double scale = weight.scale(n, s), offset = weight.offset(n, s);
        double chain = 0, of_x = 0, chain_walk = 0, x_walk = 0;
        for (; s < end; ++s) {
          const double x = a.x(t, s), product = x * weight.q(n, s);
          chain += product;
          of_x += x;
          chain_walk += product * product + chain * chain;
          x_walk += x * x + of_x * of_x;
        }
        const double part = chain * scale, shift = of_x * offset;
        if (exact) squares += scale * scale * chain_walk + offset * offset * x_walk;
        squares += part * part + 2 * shift * shift + (part + shift) * (part + shift) + (total + part) * (total + part);
        total += part + shift;
        squares += total * total;
      });
      if (c.bias.present()) total += c.bias.get(n);
      squares += total * total;
      result.y(t, n) = total;
      result.walk(t, n) = std::sqrt(squares);
    }
  return result;
}
inline constexpr double walk_ulps = 4;

// Cpu with the codes in a given form, whichever is faster here.
class CpuWithForm {
 public:
  using Space = Host;
  static constexpr std::string_view name = "cpu";
  CpuWithForm(const Cpu& cpu, simd::CodeForm form) : cpu(cpu), form(form) {}
  const Cpu& cpu;
  simd::CodeForm form;
};
inline Status supports(const CpuWithForm&, const LinearW4a16<Host>&) { return {}; }
inline std::size_t scratch_bytes(const CpuWithForm& backend, const LinearW4a16<Host>& op) {
  return inlay::scratch_bytes(backend.cpu, op);
}
inline Status compute(const CpuWithForm& backend, const LinearW4a16<Host>& op, Workspace workspace) {
  return cpu::dispatch<LinearW4a16<Host>>(backend.cpu.isa(), [&]<class Level>(Level) {
    return cpu::compute_as<Level>(backend.form, backend.cpu.parallel(), op, workspace);
  });
}

// As on_every_backend does; where codes become floats, a CPU is one with each form of them.
template <class Test> void on_every_form(W4Compute compute, Test&& test) {
  if (compute == W4Compute::int8_activations) return on_every_backend(test);
  for (const Cpu& cpu : cpus())
    for (simd::CodeForm form : {simd::CodeForm::converted, simd::CodeForm::subnormal}) {
      CpuWithForm backend(cpu, form);
      const std::string codes = form == simd::CodeForm::converted ? " converted codes, " : " subnormal codes, ";
      if (!on_backend(
              test, backend,
              "cpu " + std::string(name(cpu.isa())) + codes + std::to_string(cpu.parallel().width) + " threads"))
        return;
    }
  on_every_npu(test);
  on_every_device(test);
}

// judge(got) on every backend; forms and threads change no bit of a level.
template <class Judge> void on_all(const Case& start, Judge&& judge) {
  std::map<std::string, Tensor<2>> first;
  on_every_form(start.compute, [&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    EXPECT_TRUE(got.y.gaps_untouched());
    judge(got, label == "test device");
    if (!label.starts_with("cpu ")) return;
    const std::string level = label.substr(4, label.find_first_of(" ,", 4) - 4);
    expect_equal(got.y, first.try_emplace(level, got.y).first->second);
  });
}

// The reference is held to the drawing, and every backend to what the page says of its numbers.
inline void compare(const Case& start) {
  const Answer numbers = answer(start);
  Case textbook = start;
  textbook.compute = W4Compute::exact_float;
  const Answer exact = answer(textbook);
  Case reference_case = start.unrounded();
  SCOPED_TRACE(describe(reference_case.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, reference_case.op())));
  Tensor<2> expected(DType::f32, start.y.extents());
  for (index i = 0; i < expected.size(); ++i) {
    expected.set(i, numbers.y.data()[i]);
    const double y = exact.y.data()[i], size = exact.walk.data()[i];
    ASSERT_NEAR(reference_case.y.get(i), y, 1e-13 * size + epsilon(DType::f32) * std::abs(y) + 0x1p-149) << i;
  }
  // A tiny x loses bits when 2^-12 is taken out of it: 2^-150, times codes and scales below 2^15.
  const double lost = static_cast<double>(start.slots()) * 0x1p-135;
  on_all(start, [&](const Case& got, bool is_reference) {
    const Tensor<2>& right = is_reference ? reference_case.y : expected;
    expect_close(got.y, right, walk_ulps, [&](index k) { return numbers.walk.data()[k]; }, {.lost = lost});
  });
}

// Small integers, and scales that are powers of two: every sum is exact in any order. Each segment begins with the
// largest x, of 127 steps for int8_activations.
inline Case& small_integers(Case& c, Rng& rng) {
  const bool rounds = c.compute == W4Compute::int8_activations;
  for (index i = 0; i < c.x.size(); ++i) {
    const double value = static_cast<double>(static_cast<int>(rng() % 17) - 8);
    c.x.set(i, rounds && i % c.shape.k % w4_group_multiple == 0 ? (value < 0 ? -127 : 127) : value);
  }
  for (index i = 0; i < c.scales.size(); ++i)
    if (!std::isnan(c.scales.get(i))) c.scales.set(i, std::ldexp(1, static_cast<int>(rng() % 3)));
  for (Tensor<3>* units : {&c.super_scales, &c.super_offsets})
    for (index i = 0; i < units->size(); ++i)
      if (!std::isnan(units->get(i))) units->set(i, std::ldexp(1, static_cast<int>(rng() % 3) - 1));
  if (c.zeros.present()) c.zeros.integers(rng, 0, (1 << c.shape.bits) - 1);
  if (c.offsets.present()) c.offsets.integers(rng, -20, 20);
  if (c.bias.present()) c.bias.integers(rng, -100, 100);
  return c;
}
inline void compare_exactly(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  on_all(start, [&](const Case& got, bool) { expect_equal(got.y, expected.y); });
}

INLAY_RUNS_OF(LinearW4a16, extern);

}  // namespace inlay::test
