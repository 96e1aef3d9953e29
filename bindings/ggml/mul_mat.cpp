// ggml's MUL_MAT of a weight [k, n, ..] and f32 rows [k, tokens, ..]. A quantized weight is one of linear_w4a16 with
// rounded activations, as ggml-cpu rounds them; float ones, among them keys and values where attention is not fused,
// are those of linear, a matrix each.
#include <inlay/ops/linear.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/packed_weights.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

bool supports_packed(const ggml_tensor* weight, const ggml_tensor* x) {
  ggml_backend_buffer_t buffer = buffer_of(weight);
  // Weights that lie elsewhere would be packed in each call.
  if (buffer != nullptr && buffer->buft != buffer_type()) return false;
  return ggml_is_matrix(weight) && ggml_is_contiguous(weight) && ggml_is_contiguous(x);
}

Status packed(Context& context, const ggml_tensor* op) {
  const ggml_tensor* const weight = op->src[0];
  const Rows rows{ggml_nrows(op), 0, 0};
  const auto x = rows.of<ConstView<2>>(op->src[1]);
  const auto y = rows.of<View<2>>(op);
  if (PackedWeights* const kept = packed_weights(weight)) {
    const auto slice = kept->one(weight, context.cpu.parallel());
    return slice ? context.run(slice->op(x, y)) : Status(slice.error().code(), slice.error().message());
  }
  const auto own = pack({&weight, 1}, context.cpu.parallel());
  return own ? context.run(PackedSlice{&*own, 0}.op(x, y)) : Status(own.error().code(), own.error().message());
}

}  // namespace

bool supports_mul_mat(const ggml_tensor* op) {
  const ggml_tensor *weight = op->src[0], *x = op->src[1];
  if (is_hadamard(op)) return supports_hadamard(op);
  if (!is_f32_rows(x) || op->type != GGML_TYPE_F32 || !ggml_is_contiguous(op)) return false;
  return is_quantized(static_cast<GgmlType>(weight->type)) ? supports_packed(weight, x) : is_float_rows(weight);
}

Status mul_mat(Context& context, const ggml_tensor* op) {
  const ggml_tensor *weight = op->src[0], *x = op->src[1];
  if (is_hadamard(op)) return hadamard(context, op);
  if (!is_float(weight->type)) return packed(context, op);
  const auto linear = [&](Rows rows, index w2, index w3) {
    return context.run(Linear<Host>{.x = rows.of<ConstView<2>>(x),
                                    .weight_rows = view_of<ConstView<2>>(weight, {1, 0}, {0, 0, w2, w3}),
                                    .y = rows.of<View<2>>(op)});
  };
  if (ggml_is_matrix(weight)) return each_rows({op, x}, [&](Rows rows) { return linear(rows, 0, 0); });
  for (index i3 = 0; i3 < op->ne[3]; ++i3)
    for (index i2 = 0; i2 < op->ne[2]; ++i2) {
      const index w2 = i2 * weight->ne[2] / x->ne[2], w3 = i3 * weight->ne[3] / x->ne[3];
      if (Status status = linear({op->ne[1], i2, i3}, w2, w3); !status.ok()) return status;
    }
  return {};
}

}  // namespace inlay::ggml_binding
