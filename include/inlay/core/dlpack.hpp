// From and to DLPack's DLTensor. Templates on the tensor type, so that the headers of DLPack are
// needed by those who use it only.
//
//   Expected<View<2>> x = from_dlpack<2>(managed->dl_tensor);
#pragma once

#include <algorithm>
#include <string>

#include <inlay/core/inline.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

namespace detail {

// DLDataTypeCode: kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6.
struct DlType {
  unsigned code, bits;
};
inline constexpr DlType dl_types[dtype_count] = {{2, 32}, {2, 16}, {4, 16}, {0, 8},  {1, 8},
                                                 {0, 4},  {1, 4},  {0, 32}, {0, 64}, {6, 8}};
inline constexpr int dl_cpu = 1;  // kDLCPU

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

// The memory stays the tensor's. Refused: other devices than the CPU, another rank, vector lanes, and
// types that Inlay does not have.
template <int Rank, class DlTensor> Expected<View<Rank>> from_dlpack(const DlTensor& tensor) {
  const auto bad = [](const std::string& what) { return failure(StatusCode::invalid_argument, "DLTensor " + what); };
  if (static_cast<int>(tensor.device.device_type) != detail::dl_cpu)
    return bad("has device type " + std::to_string(static_cast<int>(tensor.device.device_type)) +
               "; it must be 1 (CPU)");
  if (tensor.ndim != Rank)
    return bad("has " + std::to_string(tensor.ndim) + " dimensions; it must have " + std::to_string(Rank));
  if (tensor.dtype.lanes != 1) return bad("has " + std::to_string(tensor.dtype.lanes) + " lanes; it must have 1");
  for (int i = 0; i < dtype_count; ++i) {
    if (detail::dl_types[i].code != tensor.dtype.code || detail::dl_types[i].bits != tensor.dtype.bits) continue;
    View<Rank> view;
    view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
    view.dtype = static_cast<DType>(i);
    std::copy_n(tensor.shape, Rank, view.extents.begin());
    if (tensor.strides != nullptr)
      std::copy_n(tensor.strides, Rank, view.strides.begin());
    else
      view.strides = contiguous_strides<Rank>(view.extents);
    return view;
  }
  return bad("has type code " + std::to_string(tensor.dtype.code) + " with " + std::to_string(tensor.dtype.bits) +
             " bits; it must be one of f32 f16 bf16 i8 u8 i4 u4 i32 i64 bool");
}

// A tensor over the view's memory and over the view itself, which holds shape and strides: both must
// outlive the result.
template <class DlTensor, int Rank> DlTensor to_dlpack(View<Rank>& view) {
  DlTensor tensor{};
  tensor.data = view.data;
  tensor.device.device_type = static_cast<decltype(tensor.device.device_type)>(detail::dl_cpu);
  tensor.ndim = Rank;
  tensor.dtype.code = static_cast<decltype(tensor.dtype.code)>(detail::dl_types[static_cast<int>(view.dtype)].code);
  tensor.dtype.bits = static_cast<decltype(tensor.dtype.bits)>(bits(view.dtype));
  tensor.dtype.lanes = 1;
  tensor.shape = view.extents.data();
  tensor.strides = view.strides.data();
  return tensor;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
