#include "shapes/incre_flash_attention.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::IncreFlashAttentionShape> incre_flash_attention;
