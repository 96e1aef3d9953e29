// Prefill attention over padded, ragged or paged keys: npu_kernels/attention has the programs.
#include <inlay/ops/flash_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

Program program(GlobalMemory& memory, const FlashAttention<Host>& op, const Choices& choices) {
  return attend(memory, attention_problem(op), choices);
}

template <>
inline constexpr auto lists_read<FlashAttention<Host>> = std::tuple{
    &FlashAttention<Host>::q_indptr,    &FlashAttention<Host>::kv_indptr, &FlashAttention<Host>::kv_lens,
    &FlashAttention<Host>::block_table, &FlashAttention<Host>::q_start,   &FlashAttention<Host>::mask_indptr};

template struct Operator<FlashAttention<Host>>;

}  // namespace inlay::npu
