// Valid structs of the operators that work row by row.
#pragma once

#include <inlay/inlay.hpp>
#include <inlay/ops/skeleton.hpp>

#include "measure/cases/draw.hpp"

namespace inlay::cases {

inline void draw(Draw& d, Add<Host>& op) {
  const auto [rows, dim] = d.rows();
  op.a = d.in<2>(d.floats(), {rows, dim});
  op.b = d.in<2>(d.floats(), {d.chance(30) ? 1 : rows, dim});
  op.y = d.chance(20) ? Draw::over(op.a) : d.out<2>(op.a.dtype, {rows, dim});
}

inline void draw(Draw& d, Swiglu<Host>& op) {
  const auto [rows, dim] = d.rows();
  op.gate = d.in<2>(d.floats(), {rows, dim}, -4, 4);
  op.up = d.in<2>(op.gate.dtype, {rows, dim});
  op.y = d.chance(20) ? Draw::over(d.chance(50) ? op.gate : op.up) : d.out<2>(op.gate.dtype, {rows, dim});
  if (d.chance(30)) op.alpha = 1.702f, op.limit = 2, op.up_offset = 1;  // gpt-oss's limit of 7 no gate here comes to
}

inline void draw(Draw& d, Gelu<Host>& op) {
  const auto [rows, dim] = d.rows();
  op.x = d.in<2>(d.floats(), {rows, dim}, -4, 4);
  if (d.chance(50)) op.up = d.in<2>(op.x.dtype, {rows, dim});
  op.y = d.chance(20) ? Draw::over(op.x) : d.out<2>(op.x.dtype, {rows, dim});
  op.form = d.pick(
      {GeluForm::erf, GeluForm::tanh, GeluForm::quick, GeluForm::relu_squared, GeluForm::softcap, GeluForm::xielu});
  if (op.form == GeluForm::softcap) op.cap = static_cast<float>(d.real(0.5, 50));
  if (op.form != GeluForm::xielu) return;
  op.alpha_p = static_cast<float>(d.real(0, 2)), op.alpha_n = static_cast<float>(d.real(0, 2));
  op.beta = static_cast<float>(d.real(0, 1)), op.eps = static_cast<float>(d.real(-0.5, 0));
}

inline void draw(Draw& d, Skeleton<Host>& op) {
  const auto [rows, dim] = d.rows();
  op.x = d.in<2>(d.floats(), {rows, dim});
  if (d.chance(50)) op.intercept = d.in<1>(DType::f32, {dim});
  op.y = d.chance(20) ? Draw::over(op.x) : d.out<2>(op.x.dtype, {rows, dim});
  op.slope = static_cast<float>(d.real(-2, 2));
}

inline void draw(Draw& d, LayerNorm<Host>& op) {
  const auto [rows, dim] = d.rows();
  op.x = d.in<2>(d.floats(), {rows, dim});
  const DType weights = d.chance(50) ? DType::f32 : op.x.dtype;
  if (d.chance(70)) op.weight = d.in<1>(weights, {dim}, 0.5, 1.5);
  if (d.chance(70)) op.bias = d.in<1>(weights, {dim});
  if (d.chance(40)) {
    op.residual = d.out<2>(op.x.dtype, {rows, dim});
    d.fill(op.residual, -1, 1);
  }
  op.y = d.chance(20) ? Draw::over(op.x) : d.out<2>(op.x.dtype, {rows, dim});
  op.eps = static_cast<float>(d.real(1e-6, 1e-2));
}

inline void draw(Draw& d, RmsNorm<Host>& op) {
  const auto [rows, dim] = d.rows();
  const bool quantized = d.chance(30);
  op.heads = quantized ? 1 : d.between(1, 3);
  op.x = d.in<2>(d.floats(), {rows, op.heads * dim});
  op.weight = d.in<1>(d.chance(50) ? DType::f32 : op.x.dtype, {dim});
  if (d.chance(30)) {
    op.residual = d.out<2>(op.x.dtype, op.x.extents);
    d.fill(op.residual, -1, 1);
  }
  op.y = !quantized && d.chance(20) ? Draw::over(op.x) : d.out<2>(quantized ? DType::i8 : op.x.dtype, op.x.extents);
  if (quantized) op.y_scale = d.out<1>(DType::f32, {rows});
  if (d.chance(30)) op.weight_offset = 1;
}

inline void draw(Draw& d, Softmax<Host>& op) {
  const auto [rows, n] = d.rows();
  const index heads = d.between(1, 3);
  op.x = d.in<3>(d.floats(), {heads, rows, n}, -4, 4);
  if (d.chance(60)) {
    const std::array<index, 3> extents{d.chance(50) ? 1 : heads, d.chance(50) ? 1 : rows, n};
    op.mask =
        d.chance(50) ? d.in<3>(DType::boolean, extents, 0, 1) : d.in<3>(d.pick({DType::f32, op.x.dtype}), extents);
    if (op.mask.dtype != DType::boolean && d.owns(op.mask) && d.chance(60)) Draw::set(op.mask, 0, -HUGE_VAL);
  }
  if (d.chance(30)) op.sink = d.in<1>(DType::f32, {heads});
  const DType y = d.chance(50) ? DType::f32 : op.x.dtype;
  op.y = y == op.x.dtype && d.chance(20) ? Draw::over(op.x) : d.out<3>(y, op.x.extents);
  op.scale = static_cast<float>(d.real(-2, 2));
  op.log = d.chance(30);
}

inline void draw(Draw& d, RopeTable<Host>& op) {
  const index tokens = d.extent(20), pairs = d.extent(40), axes = d.between(1, 3);
  op.positions = d.in<2>(d.ids(), {axes, tokens}, -1000, 1000000);
  op.inv_freq = d.in<2>(DType::f32, {d.between(1, 2), pairs}, 0, 1);
  if (d.chance(40)) op.axis = d.indices<1>(DType::i32, {pairs}, 0, axes - 1);
  op.cos = d.out<2>(DType::f32, {tokens, pairs});
  op.sin = d.out<2>(DType::f32, {tokens, pairs});
  if (d.chance(30)) op.magnitude = 1.25f;
}

inline void draw(Draw& d, Rope<Host>& op) {
  const auto [tokens, dim] = d.rows();
  const index heads = d.extent(4), pairs = dim / 2 < 1 ? 0 : d.between(0, dim / 2), cached = d.between(1, 9);
  op.x = d.in<3>(d.floats(), {tokens, heads, dim});
  const bool listed = tokens < 4096 && d.chance(50);
  const DType table = d.chance(50) ? DType::f32 : op.x.dtype;
  op.cos = d.in<2>(table, {listed ? cached : tokens, pairs});
  op.sin = d.in<2>(table, op.cos.extents);
  if (listed) op.positions = d.indices<1>(d.ids(), {tokens}, 0, cached - 1);
  op.y = d.chance(30) ? Draw::over(op.x) : d.out<3>(op.x.dtype, op.x.extents);
  op.first = d.between(0, dim - 2 * pairs);
  op.interleaved = d.chance(50);
}

inline void draw(Draw& d, Embedding<Host>& op) {
  const index vocab = d.between(1, 9), tokens = d.extent(9);
  index dim = d.extent(70);
  const DType type = d.pick({DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8});
  if (type == DType::u8) {
    op.format = d.pick({GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1, GgmlType::Q2_K,
                        GgmlType::Q3_K, GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K, GgmlType::IQ4_NL,
                        GgmlType::IQ4_XS, GgmlType::MXFP4});
    dim = d.between(0, 2) * ggml_format(op.format).block;
    // Scales of any bits would be infinite now and then; bytes 0..63 make small ones.
    op.table = d.in<2>(type, {vocab, ggml_row_bytes(op.format, dim)}, 0, 63);
  } else {
    op.table = d.in<2>(type, {vocab, dim}, type == DType::i8 ? -128 : -1, type == DType::i8 ? 127 : 1);
  }
  if (type == DType::i8) op.row_scale = d.in<1>(DType::f32, {vocab});
  op.ids = d.indices<1>(d.ids(), {tokens}, 0, vocab - 1);
  op.y = d.out<2>(d.floats(), {tokens, dim});
  op.scale = static_cast<float>(d.real(-2, 2));
}

// One scale for all, for each, or for each group.
inline index scales_of(Draw& d, index count, index& group) {
  if (d.chance(40) && count > 0) {
    group = d.pick<index>({1, 2, 3, 8, 16, 33, largest});
    return groups_of(count, group);
  }
  return d.chance(50) || count > 4096 ? 1 : count;
}

inline void draw(Draw& d, Quantize<Host>& op) {
  const auto [rows, cols] = d.rows();
  op.x = d.in<2>(d.floats(), {rows, cols});
  op.y = d.out<2>(d.pick({DType::i8, DType::u8, DType::i4, DType::u4}), {rows, cols});
  const bool is_signed = op.y.dtype == DType::i8 || op.y.dtype == DType::i4;
  if (d.chance(50) && rows < 4096) {
    op.row_scale = d.out<1>(DType::f32, {rows});
    if (!is_signed || d.chance(50)) op.row_zero = d.out<1>(op.y.dtype, {rows});
    return;
  }
  const index down = scales_of(d, rows, op.row_group), across = scales_of(d, cols, op.column_group);
  op.scale = d.in<2>(d.floats(), {down, across}, 0.01, 0.1);
  if (d.chance(50)) op.zero = d.in<2>(op.y.dtype, {down, across}, is_signed ? -8 : 0, 7);
}

inline void draw(Draw& d, Dequantize<Host>& op) {
  const auto [rows, cols] = d.rows();
  op.x = d.in<2>(d.pick({DType::i8, DType::u8, DType::i4, DType::u4}), {rows, cols}, -128, 127);
  const index down = scales_of(d, rows, op.row_group), across = scales_of(d, cols, op.column_group);
  op.scale = d.in<2>(d.floats(), {down, across});
  if (d.chance(50)) op.zero = d.in<2>(op.x.dtype, {down, across}, -8, 7);
  op.y = d.out<2>(d.floats(), {rows, cols});
}

inline void draw(Draw& d, MergeStates<Host>& op) {
  const index states = d.between(1, 5), tokens = d.extent(9), heads = d.extent(4), dim = d.extent(70);
  op.partial_out = d.in<4>(d.floats(), {states, tokens, heads, dim});
  op.partial_lse = d.in<3>(DType::f32, {states, tokens, heads}, -9, 9);
  if (!op.partial_lse.empty() && d.chance(50)) Draw::set(op.partial_lse, 0, -HUGE_VAL);
  op.out = d.out<3>(d.floats(), {tokens, heads, dim});
  if (d.chance(60)) op.lse = d.out<2>(DType::f32, {tokens, heads});
}

inline void draw(Draw& d, MoeRouting<Host>& op) {
  const index tokens = d.extent(40), of_group = d.between(1, 9);
  op.groups = d.chance(50) ? 1 : d.between(1, 5);
  const index experts = op.groups == 1 ? d.between(1, 70) : of_group * op.groups;
  op.groups_kept = d.between(1, op.groups);
  const index top_k = d.between(1, experts / op.groups * op.groups_kept);
  op.logits = d.in<2>(d.floats(), {tokens, experts}, -4, 4);
  op.weights = d.out<2>(DType::f32, {tokens, top_k});
  op.ids = d.out<2>(DType::i32, {tokens, top_k});
  op.rows = d.out<2>(DType::i32, {tokens, top_k});
  op.row_tokens = d.out<1>(DType::i32, {tokens * top_k});
  op.expert_ends = d.out<1>(DType::i32, {experts});
  op.score = d.pick({MoeScore::softmax, MoeScore::sigmoid});
  if (op.groups == 1 && d.chance(30)) op.score = MoeScore::softmax_of_chosen;
  if (op.groups == 1 && d.chance(20)) op.score = MoeScore::sparsemixer, op.jitter = static_cast<float>(d.real(0, 1));
  op.renormalize = d.chance(50);
  op.scale = static_cast<float>(d.real(-2, 2));
}

// Without the rows that no memory has: check reads all of `rows`.
inline void draw(Draw& d, MoeCombine<Host>& op) {
  const index tokens = d.extent(9), dim = d.extent(70), top_k = d.between(1, 5), rows = d.between(1, 9);
  op.x = d.in<2>(d.floats(), {rows, dim});
  op.rows = d.indices<2>(DType::i32, {tokens, top_k}, 0, rows - 1);
  op.weights = d.in<2>(DType::f32, {tokens, top_k});
  if (d.chance(60)) {
    op.shared = d.in<2>(op.x.dtype, {tokens, dim});
    if (d.chance(50)) op.shared_gate = d.in<2>(d.floats(), {tokens, 1}, -4, 4);
  }
  const DType y = d.chance(50) ? DType::f32 : op.x.dtype;
  op.y = op.shared.present() && y == op.x.dtype && d.chance(20) ? Draw::over(op.shared) : d.out<2>(y, {tokens, dim});
}

inline void draw(Draw& d, Sampling<Host>& op) {
  const index rows = d.extent(5), vocab = d.chance(20) ? d.between(100, 300) : d.between(1, 70);
  op.logits = d.in<2>(DType::f32, {rows, vocab}, -5, 5);
  if (d.chance(40)) {
    op.history = d.in<2>(d.ids(), {rows, d.extent(9)}, -1, static_cast<double>(vocab - 1));
    if (d.chance(50)) op.prompt_lengths = d.indices<1>(d.ids(), {rows}, 0, op.history.extents[1]);
    op.repetition_penalty = static_cast<float>(d.real(0.5, 2));
    op.frequency_penalty = static_cast<float>(d.real(-1, 1));
    op.presence_penalty = static_cast<float>(d.real(-1, 1));
  }
  if (d.chance(30)) op.seeds = d.in<1>(DType::i64, {rows}, -1e9, 1e9);
  if (d.chance(30)) op.steps = d.in<1>(DType::i64, {rows}, 0, 1e9);
  op.tokens = d.out<1>(d.ids(), {rows});
  if (d.chance(40)) op.probs = d.out<2>(DType::f32, {rows, vocab});
  if (d.chance(60)) op.temperature = d.chance(20) ? 0.0f : static_cast<float>(d.real(0.3, 2));
  if (d.chance(30)) op.top_k = d.between(0, 80);
  if (d.chance(30)) op.top_p = static_cast<float>(d.real(0, 1));
  if (d.chance(30)) op.min_p = static_cast<float>(d.real(0, 1));
  if (d.chance(20)) op.typical_p = static_cast<float>(d.real(0, 1));
  if (d.chance(20)) op.top_n_sigma = static_cast<float>(d.real(0, 3));
  if (d.chance(20)) op.xtc_probability = 0.5f;
  op.temperature_last = d.chance(20);
  op.seed = static_cast<std::int64_t>(d.bits64());
}

}  // namespace inlay::cases
