// The parts of libggml-inlay.so: a device of ggml whose operators are Inlay's. ggml's own headers come from the tree
// that INLAY_GGML_SOURCE names.
#pragma once

#include <ggml-backend-impl.h>

#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/dtype.hpp>
#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

namespace inlay::ggml_binding {

// Cosines and sines of a graph's positions, which all of its layers share.
struct RopeTables {
  const ggml_tensor *positions = nullptr, *divisors = nullptr;
  std::array<std::int32_t, 16> parameters{};
  index pairs = 0;
  std::vector<float> cos, sin;
};

// What one ggml_backend_t computes with. Jobs run on Inlay's own threads: a graph is computed whole, so that ggml-cpu's
// have nothing to wait for meanwhile.
struct Context {
  Cpu cpu;
  AlignedBytes memory;
  RopeTables ropes;
  std::vector<float> ones, floats;
  std::vector<std::int64_t> slots;
  std::vector<std::int32_t> expert_ends;
  std::vector<std::int32_t> rows;  // 0, 1, 2, ..
  std::vector<f16> wide;           // a quantized cache's keys and values

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
// Memory of the caller's, which outlives the buffer: a file that is mapped.
ggml_backend_buffer_t buffer_of_memory(void* memory, std::size_t size);
ggml_backend_t make_backend(ggml_backend_dev_t device, const char* parameters);
void set_n_threads(ggml_backend_t backend, int n_threads);

// Where the tensor, or what it is a view of, lies; null before it lies anywhere.
ggml_backend_buffer_t buffer_of(const ggml_tensor* tensor);

// Does the device compute it? The views among ggml's operators have nothing to compute.
bool supports(const ggml_tensor* op);
Status compute(Context& context, const ggml_tensor* op);

// The norm and the product behind it in one, where nobody else reads what lies between.
bool fuses_rms_norm_mul(const ggml_cgraph* graph, int node);
Status rms_norm_mul(Context& context, const ggml_tensor* norm, const ggml_tensor* product);

constexpr int most_joined = 4;

// Linears of one x (q, k and v; gate and up, of experts too): brought side by side before ggml gives their results
// memory, and computed as one where there are few rows. x is rounded once, and the threads meet once.
void group_linears(ggml_cgraph* graph);
// How many nodes from this one on are such linears; 1 and less: nothing to join.
int joined_linears(const ggml_cgraph* graph, int node);
Status compute_joined(Context& context, const ggml_cgraph* graph, int node, int count);

}  // namespace inlay::ggml_binding
