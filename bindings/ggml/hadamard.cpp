// A product with the Walsh-Hadamard matrix over sqrt(n), which ggml marks by a hint: llama.cpp turns the heads by it
// before they are rounded to the blocks of a quantized cache. Sums and differences of pairs, n log n of them.
#include <ggml-impl.h>

#include <algorithm>
#include <cmath>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

bool is_hadamard(const ggml_tensor* op) {
  return ggml_get_op_params_i32(op, 1) == GGML_HINT_SRC0_IS_HADAMARD && op->src[0]->type == GGML_TYPE_F32;
}

bool supports_hadamard(const ggml_tensor* op) {
  const ggml_tensor* const x = op->src[1];
  const index n = x->ne[0];
  return is_f32_rows(x) && is_f32_rows(op) && n > 0 && (n & (n - 1)) == 0 && op->ne[0] == n &&
         ggml_is_matrix(op->src[0]);
}

Status hadamard(Context& context, const ggml_tensor* op) {
  const ggml_tensor* const x = op->src[1];
  const index n = x->ne[0], n1 = x->ne[1], n2 = x->ne[2];
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  const Work work{.bytes = 2.0 * static_cast<double>(ggml_nbytes(op)),
                  .operations = std::log2(static_cast<double>(n)) * static_cast<double>(ggml_nelements(op))};
  context.cpu.parallel().ranges(ggml_nrows(x), 1, work, [&](index begin, index end) {
    for (index row = begin; row < end; ++row) {
      const std::array<index, 4> at{0, row % n1, row / n1 % n2, row / n1 / n2};
      const float* const from = view_of<ConstView<1>>(x, {0}, at).as<float>();
      float* const to = view_of<View<1>>(op, {0}, at).as<float>();
      std::transform(from, from + n, to, [=](float value) { return value * scale; });
      for (index length = 1; length < n; length *= 2)
        for (index first = 0; first < n; first += 2 * length)
          for (index i = first; i < first + length; ++i) {
            const float a = to[i], b = to[i + length];
            to[i] = a + b;
            to[i + length] = a - b;
          }
    }
  });
  return {};
}

}  // namespace inlay::ggml_binding
