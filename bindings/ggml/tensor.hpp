// ggml's tensors as views. ggml lists extents and strides innermost first, strides in bytes.
#pragma once

#include <ggml-backend-impl.h>

#include <array>
#include <initializer_list>
#include <type_traits>

#include <inlay/core/quantization.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay::ggml_binding {

inline bool is_float(ggml_type type) {
  return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

// Of a float or an integer type.
inline DType dtype_of_type(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F16: return DType::f16;
    case GGML_TYPE_BF16: return DType::bf16;
    case GGML_TYPE_I32: return DType::i32;
    case GGML_TYPE_I64: return DType::i64;
    default: return DType::f32;
  }
}

// Another way to see a tensor's memory: nothing is computed.
inline bool is_view(ggml_op op) {
  return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW || op == GGML_OP_PERMUTE ||
         op == GGML_OP_TRANSPOSE;
}

// Do the elements, or blocks, of a row lie beside each other?
inline bool has_dense_rows(const ggml_tensor* tensor) { return tensor->nb[0] == ggml_type_size(tensor->type); }
inline bool is_float_rows(const ggml_tensor* tensor) { return is_float(tensor->type) && has_dense_rows(tensor); }
inline bool is_f32_rows(const ggml_tensor* tensor) { return tensor->type == GGML_TYPE_F32 && has_dense_rows(tensor); }

// Blocks that the operators of Inlay know.
inline bool is_packed(ggml_type type) { return is_quantized(static_cast<GgmlType>(type)); }
inline bool is_packed_rows(const ggml_tensor* tensor) { return is_packed(tensor->type) && has_dense_rows(tensor); }

inline index stride_of(const ggml_tensor* tensor, int dimension) {
  return static_cast<index>(tensor->nb[dimension] / ggml_type_size(tensor->type));
}

inline char* address_of(const ggml_tensor* tensor, index i1, index i2, index i3) {
  return static_cast<char*>(tensor->data) + static_cast<std::size_t>(i1) * tensor->nb[1] +
         static_cast<std::size_t>(i2) * tensor->nb[2] + static_cast<std::size_t>(i3) * tensor->nb[3];
}

// ggml's dimensions `order`, as the operator names them, outermost first; the others at `at`.
template <class V>
V view_of(const ggml_tensor* tensor, const std::array<int, V::rank>& order, const std::array<index, 4>& at = {}) {
  typename V::Extents extents{}, strides{};
  for (std::size_t d = 0; d < order.size(); ++d) {
    extents[d] = tensor->ne[order[d]];
    strides[d] = stride_of(tensor, order[d]);
  }
  std::size_t offset = 0;
  for (std::size_t d = 0; d < 4; ++d) offset += static_cast<std::size_t>(at[d]) * tensor->nb[d];
  return V(static_cast<char*>(tensor->data) + offset, dtype_of_type(tensor->type), extents, strides);
}

// Rows of a tensor of up to four dimensions: all of them, or those of one place in the outer two.
struct Rows {
  index count, i2, i3;

  template <class V> V of(const ggml_tensor* tensor) const {
    V view = view_of<V>(tensor, {1, 0}, {0, 0, i2, i3});
    view.extents[0] = count;
    return view;
  }
};

inline bool rows_have_one_stride(const ggml_tensor* tensor) {
  const auto follows = [&](int d) {
    return tensor->ne[d] == 1 || tensor->nb[d] == tensor->nb[d - 1] * static_cast<std::size_t>(tensor->ne[d - 1]);
  };
  return follows(2) && follows(3);
}

// Calls body(Rows) for the rows of tensors of one shape: once where they lie at one stride in each.
template <class Body> Status each_rows(std::initializer_list<const ggml_tensor*> tensors, Body&& body) {
  bool together = true;
  for (const ggml_tensor* tensor : tensors) together = together && rows_have_one_stride(tensor);
  const ggml_tensor* const shape = *tensors.begin();
  if (together) return body(Rows{ggml_nrows(shape), 0, 0});
  for (index i3 = 0; i3 < shape->ne[3]; ++i3)
    for (index i2 = 0; i2 < shape->ne[2]; ++i2)
      if (Status status = body(Rows{shape->ne[1], i2, i3}); !status.ok()) return status;
  return {};
}

template <class Body> void with_float_type(ggml_type type, Body&& body) {
  if (type == GGML_TYPE_F32) return body(std::type_identity<float>{});
  if (type == GGML_TYPE_F16) return body(std::type_identity<f16>{});
  return body(std::type_identity<bf16>{});
}

}  // namespace inlay::ggml_binding
