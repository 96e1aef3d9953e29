// Writing keys and values into a paged cache, and copying its blocks.
#include "shapes/kv_cache.hpp"
#include "tools/tune/cases.hpp"

namespace inlay::tools {

void add_cache_cases(CaseMaker& make, const ClParameter& parameter) {
  if (parameter.op != "kv_cache") return;
  PagedCacheShape cache{.heads = make.pick(8, 2), .dim = make.pick(128, 40), .layout = CacheLayout::in_pieces};
  if (parameter.name == "copy_lanes") {
    const index pairs = make.pick(64, 3);
    cache.blocks = 2 * pairs;
    return make.add("copy_blocks " + shape_text(DType::f16, pairs, cache.heads, cache.dim), 0,
                    CopyBlocksShape{pairs, cache});
  }
  for (index tokens : {make.pick(512, 21), make.pick(16, 3)}) {
    cache.blocks = groups_of(tokens, cache.block);
    make.add("reshape_and_cache " + shape_text(DType::f16, tokens, cache.heads, cache.dim), 0,
             ReshapeAndCacheShape{tokens, DType::f16, cache});
  }
}

}  // namespace inlay::tools
