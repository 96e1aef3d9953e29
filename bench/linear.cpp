// Few rows: the weight is read once, bytes = n * k * size, and memory is the limit. The copies of the
// weight take 256 MiB and more, so that every pass reads memory. Many rows: 2 * tokens * n * k
// operations, limited by fma, or by the bf16 dot product where x and the weight are bf16 or are rounded to it.
//
// "eigen": the same product by Eigen (bench/baselines/linear.cpp, built for this machine), timed in turn
// with ours: above 1 ours is faster.
#include <inlay/weights/linear_pack.hpp>

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
    small_down{"llama-1b/down", 2048, 8192}, qwen_up{"qwen-0.5b/up", 4864, 896},
    qwen_down{"qwen-0.5b/down", 896, 4864};

// From here on arithmetic is the limit: at 12 rows a byte of weights meets 6 to 12 operations.
constexpr index many_rows = 32;

// Packed copies of one weight, enough to outgrow the caches where the weight is only read once.
Operand<3> packed_weight(const Operand<2>& rows, DType type, index n, index k, bool rotate) {
  Operand<3> packed(type, linear_packed_extents(n, k, type), rotate);
  if (!pack_linear(inlay::threads(threads()), rows.view(0), packed.view(0)).ok()) std::abort();
  packed.spread();
  return packed;
}

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

void linear(benchmark::State& state, Types types, index tokens, Shape shape, bool packs) {
  const bool streams = tokens < many_rows;
  Operand<2> x(types.x, {tokens, shape.k}, false), y(types.x, {tokens, shape.n}, false);
  Operand<2> rows(types.weight, {shape.n, shape.k}, streams && !packs);
  const Operand<3> weight = packed_weight(rows, types.weight, shape.n, shape.k, streams && packs);
  const auto op = [&](index i) {
    Linear<Host> op{.x = x.view(0), .y = y.view(0), .compute = types.compute};
    if (packs)
      op.weight = weight.view(i);
    else
      op.weight_rows = rows.view(i);
    return op;
  };
  const double size = static_cast<double>(shape.n) * static_cast<double>(shape.k);
  Work work{.bytes = size * bits(types.weight) / 8, .flops = 2 * size * static_cast<double>(tokens)};
  const bool rounds = types.compute == LinearCompute::bf16_products;
  const bool dots = rounds || (types.x == DType::bf16 && types.weight == DType::bf16);
  work.limit = streams ? Limit::memory : dots ? Limit::bf16 : Limit::fma;
  const index panels = (shape.n + linear_panel - 1) / linear_panel;
  measure(state, work, op, {.rows = tokens * panels, .row = one_panel, .ulps = ulps(shape.k)});
  const bool beside = types.x == DType::f32 && types.weight == DType::f32 && packs && !rounds;
  if (!beside || measure::short_run()) return;
  // In turn, a handful of times: the machine's speed changes.
  const Cpu cpu = bench::cpu();
  Operand<2> plain(types.weight, {shape.n, shape.k}, streams);
  BenchWorkspace workspace(workspace_bytes(cpu, op(0)));
  std::vector<double> ours, theirs;
  for (index i = 0; i < 9; ++i) {
    Status status;
    ours.push_back(measure::seconds([&] { status = run(cpu, op(i), workspace); }));
    if (!status.ok()) std::abort();  // measure() has seen this call succeed
    theirs.push_back(measure::seconds([&] {
      eigen_linear(x.view(0).as<float>(), plain.view(i).as<float>(), y.view(0).as<float>(), tokens, shape.n, shape.k,
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
        linear(state, types, cut(tokens, 64), {shape.model, cut(shape.n), cut(shape.k)}, packs);
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
