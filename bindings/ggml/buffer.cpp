// Memory in ggml's own layout, which ggml-cpu reads too. It is a type of its own so that llama.cpp's loader puts the
// weights of linears there, and so that they are packed once: the packed forms hang on the buffer.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <tuple>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

namespace {

constexpr std::size_t alignment = 64;

class Memory {
 public:
  explicit Memory(std::size_t size) : bytes_(size == 0 ? 1 : size) {}
  std::byte* data() { return bytes_.data(); }

  void written() {
    const std::lock_guard lock(mutex_);
    packed_.clear();
  }
  Expected<const PackedW4*> packed(const Context& context, const ggml_tensor* weight) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<PackedW4>& entry = packed_[{weight->data, weight->type, weight->ne[0], weight->ne[1]}];
    if (entry == nullptr) {
      auto made = import_gguf(static_cast<GgmlType>(weight->type), weight->data, weight->ne[1], weight->ne[0], {},
                              context.cpu.parallel());
      if (!made) return failure(std::move(made.error()));
      entry = std::make_unique<PackedW4>(std::move(*made));
    }
    return entry.get();
  }

 private:
  AlignedBytes bytes_;
  std::mutex mutex_;
  std::map<std::tuple<const void*, int, index, index>, std::unique_ptr<PackedW4>> packed_;
};

Memory& memory_of(ggml_backend_buffer_t buffer) { return *static_cast<Memory*>(buffer->context); }

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, std::size_t size) {
  Memory* memory = nullptr;
  try {
    memory = new Memory(size);
  } catch (const std::bad_alloc&) {
    return nullptr;  // ggml's word for it
  }
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

}  // namespace

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

Expected<const PackedW4*> packed_weight(const Context& context, const ggml_tensor* weight, PackedW4& own) {
  ggml_backend_buffer_t buffer = weight->view_src != nullptr ? weight->view_src->buffer : weight->buffer;
  if (buffer != nullptr && buffer->buft == buffer_type() && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS)
    return memory_of(buffer).packed(context, weight);
  auto made = import_gguf(static_cast<GgmlType>(weight->type), weight->data, weight->ne[1], weight->ne[0], {},
                          context.cpu.parallel());
  if (!made) return failure(std::move(made.error()));
  own = std::move(*made);
  return &own;
}

}  // namespace inlay::ggml_binding
