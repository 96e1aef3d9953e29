// The stream of ggml: one node after the other, each done when the next begins.
#include <cstdio>
#include <string>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

namespace {

Context& context_of(ggml_backend_t backend) { return *static_cast<Context*>(backend->context); }

Status compute(Context& context, const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return {};
    case GGML_OP_MUL_MAT: return mul_mat(context, op);
    case GGML_OP_FLASH_ATTN_EXT: return flash_attention(context, op);
    default: return unsupported(std::string(ggml_op_desc(op)) + " is no operator of this device");
  }
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph* graph) {
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor* node = ggml_graph_node(graph, i);
    if ((node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0 || ggml_is_empty(node)) continue;
    if (Status status = compute(context_of(backend), node); !status.ok()) {
      std::fprintf(stderr, "inlay: %s of %s: %s\n", ggml_op_desc(node), node->name, status.message().data());
      return GGML_STATUS_FAILED;
    }
  }
  return GGML_STATUS_SUCCESS;
}

}  // namespace

void set_n_threads(ggml_backend_t backend, int n_threads) { context_of(backend).cpu = Cpu(openmp(n_threads)); }

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
  return backend;
}

}  // namespace inlay::ggml_binding
