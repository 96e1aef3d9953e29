#include "shapes/rms_norm.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::RmsNormShape> rms_norm;
