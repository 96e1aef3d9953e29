// What an operator is on the tile machine: in npu_kernels/<op>.cpp
//
//   Status   declined(const Device&, const RmsNorm<Host>&);                      optional: what the page declares
//   Program  program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);      binds its views, takes its workspace
//   template struct Operator<RmsNorm<Host>>;                                    (backend/operator.hpp)
//
// program() runs once for all calls of the same shapes, strides, types and scalars, and once for their estimate. It
// looks at no element of an operand but those of lists that it declares, whose contents count as a shape then,
//
//   template <> inline constexpr auto lists_read<PagedAttention<Host>> =
//   std::tuple{&PagedAttention<Host>::kv_lens};
//
// and of scalars that it declares not to read it sees zero:
//
//   template <> inline constexpr auto scalars_unread<Sampling<Host>> = std::tuple{&Sampling<Host>::seed};
//
// A weight that it lays out at each call may be packed once (backend/packed_weights.hpp):
//
//   WeightForm  weight_form(const Device&, const LinearInt8<Host>&);             optional: names the blocks
//   Packing     packing(GlobalMemory&, const LinearInt8<Host>&, const Choices&); optional: lays them out
//
// All of it before the template of the operator. Workspace is memory.workspace(..): in a run the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <tuple>

#include <inlay/npu_operator.hpp>

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/run/core.hpp"
#include "tile_machine/run/global_memory.hpp"

namespace inlay::npu {

class CostCache;  // tile_machine/estimate/estimate.hpp

struct Program {
  std::function<void(Core&)> body;  // holds its operands by value
  RooflineWork problem{};
  Launch launch{};
};

// What a program may choose by.
struct Choices {
  NpuActivations activations = NpuActivations::exact;
  CostCache* estimates = nullptr;  // of its variants
  std::string key = {};         // all that the program depends on
  std::byte* packed = nullptr;  // blocks of its weight, where it has been packed
};

// A weight, and the type that its blocks have: another x may ask for other ones.
struct WeightForm {
  const void* place = nullptr;  // none: the operator has no weight that is ever laid out
  DType dtype = DType::f32, unit = DType::f32;
  std::array<index, 3> extents{1, 1, 1}, strides{};
  bool operator==(const WeightForm&) const = default;
};
template <class V> WeightForm form_of(const V& weight, DType unit) {
  WeightForm form{.place = weight.data, .dtype = weight.dtype, .unit = unit};
  static_assert(V::rank <= 3);
  for (std::size_t axis = 0; axis < V::rank; ++axis) {
    form.extents[axis] = weight.extents[axis];
    form.strides[axis] = weight.strides[axis];
  }
  return form;
}

// What a weight of an operator becomes when it is packed. Of no bytes: its program has no pass to spare.
struct Packing {
  std::size_t bytes = 0;
  std::function<Program(GlobalMemory&, std::byte* to)> lay_out = {};
};

template <class Op> inline constexpr auto lists_read = std::tuple{};
template <class Op> inline constexpr auto scalars_unread = std::tuple{};

// Workers that are worth their start: each gets so many rows, or tiles, at least.
inline std::uint32_t cores_for(index pieces, index pieces_of_a_core, std::uint32_t cores) {
  const index wanted = (pieces + pieces_of_a_core - 1) / pieces_of_a_core;
  return static_cast<std::uint32_t>(wanted < 1 ? 1 : wanted > index{cores} ? index{cores} : wanted);
}

}  // namespace inlay::npu
