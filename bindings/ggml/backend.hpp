// The parts of libggml-inlay.so: a device of ggml whose operators are Inlay's. ggml's own headers come from the tree
// that INLAY_GGML_SOURCE names.
#pragma once

#include <ggml-backend-impl.h>

#include <inlay/core/backend.hpp>
#include <inlay/cpu.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>

namespace inlay::ggml_binding {

// What one ggml_backend_t computes with. Jobs run on OpenMP's threads: ggml-cpu's operators run on the same team when
// the same thread calls them, so that no second pool waits beside it.
struct Context {
  Cpu cpu{openmp()};
  AlignedBytes memory;

  template <class Op> Status run(const Op& op) {
    return inlay::run(cpu, op, [this](std::size_t bytes) {
      if (memory.size() < bytes) memory = AlignedBytes(bytes);
      return Workspace(memory.data(), memory.size());
    });
  }
};

ggml_backend_reg_t registration();
ggml_backend_dev_t device();
ggml_backend_buffer_type_t buffer_type();
ggml_backend_t make_backend(ggml_backend_dev_t device, const char* parameters);
void set_n_threads(ggml_backend_t backend, int n_threads);

// The weight of a linear in the packed form. One in a buffer of weights is packed when it is first asked for and kept
// until its bytes are written again; any other is packed into `own`, since a graph may write it.
Expected<const PackedW4*> packed_weight(const Context& context, const ggml_tensor* weight, PackedW4& own);

// One pair for each operator of ggml: whether its shapes and types are covered, and the work itself.
bool supports_mul_mat(const ggml_tensor* op);
Status mul_mat(Context& context, const ggml_tensor* op);
bool supports_flash_attention(const ggml_tensor* op);
Status flash_attention(Context& context, const ggml_tensor* op);

}  // namespace inlay::ggml_binding
