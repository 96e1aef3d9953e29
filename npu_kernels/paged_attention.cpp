// Decode attention over a cache in blocks, of rows or of vLLM's pieces: npu_kernels/attention has the programs.
#include <inlay/ops/paged_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

Program program(GlobalMemory& memory, const PagedAttention<Host>& op, const Choices& choices) {
  return attend(memory, attention_problem(op), choices);
}

template <>
inline constexpr auto lists_read<PagedAttention<Host>> =
    std::tuple{&PagedAttention<Host>::block_table, &PagedAttention<Host>::kv_lens};

template struct Operator<PagedAttention<Host>>;

}  // namespace inlay::npu
