// The stream of ggml: one node after the other, each done when the next begins.
#include <cstdio>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

namespace {

Context& context_of(ggml_backend_t backend) { return *static_cast<Context*>(backend->context); }

bool has_work(const ggml_tensor* node) { return (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 && !ggml_is_empty(node); }

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph* graph) {
  Context& context = context_of(backend);
  context.ropes.positions = nullptr;  // the tensors may be the last graph's, and hold other positions
  const int nodes = ggml_graph_n_nodes(graph);
  for (int i = 0; i < nodes; ++i) {
    const ggml_tensor* node = ggml_graph_node(graph, i);
    if (!has_work(node)) continue;
    int taken = 1;
    Status status;
    if (fuses_rms_norm_mul(graph, i)) {
      taken = 2;
      status = rms_norm_mul(context, node, ggml_graph_node(graph, i + 1));
    } else if (const int joined = joined_linears(graph, i); joined > 1) {
      taken = joined;
      status = compute_joined(context, graph, i, joined);
    } else {
      status = compute(context, node);
    }
    if (!status.ok()) {
      std::fprintf(stderr, "inlay: %s of %s: %s\n", ggml_op_desc(node), node->name, status.message().data());
      return GGML_STATUS_FAILED;
    }
    i += taken - 1;
  }
  return GGML_STATUS_SUCCESS;
}

}  // namespace

void set_n_threads(ggml_backend_t backend, int n_threads) { context_of(backend).cpu = Cpu(threads(n_threads)); }

ggml_backend_t make_backend(ggml_backend_dev_t device, const char*) {
  static ggml_guid guid = {0x1f, 0x0c, 0x5a, 0x83, 0x27, 0xd6, 0x4e, 0x91,
                           0xb8, 0x6a, 0x3d, 0x52, 0xe4, 0x70, 0x9b, 0xc5};
  auto* backend = new ggml_backend{.guid = &guid, .iface = {}, .device = device, .context = new Context};
  backend->iface.get_name = [](ggml_backend_t) { return "Inlay"; };
  backend->iface.free = [](ggml_backend_t ended) {
    delete &context_of(ended);
    delete ended;
  };
  backend->iface.graph_compute = graph_compute;
  backend->iface.graph_optimize = [](ggml_backend_t, ggml_cgraph* graph, ggml_backend_graph_optimize_params*) {
    group_linears(graph);
  };
  return backend;
}

}  // namespace inlay::ggml_binding
