// The weight of one linear layer in whatever form the file gave it: f32 f16 bf16, int8 with a scale
// for each channel, or codes of 4 or 8 bits with a scale for each group. It is packed once; the
// file's pages leave memory as they are read, so that the weight is never held twice.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include <inlay/model/model_file.hpp>
#include <inlay/model/tensor.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/weights/linear_pack.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>

namespace inlay::exec {

// What a linear multiplies its codes of 4 or 8 bits with: x as it is, or x rounded to 8 bits with a scale
// for each group of inputs (integer dot products: W4Compute of linear_w4a16). Other weights run the same
// under both: floats take x as it is, int8 with a scale for each channel (W8A8) always rounds it. The
// reference backend rounds nothing: its linear_w4a16 is exact under both.
enum class Activations : unsigned char { exact, int8 };

class LinearWeight {
 public:
  struct Float {
    OwnedTensor<3> packed;
  };
  struct Int8 {
    OwnedTensor<3> packed;
    OwnedTensor<1> sums, scales;
  };

  LinearWeight() = default;
  LinearWeight(index n, std::variant<Float, Int8, PackedW4> form) : n_(n), form_(std::move(form)) {}

  // y[t,:] = W x[t,:] + bias, emitted as the operator that fits the form.
  template <class Run>
  void operator()(Run& run, const ConstView<2>& x, const View<2>& y, Activations activations) const {
    if (const auto* plain = std::get_if<Float>(&form_))
      run(Linear<Host>{.x = x, .weight = plain->packed, .bias = bias, .y = y});
    else if (const auto* int8 = std::get_if<Int8>(&form_))
      run(LinearInt8<Host>{.x = x,
                           .weight = int8->packed,
                           .weight_sum = int8->sums,
                           .weight_scale = int8->scales,
                           .bias = bias,
                           .y = y});
    else
      run(std::get<PackedW4>(form_).op(
          x, y, bias, activations == Activations::int8 ? W4Compute::int8_activations : W4Compute::exact_float));
  }

  index channels() const { return n_; }
  // No option rounds what a float weight is multiplied with.
  bool is_float() const { return std::holds_alternative<Float>(form_); }
  // What one token reads.
  std::size_t bytes() const {
    if (const auto* plain = std::get_if<Float>(&form_)) return plain->packed.bytes();
    if (const auto* int8 = std::get_if<Int8>(&form_))
      return int8->packed.bytes() + int8->sums.bytes() + int8->scales.bytes();
    return static_cast<std::size_t>(std::get<PackedW4>(form_).bytes());
  }

  ConstView<1> bias = {};

 private:
  index n_ = 0;
  std::variant<Float, Int8, PackedW4> form_;
};

namespace detail {

inline Expected<LinearWeight> pack_float(const Parallel& parallel, const WeightTensor& tensor) {
  const ConstView<2> rows = tensor.matrix();
  auto packed = OwnedTensor<3>::make(rows.dtype, linear_packed_extents(rows.extents[0], rows.extents[1], rows.dtype));
  if (!packed) return failure(std::move(packed.error()));
  // A slab of panels at a time, so that the file's pages and their packed copy never stand in memory
  // together for the whole tensor.
  constexpr index slab_bytes = index{8} << 20;
  const index panel_bytes = byte_size(rows.dtype, linear_panel * rows.extents[1]);
  const index panels = std::max<index>(slab_bytes / std::max<index>(panel_bytes, 1), 1);
  for (index first = 0; first < packed->view().extents[0]; first += panels) {
    const index count = std::min(panels, packed->view().extents[0] - first);
    const index row = first * linear_panel, end = std::min(rows.extents[0], (first + count) * linear_panel);
    Status status = pack_linear(parallel, rows.slice(0, row, end - row), packed->view().slice(0, first, count));
    if (!status.ok()) return failure(std::move(status));
    drop_pages(tensor.data + row * byte_size(rows.dtype, rows.strides[0]),
               static_cast<std::size_t>((end - row) * byte_size(rows.dtype, rows.strides[0])));
  }
  return LinearWeight(rows.extents[0], LinearWeight::Float{std::move(*packed)});
}

inline Expected<LinearWeight> pack_int8(const WeightTensor& tensor, const WeightTensor& scale) {
  const ConstView<2> rows = tensor.matrix();
  const index n = rows.extents[0];
  auto packed = OwnedTensor<3>::make(DType::i8, linear_int8::packed_extents(n, rows.extents[1]));
  if (!packed) return failure(std::move(packed.error()));
  auto sums = OwnedTensor<1>::make(DType::i32, {n});
  if (!sums) return failure(std::move(sums.error()));
  auto scales = OwnedTensor<1>::make(DType::f32, {n});
  if (!scales) return failure(std::move(scales.error()));
  std::memcpy(scales->view().data, scale.data, static_cast<std::size_t>(n) * sizeof(float));
  Status status = pack_linear_int8(rows, *packed, *sums);
  if (!status.ok()) return failure(std::move(status));
  return LinearWeight(n, LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)});
}

}  // namespace detail

// `tensor` is [n, k] of any weight type.
inline Expected<LinearWeight> pack_weight(const Parallel& parallel, const ModelFile& file, const WeightTensor& tensor) {
  if (tensor.rank != 2)
    return failure(StatusCode::corrupt_data,
                   tensor.name + " has " + std::to_string(tensor.rank) + " dimensions; a linear's weight must have 2");
  Expected<LinearWeight> weight = [&]() -> Expected<LinearWeight> {
    if (tensor.type == GgmlType::I8) {
      const WeightTensor* scale = file.scales_of(tensor);
      if (scale == nullptr)
        return failure(StatusCode::corrupt_data,
                       tensor.name + " is I8; it must have scales in " + tensor.name + ".scale");
      return detail::pack_int8(tensor, *scale);
    }
    if (tensor.dtype()) return detail::pack_float(parallel, tensor);
    auto packed = import_gguf(tensor.type, tensor.data, tensor.extents[0], tensor.extents[1], {}, parallel);
    if (!packed) return failure(std::move(packed.error()));
    return LinearWeight(tensor.extents[0], std::move(*packed));
  }();
  file.drop(tensor);
  return weight;
}

}  // namespace inlay::exec
