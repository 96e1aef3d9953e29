// ggml's FLASH_ATTN_EXT: queries [dim, n_q, heads, batch] over views of the KV cache [dim, n_kv, kv_heads, batch], with
// a mask that is added behind the softcap.
#include <cstring>

#include <inlay/ops/flash_attention.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Parameters {
  float scale, max_bias, softcap;
};
Parameters parameters(const ggml_tensor* op) {
  Parameters read;
  std::memcpy(&read, op->op_params, sizeof read);
  return read;
}

}  // namespace

bool supports_flash_attention(const ggml_tensor* op) {
  const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
  const Parameters read = parameters(op);
  // ALiBi scales the mask by head, which no operator here does; a scale of 0 names another one here.
  if (read.max_bias != 0 || read.scale == 0) return false;
  if (!is_f32_rows(q) || !is_float_rows(k) || !is_float_rows(v)) return false;
  if (k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3] || v->ne[2] != k->ne[2] || q->ne[2] % k->ne[2] != 0) return false;
  if (mask != nullptr &&
      (!is_float_rows(mask) || mask->ne[1] < q->ne[1] || (mask->ne[2] != 1 && mask->ne[2] != q->ne[2]) ||
       (mask->ne[3] != 1 && mask->ne[3] != q->ne[3])))
    return false;
  return sinks == nullptr || sinks->type == GGML_TYPE_F32;
}

Status flash_attention(Context& context, const ggml_tensor* op) {
  const Parameters read = parameters(op);
  FlashAttention<Host> attention{.q = view_of<ConstView<4>>(op->src[0], {3, 1, 2, 0}),
                                 .k = view_of<ConstView<4>>(op->src[1], {3, 1, 2, 0}),
                                 .v = view_of<ConstView<4>>(op->src[2], {3, 1, 2, 0}),
                                 .out = view_of<View<4>>(op, {3, 2, 1, 0})};
  if (op->src[3] != nullptr)
    attention.bias = view_of<ConstView<4>>(op->src[3], {3, 2, 1, 0}).slice(2, 0, op->src[0]->ne[1]);
  if (op->src[4] != nullptr) attention.sinks = {static_cast<const float*>(op->src[4]->data), {op->src[4]->ne[0]}};
  attention.scale = read.scale;
  attention.softcap = read.softcap;
  attention.bias_order = BiasOrder::scale_softcap_bias;
  return context.run(attention);
}

}  // namespace inlay::ggml_binding
