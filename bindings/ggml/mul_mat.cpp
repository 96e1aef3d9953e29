// ggml's MUL_MAT of a quantized weight [k, n] and f32 rows [k, tokens, ..]: linear_w4a16 with rounded activations, as
// ggml-cpu rounds them.
#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

bool supports_mul_mat(const ggml_tensor* op) {
  const ggml_tensor *weight = op->src[0], *x = op->src[1];
  ggml_backend_buffer_t buffer = weight->view_src != nullptr ? weight->view_src->buffer : weight->buffer;
  // Weights that lie elsewhere would be packed in each call.
  if (buffer != nullptr && buffer->buft != buffer_type()) return false;
  // The hint marks a rotation that ggml computes without the matrix.
  if (op->op_params[1] == GGML_HINT_SRC0_IS_HADAMARD) return false;
  return is_quantized(static_cast<GgmlType>(weight->type)) && ggml_is_matrix(weight) && ggml_is_contiguous(weight) &&
         x->type == GGML_TYPE_F32 && ggml_is_contiguous(x) && op->type == GGML_TYPE_F32 && ggml_is_contiguous(op);
}

Status mul_mat(Context& context, const ggml_tensor* op) {
  const ggml_tensor* from = op->src[1];
  const index tokens = ggml_nrows(from);
  PackedW4 own;
  const auto weight = packed_weight(context, op->src[0], own);
  if (!weight) return Status(weight.error().code(), weight.error().message());
  const ConstView<2> x(static_cast<const float*>(from->data), {tokens, from->ne[0]});
  const View<2> y(static_cast<float*>(op->data), {tokens, op->ne[0]});
  return context.run((*weight)->op(x, y, {}, W4Compute::int8_activations));
}

}  // namespace inlay::ggml_binding
