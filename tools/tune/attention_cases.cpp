// Decoding over a cache, paged or not, and a prompt: the three attentions share their cut.
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "tools/tune/cases.hpp"

namespace inlay::tools {

namespace {

// Ulps of the largest element: means of values that are below 1.
constexpr double of_mean = 100;

struct Heads {
  index q, kv, dim;
};

void decode_cases(CaseMaker& make, index batch, index slots, Heads heads) {
  make.add("incre_flash_attention " + shape_text(DType::f16, batch, slots, heads.kv, heads.dim) + " by " +
               std::to_string(heads.q),
           of_mean, [=](Operands& o) {
             return IncreFlashAttention<Host>{.q = o.random<4>(DType::f16, {batch, 1, heads.q, heads.dim}),
                                              .k = o.random<4>(DType::f16, {batch, slots, heads.kv, heads.dim}),
                                              .v = o.random<4>(DType::f16, {batch, slots, heads.kv, heads.dim}),
                                              .out = o.output<4>(DType::f16, {batch, 1, heads.q, heads.dim})};
           });
}

void paged_cases(CaseMaker& make, index batch, index length, Heads heads) {
  constexpr index block = 16, x = 8;
  const index columns = groups_of(length, block);
  make.add("paged_attention " + shape_text(DType::f16, batch, length, heads.kv, heads.dim) + " by " +
               std::to_string(heads.q),
           of_mean, [=](Operands& o) {
             const std::array<index, 5> keys = {batch * columns, heads.kv, heads.dim / x, block, x};
             const std::array<index, 5> values = {batch * columns, heads.kv, heads.dim, block, 1};
             return PagedAttention<Host>{
                 .q = o.random<3>(DType::f16, {batch, heads.q, heads.dim}),
                 .k = o.random<5>(DType::f16, keys),
                 .v = o.random<5>(DType::f16, values),
                 .block_table = o.integers<2>(DType::i32, {batch, columns}, 0, batch * columns - 1),
                 .kv_lens = o.integers<1>(DType::i32, {batch}, length, length),
                 .out = o.output<3>(DType::f16, {batch, heads.q, heads.dim})};
           });
}

void prompt_cases(CaseMaker& make, index tokens, Heads heads) {
  make.add(
      "flash_attention " + shape_text(DType::f16, 1, tokens, heads.kv, heads.dim) + " by " + std::to_string(heads.q),
      of_mean, [=](Operands& o) {
        return FlashAttention<Host>{.q = o.random<4>(DType::f16, {1, tokens, heads.q, heads.dim}),
                                    .k = o.random<4>(DType::f16, {1, tokens, heads.kv, heads.dim}),
                                    .v = o.random<4>(DType::f16, {1, tokens, heads.kv, heads.dim}),
                                    .out = o.output<4>(DType::f16, {1, tokens, heads.q, heads.dim}),
                                    .causal = true};
      });
}

}  // namespace

void add_attention_cases(CaseMaker& make, const ClParameter& parameter) {
  if (parameter.op != "attention") return;
  const index dim = make.pick(128, 72);
  const Heads groups = {make.pick(32, 6), make.pick(8, 2), dim}, alone = {8, 8, dim};
  prompt_cases(make, make.pick(256, 21), groups);
  if (parameter.name != "lanes") return;
  decode_cases(make, make.pick(4, 2), make.pick(2048, 1100), groups);
  if (make.is_small()) return;  // kernels of their own layouts, which take PoCL seconds to build
  decode_cases(make, 4, 2048, alone);
  paged_cases(make, 4, 2048, groups);
}

}  // namespace inlay::tools
