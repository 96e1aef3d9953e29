#include "shapes/linear_w4a16.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::LinearW4a16Shape> linear_w4a16;
