// Few rows: memory is the limit; the copies of the weight take 256 MiB and more, so that every pass reads memory. Many
// rows: fma, or the bf16 dot product where x and the weight are bf16 or are rounded to it.
//
// "eigen": the same product by Eigen (bench/baselines/linear.cpp, built for this machine), timed in turn
// with ours: above 1 ours is faster.
#include "shapes/linear.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {

// y = x * w^T, row-major and contiguous, f32, `threads` threads.
void eigen_linear(const float* x, const float* w, float* y, index tokens, index n, index k, int threads);

namespace {

struct Shape {
  const char* model;
  index n, k;
};

// Projections of Llama-3-8B, Llama-3.2-1B and Qwen2.5-0.5B.
constexpr Shape llama_qo{"llama-8b/o", 4096, 4096}, llama_up{"llama-8b/up", 14336, 4096},
    llama_down{"llama-8b/down", 4096, 14336}, small_o{"llama-1b/o", 2048, 2048}, small_up{"llama-1b/up", 8192, 2048},
    small_down{"llama-1b/down", 2048, 8192}, qwen_up{"qwen-0.5b/up", 4864, 896}, qwen_down{"qwen-0.5b/down", 896, 4864};

// From here on arithmetic is the limit: at 12 rows a byte of weights meets 6 to 12 operations.
constexpr index many_rows = 32;

// One panel of one token's outputs: the textbook takes its time.
Linear<Host> one_panel(Linear<Host> op, index r) {
  const index n = op.y.extents[1], panels = (n + linear_panel - 1) / linear_panel;
  const index token = r / panels, panel = r % panels, first = panel * linear_panel;
  const index channels = std::min(linear_panel, n - first);
  keep_row(token, op.x, op.y);
  keep(1, first, channels, op.y);
  if (op.weight.present()) keep_row(panel, op.weight);
  if (op.weight_rows.present()) keep(0, first, channels, op.weight_rows);
  return op;
}

// max|y| of sums of k uniform products is near sqrt(k); the bound is relative to their magnitudes.
double ulps(index k) {
  const double chain = static_cast<double>(std::min<index>(k, 192) + k / 192 + 3);
  return chain * std::sqrt(static_cast<double>(k));
}

struct Types {
  DType x, weight;
  LinearCompute compute = LinearCompute::exact_float;
};

void linear(benchmark::State& state, const LinearShape& shape) {
  const bool streams = shape.m < many_rows, packs = !shape.in_rows;
  const bool rounds = shape.compute == LinearCompute::bf16_products;
  const bool dots = rounds || (shape.type == DType::bf16 && shape.weight == DType::bf16);
  Operands operands(streams);
  const auto op = [&](index i) { return shape.make(operands.of_call(i)); };
  Work work = work_at(shape);
  work.limit = streams ? Limit::memory : dots ? Limit::bf16 : Limit::fma;
  const index panels = (shape.n + linear_panel - 1) / linear_panel;
  measure(state, work, op, {.rows = shape.m * panels, .row = one_panel, .ulps = ulps(shape.k)});
  const bool beside = shape.type == DType::f32 && shape.weight == DType::f32 && packs && !rounds;
  if (!beside || measure::short_run()) return;
  // In turn, a handful of times: the machine's speed changes.
  const Cpu cpu = bench::cpu();
  LinearShape in_rows = shape;
  in_rows.in_rows = true;
  Operands of_eigen(streams);
  BenchWorkspace workspace(workspace_bytes(cpu, op(0)));
  std::vector<double> ours, theirs;
  for (index i = 0; i < 9; ++i) {
    Status status;
    ours.push_back(measure::seconds([&] { status = run(cpu, op(i), workspace); }));
    if (!status.ok()) std::abort();  // measure() has seen this call succeed
    const Linear<Host> plain = in_rows.make(of_eigen.of_call(i));
    theirs.push_back(measure::seconds([&] {
      eigen_linear(plain.x.as<float>(), plain.weight_rows.as<float>(), plain.y.as<float>(), shape.m, shape.n, shape.k,
                   threads());
    }));
  }
  state.counters["eigen"] = measure::median(theirs) / measure::median(ours);
}

void add_shape(Types types, index tokens, Shape shape, bool packs = true) {
  const std::string rounds = types.compute == LinearCompute::bf16_products ? "_bf16_products" : "";
  add("linear/" + std::string(name(types.x)) + "_" + std::string(name(types.weight)) + rounds +
          (packs ? "/" : "_rows/") + shape.model + "/" + std::to_string(tokens),
      [=](benchmark::State& state) {
        linear(state, {.m = cut(tokens, 64),
                       .n = cut(shape.n),
                       .k = cut(shape.k),
                       .type = types.x,
                       .weight = types.weight,
                       .in_rows = !packs,
                       .compute = types.compute});
      });
}

}  // namespace

void add_all() {
  constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  for (Types types : {Types{f32, f32}, Types{f32, f16}, Types{f32, bf16}, Types{bf16, bf16}}) {
    for (index tokens : {1, 2, 8, 512}) add_shape(types, tokens, llama_qo);
    add_shape(types, 1, llama_qo, false);
    add_shape(types, 512, llama_qo, false);
    for (index tokens : {1, 512}) add_shape(types, tokens, llama_down);
    add_shape(types, 1, llama_up);
    for (index tokens : {1, 64}) add_shape(types, tokens, qwen_up);
    add_shape(types, 1, qwen_down);
  }
  for (DType weight : {f32, f16, bf16}) {
    const Types types{f32, weight, LinearCompute::bf16_products};
    for (index tokens : {1, 2, 8, 64, 512}) add_shape(types, tokens, llama_qo);
    for (index tokens : {1, 512}) add_shape(types, tokens, llama_qo, false);
    for (Shape shape : {llama_up, llama_down, small_o, small_up, small_down, qwen_up, qwen_down})
      add_shape(types, 512, shape);
  }
}

}  // namespace inlay::bench
