#include "shapes/quantize.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::QuantizeShape> quantize;
