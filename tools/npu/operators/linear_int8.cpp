#include "shapes/linear_int8.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::LinearInt8Shape> linear_int8;
