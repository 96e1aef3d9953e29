#include "bindings/ggml/mask.hpp"

#include <inlay/core/attention.hpp>

#include <cmath>

#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

ConstView<3> mask_of_heads(Context& context, const ggml_tensor* mask, float max_bias, MaskedHeads of, index batch,
                           index rows) {
  const index size = mask->ne[0];
  context.floats.resize(static_cast<std::size_t>(of.count * rows * size));
  const Work work = static_cast<double>(of.count * rows * size) * Work{.bytes = 6, .operations = 4};
  context.cpu.parallel().ranges(of.count * rows, 1, work, [&](index begin, index end) {
    for (index i = begin; i < end; ++i) {
      const index head = of.first + i / rows;
      const double slope = max_bias > 0 ? std::pow(alibi_slope(head, of.heads), max_bias / 8) : 1;
      const auto from = view_of<ConstView<1>>(mask, {0}, {0, i % rows, head % mask->ne[2], batch});
      float* const to = context.floats.data() + i * size;
      with_float_type(mask->type, [&]<class T>(std::type_identity<T>) {
        for (index j = 0; j < size; ++j)
          to[j] = static_cast<float>(slope) * static_cast<float>(from.template as<T>()[j]);
      });
    }
  });
  return {context.floats.data(), {of.count, rows, size}};
}

}  // namespace inlay::ggml_binding
