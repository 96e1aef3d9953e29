// Decode attention over a cache of rows, or over one for each sequence: npu_kernels/attention has the programs.
#include <inlay/ops/incre_flash_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

Program program(GlobalMemory& memory, const IncreFlashAttention<Host>& op, const Choices& choices) {
  return attend(memory, attention_problem(op), choices);
}

template <>
inline constexpr auto lists_read<IncreFlashAttention<Host>> = std::tuple{&IncreFlashAttention<Host>::kv_lens};

template struct Operator<IncreFlashAttention<Host>>;

}  // namespace inlay::npu
