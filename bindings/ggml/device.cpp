// An integrated GPU as ggml calls it: llama.cpp gives such a device whole layers, their weights and their cache, unless
// there is a GPU of its own. (An ACCEL device gets no fused attention: llama.cpp takes it for one that is not where its
// layer is.)
#include <unistd.h>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

namespace {

const char* name(ggml_backend_dev_t) { return "Inlay"; }
const char* description(ggml_backend_dev_t) { return "Inlay's CPU kernels"; }
enum ggml_backend_dev_type type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_IGPU; }
ggml_backend_buffer_type_t preferred_buffer_type(ggml_backend_dev_t) { return buffer_type(); }

// The host's, as ggml-cpu says it: llama-server shares out its layers by these numbers, and divides by zero where no
// device has any.
void memory(ggml_backend_dev_t, std::size_t* free, std::size_t* total) {
  *free = *total = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

void properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  *properties = {};
  properties->name = name(device);
  properties->description = description(device);
  properties->type = type(device);
  memory(device, &properties->memory_free, &properties->memory_total);
  properties->caps.buffer_from_host_ptr = properties->caps.mmap_support = true;
}

bool supports_op(ggml_backend_dev_t, const ggml_tensor* op) { return supports(op); }

// Whatever the host can read.
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
    made.iface.buffer_from_host_ptr = [](ggml_backend_dev_t, void* memory, std::size_t size, std::size_t) {
      return buffer_of_memory(memory, size);
    };
    made.iface.supports_op = supports_op;
    made.iface.supports_buft = supports_buffer_type;
    made.reg = registration();
    return made;
  }();
  return &device;
}

}  // namespace inlay::ggml_binding
