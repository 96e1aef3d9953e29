#include "shapes/linear.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::LinearShape> linear;
