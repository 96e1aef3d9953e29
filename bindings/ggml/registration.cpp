#include <string_view>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

ggml_backend_reg_t registration() {
  static ggml_backend_reg registration{.api_version = GGML_BACKEND_API_VERSION,
                                       .iface = {.get_name = [](ggml_backend_reg_t) { return "Inlay"; },
                                                 .get_device_count = [](ggml_backend_reg_t) { return std::size_t{1}; },
                                                 .get_device = [](ggml_backend_reg_t, std::size_t) { return device(); },
                                                 .get_proc_address = [](ggml_backend_reg_t, const char* name) -> void* {
                                                   return name == std::string_view("ggml_backend_set_n_threads")
                                                              ? reinterpret_cast<void*>(set_n_threads)
                                                              : nullptr;
                                                 }},
                                       .context = nullptr};
  return &registration;
}

}  // namespace inlay::ggml_binding

GGML_BACKEND_DL_IMPL(inlay::ggml_binding::registration)
