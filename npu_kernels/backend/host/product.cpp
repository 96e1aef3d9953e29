// Built once per ISA level with vectors; INLAY_LEVEL names it.
#include "npu_kernels/backend/host/product.hpp"

namespace inlay::npu::host {

template <> void multiply<isa::INLAY_LEVEL>(const Product& product) {
  if (product.fused)
    multiply_all<isa::INLAY_LEVEL, true>(product);
  else
    multiply_all<isa::INLAY_LEVEL, false>(product);
}

template <> void widen<isa::INLAY_LEVEL>(DType dtype, const void* from, float* to, index count) {
  using Level = isa::INLAY_LEVEL;
  switch (dtype) {
    case DType::f16: return widen_all<Level>(static_cast<const f16*>(from), to, count);
    case DType::bf16: return widen_all<Level>(static_cast<const bf16*>(from), to, count);
    case DType::i8: return widen_all<Level>(static_cast<const std::int8_t*>(from), to, count);
    case DType::u8: return widen_all<Level>(static_cast<const std::uint8_t*>(from), to, count);
    default: return widen_all<Level>(static_cast<const float*>(from), to, count);
  }
}

template <> index panel_columns<isa::INLAY_LEVEL>() { return Panel<isa::INLAY_LEVEL>::columns; }

}  // namespace inlay::npu::host
