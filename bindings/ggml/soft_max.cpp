// ggml's SOFT_MAX over rows, with a mask that repeats over heads and batches, and ALiBi.
#include <inlay/ops/softmax.hpp>

#include <cstring>

#include "bindings/ggml/mask.hpp"
#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Parameters {
  float scale, max_bias;
};
Parameters parameters(const ggml_tensor* op) {
  Parameters read;
  std::memcpy(&read, op->op_params, sizeof read);
  return read;
}

// The mask of batch i3 as Softmax takes it: its own memory where that is one matrix of f32 for all heads, else a matrix
// a head in the context's.
ConstView<3> mask_of(Context& context, const ggml_tensor* op, index i3) {
  const ggml_tensor* const mask = op->src[1];
  const float max_bias = parameters(op).max_bias;
  const index heads = op->ne[2], rows = op->ne[1], batch = i3 % mask->ne[3];
  if (mask->type == GGML_TYPE_F32 && max_bias <= 0 && (mask->ne[2] == 1 || mask->ne[2] == heads))
    return view_of<ConstView<3>>(mask, {2, 1, 0}, {0, 0, 0, batch}).slice(1, 0, rows);
  const bool one = max_bias <= 0 && mask->ne[2] == 1;
  return mask_of_heads(context, mask, max_bias, {0, one ? 1 : heads, heads}, batch, rows);
}

}  // namespace

bool supports_soft_max(const ggml_tensor* op) {
  const ggml_tensor *x = op->src[0], *mask = op->src[1], *sinks = op->src[2];
  return is_f32_rows(x) && is_f32_rows(op) && (mask == nullptr || (is_float_rows(mask) && mask->ne[1] >= x->ne[1])) &&
         (sinks == nullptr || is_f32_rows(sinks));
}

Status soft_max(Context& context, const ggml_tensor* op) {
  for (index i3 = 0; i3 < op->ne[3]; ++i3) {
    Softmax<Host> softmax{.x = view_of<ConstView<3>>(op->src[0], {2, 1, 0}, {0, 0, 0, i3}),
                          .y = view_of<View<3>>(op, {2, 1, 0}, {0, 0, 0, i3}),
                          .scale = parameters(op).scale};
    if (op->src[1] != nullptr) softmax.mask = mask_of(context, op, i3);
    if (op->src[2] != nullptr) softmax.sink = view_of<ConstView<1>>(op->src[2], {0});
    if (Status status = context.run(softmax); !status.ok()) return status;
  }
  return {};
}

}  // namespace inlay::ggml_binding
