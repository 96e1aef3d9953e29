#include "shapes/softmax.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::SoftmaxShape> softmax;
