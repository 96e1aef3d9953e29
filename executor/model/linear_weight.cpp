#include <cstring>
#include <string>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/fused_linears.hpp>
#include <inlay/model/linear_weight.hpp>
#include <inlay/weights/linear_pack.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>

namespace inlay::exec {

namespace {

Expected<LinearWeight> pack_float(const Parallel& parallel, const ModelFile& file, const WeightTensor& tensor) {
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
    const index row_bytes = byte_size(rows.dtype, rows.strides[0]);
    file.drop(tensor, row * row_bytes, (end - row) * row_bytes);
  }
  return LinearWeight(rows.extents[0], LinearWeight::Float{std::move(*packed)});
}

Expected<LinearWeight> pack_int8(const WeightTensor& tensor, const WeightTensor& scale) {
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

// `scale`: of I8, from the matrix's first row on.
Expected<LinearWeight> pack_matrix(const Parallel& parallel, const ModelFile& file, const WeightTensor& tensor,
                                   const WeightTensor* scale) {
  Expected<LinearWeight> weight = [&]() -> Expected<LinearWeight> {
    if (tensor.codes) {
      auto packed = tensor.codes->packed(parallel);
      if (!packed)
        return failure(StatusCode::corrupt_data,
                       "the tensor " + quote(tensor.name) + ": " + std::string(packed.error().message()));
      return LinearWeight(tensor.extents[0], std::move(*packed));
    }
    if (tensor.type == GgmlType::I8) {
      if (scale == nullptr)
        return failure(StatusCode::corrupt_data,
                       tensor.name + " is I8; it must have scales in " + tensor.name + ".scale");
      return pack_int8(tensor, *scale);
    }
    if (tensor.dtype()) return pack_float(parallel, file, tensor);
    auto packed = import_gguf(tensor.type, tensor.data, tensor.extents[0], tensor.extents[1], {}, parallel);
    if (!packed) return failure(std::move(packed.error()));
    return LinearWeight(tensor.extents[0], std::move(*packed));
  }();
  file.drop(tensor);
  return weight;
}

}  // namespace

Expected<LinearWeight> pack_weight(const Parallel& parallel, const ModelFile& file, const WeightTensor& tensor) {
  const WeightTensor* const scale = file.scales_of(tensor);
  if (tensor.rank == 2) return pack_matrix(parallel, file, tensor, scale);
  if (tensor.rank != 3)
    return failure(StatusCode::corrupt_data, tensor.name + " has " + std::to_string(tensor.rank) +
                                                 " dimensions; a linear's weight must have 2, or 3 of experts");
  std::vector<LinearWeight> experts;
  for (index e = 0; e < tensor.extents[0]; ++e) {
    WeightTensor own = scale ? *scale : WeightTensor();
    if (scale) own.data += e * tensor.extents[1] * static_cast<index>(sizeof(float));
    auto made = pack_matrix(parallel, file, tensor.matrix_of(e), scale ? &own : nullptr);
    if (!made) return made;
    experts.push_back(std::move(*made));
  }
  auto all = stacked(std::move(experts));
  if (!all) return failure(all.error().code(), tensor.name + ": " + std::string(all.error().message()));
  return all;
}

}  // namespace inlay::exec
