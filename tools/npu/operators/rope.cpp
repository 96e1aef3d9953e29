#include "shapes/rope.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::RopeShape> rope;
