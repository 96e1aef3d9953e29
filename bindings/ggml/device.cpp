// An ACCEL device: llama.cpp offers it the weights of linears and gives the rest of the graph to ggml-cpu, whose memory
// both read.
#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

namespace {

const char* name(ggml_backend_dev_t) { return "Inlay"; }
const char* description(ggml_backend_dev_t) { return "Inlay's CPU kernels"; }
enum ggml_backend_dev_type type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
ggml_backend_buffer_type_t preferred_buffer_type(ggml_backend_dev_t) { return buffer_type(); }

// ggml takes zeros for a device without memory of its own.
void memory(ggml_backend_dev_t, std::size_t* free, std::size_t* total) { *free = *total = 0; }

void properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  *properties = {};
  properties->name = name(device);
  properties->description = description(device);
  properties->type = type(device);
}

bool supports_op(ggml_backend_dev_t, const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return true;
    case GGML_OP_MUL_MAT: return supports_mul_mat(op);
    case GGML_OP_FLASH_ATTN_EXT: return supports_flash_attention(op);
    default: return false;
  }
}

bool supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  return ggml_backend_buft_is_host(type);
}

}  // namespace

ggml_backend_dev_t device() {
  static ggml_backend_device device = [] {
    ggml_backend_device made{};
    made.iface.get_name = name;
    made.iface.get_description = description;
    made.iface.get_memory = memory;
    made.iface.get_type = type;
    made.iface.get_props = properties;
    made.iface.init_backend = make_backend;
    made.iface.get_buffer_type = preferred_buffer_type;
    made.iface.supports_op = supports_op;
    made.iface.supports_buft = supports_buffer_type;
    made.reg = registration();
    return made;
  }();
  return &device;
}

}  // namespace inlay::ggml_binding
