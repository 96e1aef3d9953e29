#include "shapes/dequantize.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::DequantizeShape> dequantize;
