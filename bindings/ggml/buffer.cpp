// Memory in ggml's own layout, which ggml-cpu reads too. It is a type of its own so that llama.cpp's loader puts the
// weights of linears there, and so that they are packed once: the packed forms hang on the buffer.
#include <cstring>
#include <new>

#include "bindings/ggml/backend.hpp"
#include "bindings/ggml/packed_weights.hpp"

namespace inlay::ggml_binding {

namespace {

constexpr std::size_t alignment = 64;

class Memory {
 public:
  explicit Memory(std::size_t size) : own_(size == 0 ? 1 : size), data_(own_.data()) {}
  explicit Memory(void* data) : data_(static_cast<std::byte*>(data)) {}
  std::byte* data() { return data_; }
  void written() { packed_.clear(); }
  PackedWeights& packed() { return packed_; }

 private:
  AlignedBytes own_;
  std::byte* data_;
  PackedWeights packed_;
};

Memory& memory_of(ggml_backend_buffer_t buffer) { return *static_cast<Memory*>(buffer->context); }

ggml_backend_buffer_t buffer_of(ggml_backend_buffer_type_t type, Memory* memory, std::size_t size) {
  ggml_backend_buffer_i buffer{};
  buffer.free_buffer = [](ggml_backend_buffer_t ended) { delete &memory_of(ended); };
  buffer.get_base = [](ggml_backend_buffer_t of) -> void* { return memory_of(of).data(); };
  buffer.memset_tensor = [](ggml_backend_buffer_t of, ggml_tensor* tensor, std::uint8_t value, std::size_t offset,
                            std::size_t bytes) {
    std::memset(static_cast<char*>(tensor->data) + offset, value, bytes);
    memory_of(of).written();
  };
  buffer.set_tensor = [](ggml_backend_buffer_t of, ggml_tensor* tensor, const void* data, std::size_t offset,
                         std::size_t bytes) {
    std::memcpy(static_cast<char*>(tensor->data) + offset, data, bytes);
    memory_of(of).written();
  };
  buffer.get_tensor = [](ggml_backend_buffer_t, const ggml_tensor* tensor, void* data, std::size_t offset,
                         std::size_t bytes) {
    std::memcpy(data, static_cast<const char*>(tensor->data) + offset, bytes);
  };
  buffer.clear = [](ggml_backend_buffer_t of, std::uint8_t value) {
    std::memset(memory_of(of).data(), value, of->size);
    memory_of(of).written();
  };
  return ggml_backend_buffer_init(type, buffer, memory, size);
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t size) {
  try {
    return buffer_of(type, new Memory(size), size);
  } catch (const std::bad_alloc&) {
    return nullptr;  // ggml's word for it
  }
}

}  // namespace

ggml_backend_buffer_t buffer_of_memory(void* memory, std::size_t size) {
  return buffer_of(buffer_type(), new Memory(memory), size);
}

ggml_backend_buffer_type_t buffer_type() {
  static ggml_backend_buffer_type type = [] {
    ggml_backend_buffer_type made{};
    made.iface.get_name = [](ggml_backend_buffer_type_t) { return "Inlay"; };
    made.iface.alloc_buffer = allocate;
    made.iface.get_alignment = [](ggml_backend_buffer_type_t) { return alignment; };
    made.iface.is_host = [](ggml_backend_buffer_type_t) { return true; };
    made.device = device();
    return made;
  }();
  return &type;
}

ggml_backend_buffer_t buffer_of(const ggml_tensor* tensor) {
  return tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
}

PackedWeights* packed_weights(const ggml_tensor* weight) {
  ggml_backend_buffer_t buffer = buffer_of(weight);
  const bool keeps =
      buffer != nullptr && buffer->buft == buffer_type() && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
  return keeps ? &memory_of(buffer).packed() : nullptr;
}

}  // namespace inlay::ggml_binding
