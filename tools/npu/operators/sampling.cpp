#include "shapes/sampling.hpp"
#include "tools/npu/shape.hpp"

static const inlay::tools::Registered<inlay::SamplingShape> sampling;
