// Decoding over a cache, paged or not, and a prompt: the three attentions share their cut.
#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/paged_attention.hpp"
#include "tools/tune/cases.hpp"

namespace inlay::tools {

void add_attention_cases(CaseMaker& make, const ClParameter& parameter) {
  if (parameter.op != "attention") return;
  // Ulps of the largest element: means of values that are below 1.
  const auto add = [&](const char* op, index batch, index keys, const auto& shape) {
    constexpr double of_mean = 100;
    make.add(std::string(op) + " " + shape_text(DType::f16, batch, keys, shape.kv_heads, shape.dim) + " by " +
                 std::to_string(shape.heads),
             of_mean, shape);
  };
  const index dim = make.pick(128, 72), heads = make.pick(32, 6), kv_heads = make.pick(8, 2);
  const FlashAttentionShape prompt{.queries = make.pick(256, 21), .heads = heads, .kv_heads = kv_heads, .dim = dim};
  if (parameter.name != "part") add("flash_attention", 1, prompt.keys, prompt);
  if (parameter.name == "unit_rows") return;
  IncreFlashAttentionShape decode{make.pick(4, 2), heads, kv_heads, dim, make.pick(2048, 1100)};
  add("incre_flash_attention", decode.sequences, decode.length, decode);
  if (make.is_small()) return;  // kernels of their own layouts, which take PoCL seconds to build
  decode.heads = decode.kv_heads = 8;
  add("incre_flash_attention", decode.sequences, decode.length, decode);
  const PagedAttentionShape paged{
      .heads = heads, .kv_heads = kv_heads, .dim = dim, .length = 2048, .layout = CacheLayout::vllm};
  add("paged_attention", paged.sequences, paged.length, paged);
}

}  // namespace inlay::tools
