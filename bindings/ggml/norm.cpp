// ggml's NORM, and its RMS_NORM, alone and with the product by a weight that follows it.
#include <ggml-impl.h>

#include <cstring>

#include <inlay/ops/layer_norm.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

float eps_of(const ggml_tensor* norm) {
  float eps = 0;
  std::memcpy(&eps, norm->op_params, sizeof eps);
  return eps;
}

Status normalise(Context& context, const ggml_tensor* norm, const float* weight, const ggml_tensor* y) {
  const ggml_tensor* const x = norm->src[0];
  return each_rows({x, y}, [&](Rows rows) {
    return context.run(RmsNorm<Host>{
        .x = rows.of<ConstView<2>>(x), .weight = {weight, {x->ne[0]}}, .y = rows.of<View<2>>(y), .eps = eps_of(norm)});
  });
}

// What the allocator may have given to y since the norm was to be done.
bool overlap_in_part(const ggml_tensor* y, const ggml_tensor* x) {
  if (y->data == x->data && ggml_are_same_layout(y, x)) return false;
  const char *first = static_cast<const char*>(y->data), *other = static_cast<const char*>(x->data);
  return first < other + ggml_nbytes(x) && other < first + ggml_nbytes(y);
}

const ggml_tensor* weight_of(const ggml_tensor* norm, const ggml_tensor* product) {
  return product->src[0] == norm ? product->src[1] : product->src[0];
}

}  // namespace

bool supports_norm(const ggml_tensor* op) { return is_f32_rows(op->src[0]) && is_f32_rows(op); }

Status rms_norm(Context& context, const ggml_tensor* op) {
  const auto dim = static_cast<std::size_t>(op->ne[0]);
  if (context.ones.size() < dim) context.ones.resize(dim, 1.0f);
  return normalise(context, op, context.ones.data(), op);
}

Status layer_norm(Context& context, const ggml_tensor* op) {
  const ggml_tensor* const x = op->src[0];
  return each_rows({x, op}, [&](Rows rows) {
    return context.run(LayerNorm<Host>{.x = rows.of<ConstView<2>>(x), .y = rows.of<View<2>>(op), .eps = eps_of(op)});
  });
}

bool fuses_rms_norm_mul(const ggml_cgraph* graph, int node) {
  if (!ggml_can_fuse(graph, node, {GGML_OP_RMS_NORM, GGML_OP_MUL})) return false;
  const ggml_tensor *norm = graph->nodes[node], *product = graph->nodes[node + 1];
  const ggml_tensor* const weight = weight_of(norm, product);
  return is_f32_rows(weight) && ggml_nrows(weight) == 1 && weight->ne[0] == norm->ne[0] && is_f32_rows(product) &&
         !overlap_in_part(product, norm->src[0]) && product->data != weight->data && !overlap_in_part(product, weight);
}

Status rms_norm_mul(Context& context, const ggml_tensor* norm, const ggml_tensor* product) {
  return normalise(context, norm, static_cast<const float*>(weight_of(norm, product)->data), product);
}

}  // namespace inlay::ggml_binding
