#include "shapes/paged_attention.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::PagedAttentionShape> paged_attention;
