#include "npu_kernels/backend/host_product.hpp"

#include <inlay/cpu.hpp>

#include "npu_kernels/backend/host/product.hpp"

namespace inlay::npu {

namespace {
struct Dispatched {};  // levels without vectors of their own are avx512
}  // namespace

tiles::HostProduct host_product(Isa isa) {
  return cpu::dispatch<Dispatched>(isa, []<class Level>(Level) -> tiles::HostProduct {
    if constexpr (std::is_same_v<Level, isa::scalar>)
      return {};
    else
      return {host::multiply<Level>, host::widen<Level>, host::panel_columns<Level>()};
  });
}

}  // namespace inlay::npu
