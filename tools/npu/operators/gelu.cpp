#include "shapes/gelu.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::GeluShape> gelu;
