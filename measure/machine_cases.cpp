#include "measure/machine_cases.hpp"

#include "npu_kernels/attention/decode_attention.hpp"
#include "npu_kernels/linear/gemm.hpp"
#include "npu_kernels/rms_norm.hpp"

namespace inlay::npu {

namespace {

template <class In, class Out> Outcome gemm_tape(const Device& device, index m, index n, index k, bool compute) {
  const std::vector<In> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
  std::vector<Out> c(static_cast<std::size_t>(m * n));
  Machine machine(device, {.compute = compute});
  const GemmOperands op{machine.global("a", std::span(a), {m, k}), machine.global("b", std::span(b), {n, k}),
                        machine.global("c", std::span(c), {m, n}, Use::out)};
  return machine.run([&](Core& core) { gemm(core, op); });
}

template <class T> Outcome rms_norm_tape(const Device& device, index rows, index columns, bool compute) {
  const std::vector<T> x(static_cast<std::size_t>(rows * columns)), weight(static_cast<std::size_t>(columns));
  std::vector<T> y(x.size());
  Machine machine(device, {.compute = compute});
  const RmsNormOperands op{machine.global("x", std::span(x), {rows, columns}),
                           machine.global("weight", std::span(weight), {1, columns}),
                           machine.global("y", std::span(y), {rows, columns}, Use::out)};
  return machine.run([&](Core& core) { rms_norm(core, op); });
}

Outcome decode_attention_tape(const Device& device, const std::vector<index>& size, bool compute) {
  const index sequences = size[0], heads = size[1], cache_heads = size[2], dim = size[3], length = size[4];
  const auto elements = [](index rows, index columns) { return static_cast<std::size_t>(rows * columns); };
  const index cache_rows = sequences * cache_heads * length;
  const std::vector<f16> q(elements(sequences * heads, dim)), k(elements(cache_rows, dim)), v(k.size());
  std::vector<f16> out(q.size());
  Machine machine(device, {.compute = compute});
  DecodeOperands op;
  op.q = machine.global("q", std::span(q), {sequences * heads, dim});
  op.out = machine.global("out", std::span(out), {sequences * heads, dim}, Use::out);
  op.k = machine.global("k", std::span(k), {cache_rows, dim});
  op.v = machine.global("v", std::span(v), {cache_rows, dim});
  op.sequences = sequences;
  op.heads = heads;
  op.cache_heads = cache_heads;
  op.length = length;
  op.splits = size[5];
  add_workspace(machine, op);
  return machine.run([&](Core& core) { decode_attention(core, op); }, op.launch());
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"gemm", "ascend-a2-like", DType::f16, {3072, 3072, 1024}, 0.90},
      {"gemm", "ascend-a2-like", DType::i8, {3072, 3072, 1024}, 0.90},
      {"gemm", "hexagon-htp-like", DType::f16, {2048, 2048, 2048}, 0.90},
      {"gemm", "hexagon-htp-like", DType::i8, {2048, 2048, 2048}, 0.90},
      {"gemm", "systolic32", DType::f16, {1024, 1024, 1024}, 0.90},
      {"gemm", "systolic32", DType::i8, {1024, 1024, 1024}, 0.90},
      {"gemm", "systolic128", DType::f16, {4096, 4096, 1024}, 0.90},
      {"gemm", "systolic128", DType::i8, {4096, 4096, 1024}, 0.90},
      {"rms_norm", "ascend-a2-like", DType::f16, {3072, 4096}, 0.90},
      {"rms_norm", "ascend-a2-like", DType::f32, {3072, 4096}, 0.90},
      {"rms_norm", "hexagon-htp-like", DType::f16, {1024, 4096}, 0.90},
      {"rms_norm", "systolic32", DType::f16, {512, 4096}, 0.90},
      {"rms_norm", "systolic128", DType::f16, {8192, 4096}, 0.90},
      {"decode_attention", "ascend-a2-like", DType::f16, {6, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention", "ascend-a2-like", DType::f16, {1, 32, 8, 128, 16384, 3}, 0.85},
      {"decode_attention", "hexagon-htp-like", DType::f16, {1, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention", "systolic32", DType::f16, {1, 32, 8, 128, 4096, 1}, 0.85},
      {"decode_attention",
       "systolic128",
       DType::f16,
       {4, 32, 8, 128, 4096, 1},
       0,
       "the array: 128 cycles of preload for 4 rows"},
  };
  return table;
}

std::string describe(const Case& c) {
  std::string text = std::string(c.program) + " " + std::string(name(c.dtype)) + " ";
  for (std::size_t i = 0; i < c.size.size(); ++i) text += (i ? " x " : "") + std::to_string(c.size[i]);
  return text + " on " + std::string(c.device);
}

Outcome run(const Case& c, const Device& device, bool compute) {
  if (c.program == "gemm")
    return c.dtype == DType::i8 ? gemm_tape<std::int8_t, std::int32_t>(device, c.size[0], c.size[1], c.size[2], compute)
                                : gemm_tape<f16, float>(device, c.size[0], c.size[1], c.size[2], compute);
  if (c.program == "decode_attention") return decode_attention_tape(device, c.size, compute);
  return c.dtype == DType::f32 ? rms_norm_tape<float>(device, c.size[0], c.size[1], compute)
                               : rms_norm_tape<f16>(device, c.size[0], c.size[1], compute);
}

}  // namespace inlay::npu
