// The operators that have a tile program, for the command line: one translation unit, as each would cost the headers of
// the backend again (18 of them took 99 of 2300 seconds of a processor to build all).
#include "shapes/add.hpp"
#include "shapes/dequantize.hpp"
#include "shapes/embedding.hpp"
#include "shapes/flash_attention.hpp"
#include "shapes/gelu.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/kv_cache.hpp"
#include "shapes/layer_norm.hpp"
#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"
#include "shapes/merge_states.hpp"
#include "shapes/moe_combine.hpp"
#include "shapes/moe_routing.hpp"
#include "shapes/paged_attention.hpp"
#include "shapes/quantize.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/sampling.hpp"
#include "shapes/softmax.hpp"
#include "shapes/swiglu.hpp"
#include "tools/npu/shape.hpp"

namespace inlay::tools {
namespace {

const Registered<AddShape> add;
const Registered<DequantizeShape> dequantize;
const Registered<EmbeddingShape> embedding;
const Registered<FlashAttentionShape> flash_attention;
const Registered<GeluShape> gelu;
const Registered<IncreFlashAttentionShape> incre_flash_attention;
const Registered<ReshapeAndCacheShape> reshape_and_cache;
const Registered<CopyBlocksShape> copy_blocks;
const Registered<SwapBlocksShape> swap_blocks;
const Registered<LayerNormShape> layer_norm;
const Registered<LinearShape> linear;
const Registered<LinearInt8Shape> linear_int8;
const Registered<LinearW4a16Shape> linear_w4a16;
const Registered<MergeStatesShape> merge_states;
const Registered<MoeCombineShape> moe_combine;
const Registered<MoeRoutingShape> moe_routing;
const Registered<PagedAttentionShape> paged_attention;
const Registered<QuantizeShape> quantize;
const Registered<RmsNormShape> rms_norm;
const Registered<RopeShape> rope;
const Registered<SamplingShape> sampling;
const Registered<SoftmaxShape> softmax;
const Registered<SwigluShape> swiglu;

}  // namespace
}  // namespace inlay::tools
