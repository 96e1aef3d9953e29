// Writing keys and values into a paged cache, and copying its blocks.
#include <inlay/ops/kv_cache.hpp>

#include "tools/tune/cases.hpp"

namespace inlay::tools {

namespace {

constexpr index block = 16, x = 8;  // vLLM's layout of 16-bit keys

void write_cases(CaseMaker& make, index tokens, index heads, index dim) {
  const std::array<index, 5> cache = {groups_of(tokens, block), heads, dim / x, block, x};
  make.add("reshape_and_cache " + shape_text(DType::f16, tokens, heads, dim), 0, [=](Operands& o) {
    return ReshapeAndCache<Host>{.k = o.random<3>(DType::f16, {tokens, heads, dim}),
                                 .v = o.random<3>(DType::f16, {tokens, heads, dim}),
                                 .k_cache = o.random<5>(DType::f16, cache),
                                 .v_cache = o.random<5>(DType::f16, cache),
                                 .slot_mapping = o.counting(DType::i64, tokens)};
  });
}

void copy_cases(CaseMaker& make, index pairs, index heads, index dim) {
  const std::array<index, 5> cache = {2 * pairs, heads, dim / x, block, x};
  make.add("copy_blocks " + shape_text(DType::f16, pairs, heads, dim), 0, [=](Operands& o) {
    View<5> keys = o.random<5>(DType::f16, cache), values = o.random<5>(DType::f16, cache);
    const View<1> numbers = o.counting(DType::i64, 2 * pairs);  // source and target by turns
    return CopyBlocks<Host>{.k_cache = keys, .v_cache = values, .pairs = {numbers.data, DType::i64, {pairs, 2}}};
  });
}

}  // namespace

void add_cache_cases(CaseMaker& make, const ClParameter& parameter) {
  if (parameter.op != "kv_cache") return;
  if (parameter.name == "copy_lanes") return copy_cases(make, make.pick(64, 3), make.pick(8, 2), make.pick(128, 40));
  for (index tokens : {make.pick(512, 21), make.pick(16, 3)})
    write_cases(make, tokens, make.pick(8, 2), make.pick(128, 40));
}

}  // namespace inlay::tools
