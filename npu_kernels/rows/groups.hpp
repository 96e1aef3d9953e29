// Scales and zero points that serve one element, a row, a column or a block (quantize, dequantize): of a window they
// are a tile of its rows or of one, and of its columns, of one, or of one for each group. Codes that they go with.
#pragma once

#include <optional>

#include "npu_kernels/rows/half_bytes.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu::rows {

struct Groups {
  index row_group = 0, column_group = 0;  // as the contract says
  index of_rows = 0, of_columns = 0;      // that a value serves: 0 all, 1 one, or so many
};
template <class V> Groups groups_of(const V& values, index row_group, index column_group) {
  const auto serves = [&](int axis, index group) {
    return values.extents[static_cast<std::size_t>(axis)] == 1 ? 0 : std::max<index>(1, group);
  };
  return {row_group, column_group, serves(0, row_group), serves(1, column_group)};
}
// No tile crosses the border of a group.
inline Pattern pattern_of(const Groups& groups, bool half_bytes) {
  Pattern pattern{.row_group = groups.of_rows, .column_group = groups.of_columns};
  if (half_bytes) pattern.max_rows = 1;
  return pattern;
}

// Small integers: of whole bytes, or four-bit ones that begin anywhere.
struct Codes {
  NdTensor whole{};
  std::optional<HalfBytes> half{};
};
template <int N> NdTensor bind(GlobalMemory& memory, std::string_view name, const View<N>& view, Use use) {
  return memory.bind(std::string(name), view, use);
}
template <int N> NdTensor bind(GlobalMemory& memory, std::string_view name, const ConstView<N>& view, Use) {
  return memory.bind(std::string(name), view);
}
template <class V> Codes codes_of(GlobalMemory& memory, std::string_view name, const V& view, bool half, Use use) {
  if (half) return {.half = half_bytes(memory, name, view, use == Use::out ? Use::in_out : use)};
  return {.whole = bind(memory, name, view, use)};
}

class GroupedInput {
 public:
  GroupedInput(Core& core, std::string_view name, const TileIterator& walk, const Codes& values, const Groups& groups);
  Tensor wide() { return half_ ? half_->wide() : input_->wide(); }
  void done() {
    if (input_) input_->done();
  }

 private:
  std::optional<Input> input_;
  std::optional<HalfByteInput> half_;
};

// to = a op b, whatever b serves.
void combine(Core& core, VectorOp op, const Tensor& to, const Tensor& a, const Tensor& b, const Groups& groups);

}  // namespace inlay::npu::rows
