#include "bindings/c/row.hpp"

#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/merge_states.hpp>
#include <inlay/ops/paged_attention.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow attention_rows[] = {row<FlashAttention<Host>>, row<IncreFlashAttention<Host>>,
                                          row<MergeStates<Host>>, row<PagedAttention<Host>>};

}  // namespace

constinit const Group attention_group = attention_rows;

}  // namespace inlay::c
