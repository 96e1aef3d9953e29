// ggml's ROPE. Its tables of cosines and sines hold for all layers of a graph: they are made once.
#include <inlay/ops/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Parameters {
  std::int32_t unused, dims, mode, context, original_context;
  float base, scale, yarn, magnitude, beta_fast, beta_slow;
  std::int32_t sections[4], first;  // of M-RoPE, which is declined; where the rotated part of a head begins
};
Parameters parameters(const ggml_tensor* op) {
  static_assert(sizeof(Parameters) <= sizeof op->op_params);
  Parameters read;
  std::memcpy(&read, op->op_params, sizeof read);
  return read;
}

// Of pair i; YaRN mixes the frequency as it is with the scaled one, by a ramp over the pairs.
double frequency(const Parameters& rope, const float* ramp_ends, const float* divisors, index i) {
  const double own = std::pow(static_cast<double>(rope.base), -2.0 * static_cast<double>(i) / rope.dims) /
                     (divisors ? divisors[i] : 1);
  if (rope.yarn == 0) return own * rope.scale;
  const double width = std::max(0.001, static_cast<double>(ramp_ends[1]) - ramp_ends[0]);
  const double along = (static_cast<double>(i) - ramp_ends[0]) / width;
  const double kept = (1 - std::clamp(along, 0.0, 1.0)) * rope.yarn;
  return own * rope.scale * (1 - kept) + own * kept;
}

Status make_tables(Context& context, const ggml_tensor* op) {
  const Parameters rope = parameters(op);
  const ggml_tensor *positions = op->src[1], *divisors = op->src[2];
  RopeTables& tables = context.ropes;
  std::array<std::int32_t, 16> key{};
  std::memcpy(key.data(), op->op_params, sizeof key);
  if (tables.positions == positions && tables.divisors == divisors && tables.parameters == key) return {};
  tables.positions = nullptr;

  const index pairs = rope.dims / 2, tokens = op->ne[2];
  float ramp_ends[2];
  ggml_rope_yarn_corr_dims(rope.dims, rope.original_context, rope.base, rope.beta_fast, rope.beta_slow, ramp_ends);
  std::vector<float> frequencies(static_cast<std::size_t>(2 * pairs));  // rounded, and what the rounding lost
  for (index i = 0; i < pairs; ++i) {
    const double f =
        frequency(rope, ramp_ends, divisors != nullptr ? static_cast<const float*>(divisors->data) : nullptr, i);
    frequencies[static_cast<std::size_t>(i)] = static_cast<float>(f);
    frequencies[static_cast<std::size_t>(pairs + i)] =
        static_cast<float>(f - static_cast<double>(static_cast<float>(f)));
  }
  tables.pairs = pairs;
  tables.cos.resize(static_cast<std::size_t>(tokens * pairs));
  tables.sin.resize(tables.cos.size());
  const float stretch = rope.yarn == 0 ? 1.0f : 1.0f + 0.1f * std::log(1.0f / rope.scale);
  Status status =
      context.run(RopeTable<Host>{.positions = {static_cast<const std::int32_t*>(positions->data), {1, tokens}},
                                  .inv_freq = {frequencies.data(), {2, pairs}},
                                  .cos = {tables.cos.data(), {tokens, pairs}},
                                  .sin = {tables.sin.data(), {tokens, pairs}},
                                  .magnitude = rope.magnitude * stretch});
  // Positions that the graph itself computes may change within it.
  if (status.ok() && positions->op == GGML_OP_NONE) {
    tables.positions = positions;
    tables.divisors = divisors;
    tables.parameters = key;
  }
  return status;
}

}  // namespace

bool supports_rope(const ggml_tensor* op) {
  const Parameters rope = parameters(op);
  if (rope.mode != GGML_ROPE_TYPE_NORMAL && rope.mode != GGML_ROPE_TYPE_NEOX) return false;
  const ggml_tensor *x = op->src[0], *divisors = op->src[2];
  return is_float_rows(x) && op->type == x->type && has_dense_rows(op) && op->src[1]->type == GGML_TYPE_I32 &&
         ggml_is_contiguous(op->src[1]) &&
         (divisors == nullptr || (divisors->type == GGML_TYPE_F32 && ggml_is_contiguous(divisors)));
}

Status rope(Context& context, const ggml_tensor* op) {
  if (Status status = make_tables(context, op); !status.ok()) return status;
  const RopeTables& tables = context.ropes;
  const Parameters rope = parameters(op);
  const index tokens = op->ne[2];
  for (index batch = 0; batch < op->ne[3]; ++batch) {
    Status status = context.run(Rope<Host>{.x = view_of<ConstView<3>>(op->src[0], {2, 1, 0}, {0, 0, 0, batch}),
                                           .cos = {tables.cos.data(), {tokens, tables.pairs}},
                                           .sin = {tables.sin.data(), {tokens, tables.pairs}},
                                           .y = view_of<View<3>>(op, {2, 1, 0}, {0, 0, 0, batch}),
                                           .first = rope.first,
                                           .interleaved = rope.mode == GGML_ROPE_TYPE_NORMAL});
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace inlay::ggml_binding
