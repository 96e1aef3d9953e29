// Linears of one x, joined: their weights lie in one packed form, whose slices serve each of them alone. So are the
// experts of a mixture, gate and up of one choice; of those no slice serves one alone.
#include <ggml-impl.h>

#include <algorithm>
#include <cstring>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/packed_weights.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

constexpr int reach = 16;      // nodes from q's product to those of k and v
constexpr index few_rows = 8;  // the joined result is copied to where each belongs; those of experts are anyway

const ggml_tensor* root(const ggml_tensor* tensor) { return tensor->view_src != nullptr ? tensor->view_src : tensor; }

bool is_packed_linear(const ggml_tensor* node) {
  return (node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID) &&
         (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 && is_quantized(static_cast<GgmlType>(node->src[0]->type)) &&
         packed_weights(node->src[0]) != nullptr;
}

bool join(const ggml_tensor* before, const ggml_tensor* node) {
  const ggml_tensor *first = before->src[0], *second = node->src[0];
  return is_packed_linear(node) && node->op == before->op && node->src[1] == before->src[1] &&
         node->src[2] == before->src[2] && second->type == first->type && second->ne[0] == first->ne[0] &&
         second->ne[2] == first->ne[2] && first->ne[1] % w4_panel == 0 && buffer_of(second) == buffer_of(first);
}

// Does it write over x, or over the choice of experts?
bool writes_operand(const ggml_tensor* node, const ggml_tensor* linear) {
  return root(node) == root(linear->src[1]) || (linear->src[2] != nullptr && root(node) == root(linear->src[2]));
}

}  // namespace

void group_linears(ggml_cgraph* graph) {
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* const first = graph->nodes[i];
    if (!is_packed_linear(first)) continue;
    const int end = std::min(graph->n_nodes, i + reach);
    for (int j = i + 1; j < end; ++j) {
      ggml_tensor* const node = graph->nodes[j];
      if (join(graph->nodes[i], node)) {
        std::rotate(graph->nodes + i + 1, graph->nodes + j, graph->nodes + j + 1);
        ++i;
      } else if (!is_view(node->op) && writes_operand(node, first)) {
        break;
      }
    }
  }
}

int joined_linears(const ggml_cgraph* graph, int node) {
  const ggml_tensor* const first = graph->nodes[node];
  if (!is_packed_linear(first) || (first->op == GGML_OP_MUL_MAT && ggml_nrows(first) > few_rows)) return 1;
  int count = 1;
  while (count < most_joined && node + count < graph->n_nodes &&
         join(graph->nodes[node + count - 1], graph->nodes[node + count]))
    ++count;
  return count;
}

Status compute_joined(Context& context, const ggml_cgraph* graph, int node, int count) {
  if (graph->nodes[node]->op == GGML_OP_MUL_MAT_ID)
    return mul_mat_ids(context, {graph->nodes + node, static_cast<std::size_t>(count)});
  const ggml_tensor* weights[most_joined];
  index channels = 0;
  for (int i = 0; i < count; ++i) {
    weights[i] = graph->nodes[node + i]->src[0];
    channels += weights[i]->ne[1];
  }
  const ggml_tensor* const first = graph->nodes[node];
  const auto weight =
      packed_weights(weights[0])->all({weights, static_cast<std::size_t>(count)}, context.cpu.parallel());
  if (!weight) return Status(weight.error().code(), weight.error().message());
  const Rows rows{ggml_nrows(first), 0, 0};
  context.floats.resize(static_cast<std::size_t>(rows.count * channels));
  const View<2> y(context.floats.data(), {rows.count, channels});
  if (Status status = context.run(weight->op(rows.of<ConstView<2>>(first->src[1]), y)); !status.ok()) return status;
  const float* from = context.floats.data();
  for (index row = 0; row < rows.count; ++row)
    for (int i = 0; i < count; ++i) {
      const index size = weights[i]->ne[1];
      std::memcpy(static_cast<float*>(graph->nodes[node + i]->data) + row * size, from,
                  static_cast<std::size_t>(size) * sizeof(float));
      from += size;
    }
  return {};
}

}  // namespace inlay::ggml_binding
