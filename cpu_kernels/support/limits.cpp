// Built once per ISA level; INLAY_LEVEL names it.
#include "cpu_kernels/support/limits.hpp"

namespace inlay::cpu {

template <> float read_range<isa::INLAY_LEVEL>(const std::byte* begin, const std::byte* end) {
  return read_bytes<isa::INLAY_LEVEL>(begin, end);
}
template <> double fma_rounds<isa::INLAY_LEVEL>(index rounds, float* sink) {
  return fma_chains<isa::INLAY_LEVEL>(rounds, sink);
}
template <> double bf16_rounds<isa::INLAY_LEVEL>(index rounds, float* sink) {
  return bf16_chains<isa::INLAY_LEVEL>(rounds, sink);
}
template <> double int8_rounds<isa::INLAY_LEVEL>(index rounds, float* sink) {
  return int8_chains<isa::INLAY_LEVEL>(rounds, sink);
}

}  // namespace inlay::cpu
