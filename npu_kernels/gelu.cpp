// y = g(x) * up, or g(x):
//
//   erf            g(x) = x normal_cdf(x)
//   tanh           g(x) = x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), since (1 + tanh v) / 2 = sigmoid(2 v)
//   quick          g(x) = x sigmoid(1.702 x)
//   relu_squared   g(x) = max(x, 0)^2
//   softcap        g(x) = cap tanh(x / cap)
//   xielu          g(x) = (alpha_p x + beta) x where x > 0, else alpha_n (e^min(x, eps) - 1) + (beta - alpha_n) x
//
//   load_vector   x, up         vector   the factor of x, one or two products         store   y
#include <inlay/ops/gelu.hpp>

#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/sigmoid.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

struct GeluOperands {
  rows::Grid grid;
  NdTensor x, up, y;
  GeluForm form;
  float cap, alpha_p, alpha_n, beta, slope, eps;  // as Gelu has them; slope: xielu's below zero
  bool gated;
};

// The tail beyond |x| is exp(-x^2/2) t p(t) with t = 1 / (1 + 0.35 |x|), p as in cpu_kernels/simd/normal_cdf.hpp. On
// the side of x it is what is wanted, on the other one minus it: 1 + erf would cancel for negative x.
void normal_cdf(Core& core, const Tensor& cdf, const Tensor& x, const Tensor& t, const Tensor& p) {
  constexpr float series[] = {1.469509221e-01f, -2.617126692e-01f, 1.658018015e-01f, -2.748288953e-02f,
                              1.072627730e-01f, 1.194170361e-01f,  1.399148040e-01f, 1.396186429e-01f};
  core.vunary(VectorOp::abs, t, x);
  core.vscalar(VectorOp::mul, t, t, 0.35f);
  core.vscalar(VectorOp::add, t, t, 1.0f);
  core.vunary(VectorOp::recip, t, t);
  core.vscalar(VectorOp::mul, p, t, -2.977043899e-02f);
  for (const float& term : series) {
    if (&term != series) core.vbinary(VectorOp::mul, p, p, t);
    core.vscalar(VectorOp::add, p, p, term);
  }
  core.vbinary(VectorOp::mul, p, p, t);
  core.vbinary(VectorOp::mul, t, x, x);
  core.vscalar(VectorOp::mul, t, t, -0.5f);
  core.vunary(VectorOp::exp, t, t);
  core.vbinary(VectorOp::mul, p, p, t);
  core.vscalar(VectorOp::mul, t, p, -1.0f);
  core.vscalar(VectorOp::add, t, t, 1.0f);
  core.vcompare(Compare::less, cdf, x, 0.0f);
  core.vselect(cdf, cdf, p, t);
}

// x sigmoid(..), whose factor becomes z.
void factor(Core& core, GeluForm form, const Tensor& z, const Tensor& x, const Tensor& spare, const Tensor& other) {
  if (form == GeluForm::erf) return normal_cdf(core, z, x, spare, other);
  if (form == GeluForm::quick) {
    core.vscalar(VectorOp::mul, z, x, 1.702f);
  } else {
    core.vscalar(VectorOp::mul, z, x, 0.044715f);
    core.vbinary(VectorOp::mul, z, z, x);
    core.vscalar(VectorOp::add, z, z, 1.0f);
    core.vscalar(VectorOp::mul, spare, x, 1.5957691216f);
    core.vbinary(VectorOp::mul, z, z, spare);
  }
  rows::sigmoid(core, z, spare);
}

// x and z become two factors of its xielu: alpha_p x + beta and x above zero, all of it and 1 below.
// e^u - 1 = 2 t / (1 - t) with t = tanh(u / 2) <= 0: nothing cancels.
void xielu(Core& core, const GeluOperands& op, const Tensor& x, const Tensor& z, const Tensor& below,
           const Tensor& other, const Tensor& one) {
  core.vscalar(VectorOp::min, below, x, op.eps);
  core.vscalar(VectorOp::mul, below, below, 0.5f);
  core.vunary(VectorOp::tanh, below, below);
  core.vscalar(VectorOp::mul, other, below, -1.0f);
  core.vscalar(VectorOp::add, other, other, 1.0f);
  core.vbinary(VectorOp::div, below, below, other);
  core.vscalar(VectorOp::mul, below, below, 2 * op.alpha_n);
  core.vscalar(VectorOp::mul, other, x, op.slope);
  core.vbinary(VectorOp::add, below, below, other);
  core.vcompare(Compare::greater, other, x, 0.0f);  // NaN is below, where the slope multiplies it
  core.vselect(z, other, x, one);
  core.vscalar(VectorOp::mul, x, x, op.alpha_p);
  core.vscalar(VectorOp::add, x, x, op.beta);
  core.vselect(x, other, x, below);
}

void gelu(Core& core, const GeluOperands& op) {
  const DType type = op.x.first.dtype;
  const bool mixes = op.form == GeluForm::xielu;
  const bool tail = op.form == GeluForm::erf || mixes, squares = op.form == GeluForm::relu_squared;
  const bool caps = op.form == GeluForm::softcap, halves = squares || mixes;
  rows::Need need = rows::Need().input(type).output(type).spare().spare();
  if (op.gated) need.input(type);
  if (tail) need.spare();
  const rows::TileIterator walk(core, op.grid, need);
  rows::Input x(core, "x", walk, op.x);
  std::optional<rows::Input> up;
  if (op.gated) up.emplace(core, "up", walk, op.up);
  rows::Output y(core, "y", walk, op.y);
  const Tensor factors = core.alloc("factor", Space::vector, walk.tile(), DType::f32);
  const Tensor spare = core.alloc("spare", Space::vector, walk.tile(), DType::f32);
  const Tensor other = tail ? core.alloc("tail", Space::vector, walk.tile(), DType::f32) : spare;
  const Tensor constant = halves || caps ? rows::constant(core, "0, 1 or the cap", mixes ? 1 : op.cap) : spare;

  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    // g is the product of two factors, which x and z become.
    const Tensor values = x.wide(), z = caps ? constant : window.of(factors);
    if (caps) {
      core.vscalar(VectorOp::div, values, values, op.cap);
      core.vunary(VectorOp::tanh, values, values);
    } else if (mixes) {
      xielu(core, op, values, z, window.of(spare), window.of(other), constant);
    } else if (squares) {
      const Tensor negative = window.of(spare);
      core.vcompare(Compare::less, negative, values, 0.0f);
      core.vselect(z, negative, constant, values);  // NaN stays, which a maximum loses
      core.vselect(values, negative, constant, values);
    } else {
      factor(core, op.form, z, values, window.of(spare), window.of(other));
    }
    if (op.gated) {  // between the halves of a square, which may be beyond f32 where the product is not
      core.vbinary(VectorOp::mul, values, values, halves ? up->wide() : z);
      core.vbinary(VectorOp::mul, y.into(window, values), values, halves ? z : up->wide());
      up->done();
    } else {
      core.vbinary(VectorOp::mul, y.into(window, values), values, z);
    }
    x.done();
    y.store(window);
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Gelu<Host>& op, const Choices&) {
  GeluOperands operands{.grid = {.rows = op.x.extents[0], .columns = op.x.extents[1]},
                        .x = rows::planes_of(memory.bind("x", op.x)),
                        .up = {},
                        .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                        .form = op.form,
                        .cap = op.cap,
                        .alpha_p = op.alpha_p,
                        .alpha_n = op.alpha_n,
                        .beta = op.beta,
                        .slope = xielu_slope(op),
                        .eps = op.eps,
                        .gated = op.up.present()};
  if (operands.gated) operands.up = rows::planes_of(memory.bind("up", op.up));
  return {.body = [operands](Core& core) { gelu(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.x, op.up, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Gelu<Host>>;

}  // namespace inlay::npu
