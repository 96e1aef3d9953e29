#include "shapes/kv_cache.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::ReshapeAndCacheShape> reshape_and_cache;
static const inlay::tools::Registered<inlay::CopyBlocksShape> copy_blocks;
static const inlay::tools::Registered<inlay::SwapBlocksShape> swap_blocks;
