// What is added to scores: ggml's mask, and ALiBi, a slope a head that scales it.
#pragma once

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

// Of `count` heads from `first` on, of all `heads`.
struct MaskedHeads {
  index first, count, heads;
};

// Batch `batch` of the mask for those heads as f32 [heads, rows, keys] in context.floats. max_bias: the 8 of ALiBi's
// exponents; 0: none.
ConstView<3> mask_of_heads(Context& context, const ggml_tensor* mask, float max_bias, MaskedHeads of, index batch,
                           index rows);

}  // namespace inlay::ggml_binding
