#include "shapes/swiglu.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::SwigluShape> swiglu;
