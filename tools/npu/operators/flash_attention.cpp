#include "shapes/flash_attention.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::FlashAttentionShape> flash_attention;
